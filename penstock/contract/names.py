"""Durable names of workflows, activities, signals, updates, queries, search attributes and ids: never rename one."""

import re
from datetime import UTC, datetime

AUTOSCALER = "AutoscalerWorkflow"
SLICE = "SliceLifecycleWorkflow"
INVENTORY = "InventoryWorkflow"
VERIFY = "VerifyWorkflow"
DOCTOR = "DoctorWorkflow"

TASK_QUEUE = "penstock"
"""Default task queue of workflows and activities."""

# Activities.
EVALUATE = "evaluate"
COLLECT_REPORTS = "collect_reports"
KEEP_INVENTORIES = "keep_inventories"
SEND_COMMANDS = "send_commands"
CREATE = "create"
OBSERVE = "observe"
DELETE = "delete"
WATCH = "watch"
AUDIT = "audit"
VERIFY_CLUSTER = "verify_cluster"
RUN_DOCTOR = "doctor"
LIST_WORKERS = "list_workers"
READ_CLOCK = "read_clock"

# Signals of the autoscaler, from controllers.
REPORT = "report"
DEMAND = "demand"
USAGE = "usage"
PRESSURE = "pressure"
CONFIRM_DRAIN = "confirm_drain"

# Signals of the autoscaler, from slices and inventories.
SLICES_REPORTED = "slices_reported"
LOCATION_REPORTED = "location_reported"
GATHERED_SIGNALS, GATHERED_NAME = "~signals", "signal"
"""Many signals of one activation as one, by the worker itself, and the metadata of each payload that holds its signal's name."""

# Updates of the autoscaler.
SUBMIT_DEMAND = "submit_demand"
FORGET_SOURCE = "forget_source"
APPLY_CONFIG = "apply_config"
REQUEST_CAPACITY = "request_capacity"
DRAIN_SLICE = "drain_slice"
CANCEL_DRAIN = "cancel_drain"
KEEP_SLICE = "keep_slice"
CORDON_SLICE = "cordon_slice"
CLEAR_BLOCK = "clear_block"
PAUSE = "pause"
RESUME = "resume"
CLOSE = "close"

# Queries of the autoscaler.
STATUS = "status"
DECISION = "decision"
EXPLAIN = "explain"
EXPLAIN_SLICE = "explain_slice"
SLICES = "slices"
DUMP = "dump"

# Messages to a slice: as an update, which answers with its report; as a signal, it reports by itself.
OBSERVED = "observed"
COMMAND = "command"

# Query of a slice.
LIFECYCLE = "lifecycle"

# Signal and query of an inventory.
AUDIT_NOW = "audit_now"
LOCATION = "location"

CLUSTER_ATTRIBUTE = "PenstockCluster"
GROUP_ATTRIBUTE = "PenstockGroup"
STATE_ATTRIBUTE = "PenstockState"
CAUSE_ATTRIBUTE = "PenstockCause"
SEARCH_ATTRIBUTES = (CLUSTER_ATTRIBUTE, GROUP_ATTRIBUTE, STATE_ATTRIBUTE, CAUSE_ATTRIBUTE)
"""Keyword attributes for filtering workflows in the Temporal UI."""


def watches_queue(task_queue: str) -> str:
    """The task queue of watches and audits of locations, for all clusters whose workflows run on `task_queue`."""
    return f"{task_queue}/watches"


def autoscaler_id(cluster: str) -> str:
    """Workflow id of a cluster's autoscaler."""
    return f"penstock/{cluster}"


def worker_queue(task_queue: str, identity: str) -> str:
    """The task queue of one worker process, for questions to that process alone."""
    return f"{task_queue}/~worker/{identity}"


def slice_id(group: str, ordered_at: datetime, chance: str) -> str:
    """Id of a new slice. Ids sort by launch time; `chance`, eight random hexadecimal digits, distinguishes ids of one second."""
    return f"{group}-{ordered_at:%y%m%d-%H%M%S}-{chance}"


_SLICE_ID = re.compile(r"(?P<group>.+)-(?P<ordered_at>\d{6}-\d{6})-[0-9a-f]{8}")


def group_named_in(slice_id: str) -> str | None:
    """The group in a slice id; None if the text is not a slice id."""
    found = _SLICE_ID.fullmatch(slice_id)
    return found["group"] if found else None


def ordered_at(slice_id: str) -> datetime | None:
    """When a slice was ordered, to the second; None if the text is not a slice id."""
    found = _SLICE_ID.fullmatch(slice_id)
    try:
        return datetime.strptime(found["ordered_at"], "%y%m%d-%H%M%S").replace(tzinfo=UTC) if found else None
    except ValueError:  # Digits that are no time: a group may be called so.
        return None


def slice_workflow_id(cluster: str, group: str, slice_id: str) -> str:
    """Workflow id of a slice."""
    return f"penstock/{cluster}/{group}/{slice_id}"


def inventory_id(cluster: str, account: str, location: str) -> str:
    """Workflow id of a location's inventory. The tilde prevents a clash with group names."""
    return f"penstock/{cluster}/~inventory/{account}/{location}"
