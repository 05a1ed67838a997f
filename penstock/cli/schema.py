"""`penstock schema`: the JSON Schema of every file and message."""

import json
from typing import Any

import click
from pydantic import TypeAdapter

from penstock.cli.failures import EXIT_BAD_INPUT
from penstock.config.demand import DemandFile
from penstock.config.slices import SlicesFile
from penstock.contract.answers import ClusterStatus, DecisionSummary, DoctorReport, Explanation, SlicePage, Verdict
from penstock.contract.messages import (
    CapacityMessage,
    ClearBlockMessage,
    ConfirmDrainMessage,
    DemandMessage,
    DrainMessage,
    PauseMessage,
    ReportMessage,
    UsageMessage,
)
from penstock.core.state.events import AnyEvent
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Decision
from penstock.model.demand import Demand, Task
from penstock.model.snapshot import Snapshot

_SCHEMAS: dict[str, tuple[Any, str]] = {
    "cluster": (ClusterConfig, "validation"),
    "demand-file": (DemandFile, "validation"),
    "slices-file": (SlicesFile, "validation"),
    "task": (Task, "validation"),
    "demand": (Demand, "validation"),
    "event": (AnyEvent, "validation"),
    "snapshot": (Snapshot, "validation"),
    "state": (AutoscalerState, "validation"),
    "decision": (Decision, "serialization"),
    "decision-summary": (DecisionSummary, "serialization"),
    "explanation": (Explanation, "serialization"),
    "report-message": (ReportMessage, "validation"),
    "demand-message": (DemandMessage, "validation"),
    "usage-message": (UsageMessage, "validation"),
    "confirm-drain-message": (ConfirmDrainMessage, "validation"),
    "capacity-message": (CapacityMessage, "validation"),
    "drain-message": (DrainMessage, "validation"),
    "clear-block-message": (ClearBlockMessage, "validation"),
    "pause-message": (PauseMessage, "validation"),
    "cluster-status": (ClusterStatus, "serialization"),
    "slice-page": (SlicePage, "serialization"),
    "verdict": (Verdict, "serialization"),
    "examination": (DoctorReport, "serialization"),
}
"""What may be written is described as it is read; what Penstock writes, as it is written."""


@click.command(short_help="Print the JSON Schemas of files and messages.")
@click.argument("name", required=False)
def schema(name: str | None) -> None:
    """Print the JSON Schemas of every file and message, or of the one called NAME."""
    raise SystemExit(run_schema(name))


def run_schema(name: str | None) -> int:
    """Print one schema, or all of them by name."""
    if name is not None and name not in _SCHEMAS:
        click.echo(f"penstock schema: no schema is called {name!r}; schemas: {', '.join(_SCHEMAS)}", err=True)
        return EXIT_BAD_INPUT
    schemas = {key: _schema(key) for key in ([name] if name else _SCHEMAS)}
    click.echo(json.dumps(schemas[name] if name else schemas, indent=2))
    return 0


def _schema(name: str) -> dict[str, Any]:
    value, mode = _SCHEMAS[name]
    described = TypeAdapter(value).json_schema(mode="validation" if mode == "validation" else "serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
