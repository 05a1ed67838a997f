"""Write and read golden histories, small and without data of the machine they were recorded on."""

import json
import re
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHandle, WorkflowHistory

HISTORIES = Path(__file__).with_name("histories")
_SCRUBBED = {"identity": "worker", "stackTrace": "", "binaryChecksum": "", "requestId": "", "workerInstanceKey": ""}
"""Fields that identify a process or a directory, and do not affect replay."""
_PROCESS = re.compile(r"\b\d+@[\w.-]+")
"""The identity of a worker, which the doctor passes on: its process and its host."""
_STICKY = "TASK_QUEUE_KIND_STICKY"
"""The kind of queue whose name is that of a process and its host."""


async def save(name: str, handle: "WorkflowHandle[Any, Any]") -> None:
    """Write the history of a run as a golden one."""
    history = await handle.fetch_history()
    HISTORIES.mkdir(exist_ok=True)
    _write(name, {"workflow_id": handle.id, **history.to_json_dict()})


def names() -> list[str]:
    """Every golden history."""
    return sorted(path.stem for path in HISTORIES.glob("*.json"))


def load(name: str) -> WorkflowHistory:
    """A golden history, ready for replay."""
    document = json.loads((HISTORIES / f"{name}.json").read_text())
    return WorkflowHistory.from_json(document.pop("workflow_id"), document)


def _write(name: str, document: dict[str, Any]) -> None:
    text = json.dumps(_scrubbed(document), separators=(",", ":"), ensure_ascii=False)
    (HISTORIES / f"{name}.json").write_text(text + "\n")


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return _PROCESS.sub("worker", value)
    if isinstance(value, dict):
        scrubbed = {key: _SCRUBBED.get(key, _scrubbed(item)) for key, item in value.items()}
        if isinstance(scrubbed.get("data"), str):
            scrubbed["data"] = b64encode(_scrubbed(b64decode(scrubbed["data"]).decode()).encode()).decode()
        return scrubbed | {"name": "sticky"} if value.get("kind") == _STICKY else scrubbed
    return [_scrubbed(item) for item in value] if isinstance(value, list) else value
