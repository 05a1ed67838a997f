"""The results of `penstock verify` and `penstock doctor` for a terminal."""

from rich.console import Group, RenderableType
from rich.markup import escape

from penstock.cli.terminal import Prose, titled
from penstock.contract.answers import DoctorReport, Verdict
from penstock.wording import counted


def verdict_view(verdict: Verdict) -> RenderableType:
    """Whether the ledger, the workflows and the cloud agree, and every difference."""
    counts = (
        f"{verdict.slices:,} in the ledger, {counted(verdict.workflows, 'slice workflow')}, "
        f"{counted(verdict.resources, 'resource')} in {counted(verdict.locations, 'location')}, at {verdict.at:%H:%M:%S}Z"
    )
    if verdict.agrees:
        return Prose(f"[green]{escape(verdict.cluster)} agrees[/]: {counts}.")
    parts: list[RenderableType] = [Prose(f"[red]{escape(verdict.cluster)} does not agree[/]: {counts}.")]
    if verdict.differences:
        table = titled("Differences", style="bold red")
        for name in ("slice", "kind", "location", "difference"):
            table.add_column(name, overflow="fold")
        for item in verdict.differences:
            table.add_row(escape(item.slice_id), f"[red]{escape(item.kind)}[/]", escape(item.location), escape(item.message))
        parts.append(table)
    parts += [Prose(f"[red]No complete list[/] of {escape(key)}: it may hold more resources.") for key in verdict.unlisted]
    return Group(*parts)


def doctor_view(found: DoctorReport) -> RenderableType:
    """Every finding, with a fix for those that need attention."""
    parts: list[RenderableType] = []
    for finding in found.findings:
        mark = "[green]✓[/]" if finding.ok else "[red]✗[/]"
        parts.append(Prose(f"{mark} [bold]{escape(finding.subject)}[/]: {escape(finding.message)}"))
        if not finding.ok and finding.fix:
            parts.append(Prose(escape(finding.fix), label="  → "))
    failed = sum(not finding.ok for finding in found.findings)
    attention = f"{failed} of {len(found.findings)} {'needs' if failed == 1 else 'need'} attention."
    parts.append(f"[red]{attention}[/]" if failed else "[green]All is well.[/]")
    return Group(*parts)
