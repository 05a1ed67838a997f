"""The text that an embedded service prints once it runs: its addresses, and the commands to type next."""

import os
import sys
from pathlib import Path

from embedded.data_dir import DataDir
from penstock.local_service import DATA_DIR, GCP_DATA_DIR


def welcome(
    data_dir: DataDir, *, address: str, ui: str, demand: Path | None, controller: Path | None, changed: Path | None
) -> str:
    """The text. Its commands work as printed in another terminal of the same directory.

    `demand` is a file that suits the cluster, and `controller` a program that runs its tasks, if there are any. `changed` is a
    cluster file that differs from the cluster's active configuration.
    """
    penstock, temporal = _command("penstock"), _command("temporal")
    exports = [] if _has_notes(data_dir) else [f"export TEMPORAL_ADDRESS={address}"]
    lines = [
        "",
        f"Temporal UI: {ui}",
        "",
        "In another terminal, in this directory:",
        *(f"  {line}" for line in exports),
        f"  {penstock} status --watch",
        f"  {penstock} demand submit {demand or 'FILE'}",
        *([] if controller is None else [f"  {_command('python')} {controller}"]),
        f"  {penstock} slices",
        f"  {penstock} verify",
        f"  {temporal} --config-file {data_dir.temporal_config} workflow list",
        "",
        *([] if changed is None else _difference(penstock, changed)),
        f"Ctrl-C stops everything. The data stays in {data_dir.path}/ for the next start.",
    ]
    return "\n".join(lines)


def _difference(penstock: str, changed: Path) -> list[str]:
    return [
        f"{changed} differs from the cluster's active configuration, which stays in force. Compare them, or apply the file:",
        f"  {penstock} config diff {changed}",
        f"  {penstock} config apply {changed}",
        "",
    ]


def _command(name: str) -> str:
    """A command of this Python's environment as it can be typed here."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        return name
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _has_notes(data_dir: DataDir) -> bool:
    """Whether commands typed in this directory find the service by its notes."""
    return data_dir.path.resolve() in (DATA_DIR.resolve(), GCP_DATA_DIR.resolve())
