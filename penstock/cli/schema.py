"""`penstock schema`: the JSON Schema of every file, message and answer."""

import json
from typing import Any

import click
from pydantic import TypeAdapter

from penstock.cli.failures import CommandFailed
from penstock.cli.render_clusters import ClusterSummary
from penstock.cli.render_demand import SourceDetails
from penstock.cli.render_slices import SliceDetails
from penstock.config.demand import DemandFile
from penstock.config.slices import SlicesFile
from penstock.contract.answers import ClusterStatus, DecisionSummary, DoctorReport, Explanation, SlicePage, Verdict
from penstock.contract.effects import Effects
from penstock.contract.error_codes import ErrorCode
from penstock.contract.messages import (
    CapacityMessage,
    ClearBlockMessage,
    ConfirmDrainMessage,
    CordonMessage,
    DemandMessage,
    DrainMessage,
    ForgetSourceMessage,
    KeepMessage,
    PauseMessage,
    PressureMessage,
    ReportMessage,
    UsageMessage,
)
from penstock.contract.slice_answers import SliceExplanation
from penstock.core.state.events import AnyEvent
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Decision
from penstock.model.demand import Demand, Task
from penstock.model.pressure import PressureReport
from penstock.model.snapshot import Snapshot
from penstock.wording import did_you_mean

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
    "slice-explanation": (SliceExplanation, "serialization"),
    "report-message": (ReportMessage, "validation"),
    "demand-message": (DemandMessage, "validation"),
    "usage-message": (UsageMessage, "validation"),
    "pressure-message": (PressureMessage, "validation"),
    "pressure-report": (PressureReport, "validation"),
    "confirm-drain-message": (ConfirmDrainMessage, "validation"),
    "capacity-message": (CapacityMessage, "validation"),
    "forget-source-message": (ForgetSourceMessage, "validation"),
    "drain-message": (DrainMessage, "validation"),
    "keep-message": (KeepMessage, "validation"),
    "cordon-message": (CordonMessage, "validation"),
    "clear-block-message": (ClearBlockMessage, "validation"),
    "pause-message": (PauseMessage, "validation"),
    "cluster-status": (ClusterStatus, "serialization"),
    "effects": (Effects, "serialization"),
    "slice-page": (SlicePage, "serialization"),
    "slice-details": (SliceDetails, "serialization"),
    "cluster-summary": (ClusterSummary, "serialization"),
    "source-details": (SourceDetails, "serialization"),
    "verdict": (Verdict, "serialization"),
    "doctor-report": (DoctorReport, "serialization"),
}
"""Files and messages are described as Penstock reads them, answers as it writes them."""


@click.command()
@click.argument(
    "name", required=False, shell_complete=lambda _context, _parameter, start: [n for n in _SCHEMAS if n.startswith(start)]
)
def schema(name: str | None) -> None:
    """All of them by name, or only that called NAME."""
    print_schemas(name)


def print_schemas(name: str | None) -> None:
    """Print one schema, or all of them by name."""
    if name is not None and name not in _SCHEMAS:
        hint = did_you_mean(name, list(_SCHEMAS), noun="schemas", listing=len(_SCHEMAS))
        raise CommandFailed(f"there is no schema {name!r}; {hint}", code=ErrorCode.BAD_INPUT)
    schemas = {key: _schema(key) for key in ([name] if name else _SCHEMAS)}
    click.echo(json.dumps(schemas[name] if name else schemas, indent=2))


def _schema(name: str) -> dict[str, Any]:
    value, mode = _SCHEMAS[name]
    described = TypeAdapter(value).json_schema(mode="validation" if mode == "validation" else "serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
