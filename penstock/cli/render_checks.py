"""What verify and doctor found, for a terminal."""

from rich.console import Group, RenderableType
from rich.markup import escape

from penstock.cli.screen import titled
from penstock.contract.answers import DoctorReport, Verdict
from penstock.wording import counted


def verdict_view(verdict: Verdict) -> RenderableType:
    """Whether ledger, workflows and cloud tell the same story, and where not."""
    counts = (
        f"{verdict.slices:,} in the ledger, {counted(verdict.workflows, 'slice workflow')}, "
        f"{counted(verdict.resources, 'resource')} in {counted(verdict.locations, 'location')}, at {verdict.at:%H:%M:%S}Z"
    )
    if verdict.agrees:
        return f"[green]{escape(verdict.cluster)} agrees[/]: {counts}."
    parts: list[RenderableType] = [f"[red]{escape(verdict.cluster)} does not agree[/]: {counts}."]
    if verdict.differences:
        table = titled("Differences", style="bold red")
        for name in ("slice", "what", "where", "difference"):
            table.add_column(name, overflow="fold")
        for item in verdict.differences:
            table.add_row(escape(item.slice_id), f"[red]{escape(item.kind)}[/]", escape(item.location), escape(item.message))
        parts.append(table)
    parts += [f"[red]No complete list[/] of {escape(place)}: what is there is not known." for place in verdict.unlisted]
    return Group(*parts)


def examination_view(examination: DoctorReport) -> RenderableType:
    """Each thing that was looked at, and what to do about those that are not well."""
    parts = []
    for finding in examination.findings:
        mark = "[green]✓[/]" if finding.ok else "[red]✗[/]"
        parts.append(f"{mark} [bold]{escape(finding.subject)}[/]: {escape(finding.message)}")
        if not finding.ok and finding.fix:
            parts.append(f"  → {escape(finding.fix)}")
    ill = sum(not finding.ok for finding in examination.findings)
    needing = f"{ill} of {len(examination.findings)} {'needs' if ill == 1 else 'need'} attention."
    parts.append("[green]All is well.[/]" if not ill else f"[red]{needing}[/]")
    return Group(*parts)
