"""Durable names: of workflows and slices, signals, updates, queries and search attributes. None of them is ever renamed."""

import re
from datetime import datetime

AUTOSCALER = "AutoscalerWorkflow"
SLICE = "SliceLifecycleWorkflow"
INVENTORY = "InventoryWorkflow"
VERIFY = "VerifyWorkflow"
DOCTOR = "DoctorWorkflow"

TASK_QUEUE = "penstock"
"""Where workflows and activities run, unless a worker is told otherwise."""

# Activities.
EVALUATE = "evaluate"
COLLECT_REPORTS = "collect_reports"
KEEP_INVENTORIES = "keep_inventories"
CREATE = "create"
OBSERVE = "observe"
DELETE = "delete"
WATCH = "watch"
AUDIT = "audit"
VERIFY_CLUSTER = "verify_cluster"
RUN_DOCTOR = "doctor"

# Signals of the autoscaler, from controllers.
REPORT = "report"
DEMAND = "demand"
USAGE = "usage"
PRESSURE = "pressure"
CONFIRM_DRAIN = "confirm_drain"

# Signals of the autoscaler, from slices and inventories.
SLICES_REPORTED = "slices_reported"
LOCATION_REPORTED = "location_reported"

# Updates of the autoscaler.
SUBMIT_DEMAND = "submit_demand"
APPLY_CONFIG = "apply_config"
REQUEST_CAPACITY = "request_capacity"
DRAIN_SLICE = "drain_slice"
CANCEL_DRAIN = "cancel_drain"
CLEAR_BLOCK = "clear_block"
PAUSE = "pause"
RESUME = "resume"
CLOSE = "close"

# Queries of the autoscaler.
STATUS = "status"
DECISION = "decision"
EXPLAIN = "explain"
SLICES = "slices"
DUMP = "dump"

# Signals of a slice.
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
"""Keywords by which the Temporal UI finds workflows."""


def autoscaler_id(cluster: str) -> str:
    """The workflow that decides for a cluster."""
    return f"penstock/{cluster}"


def slice_id(group: str, ordered_at: datetime, chance: str) -> str:
    """A slice of a group. Ids sort by the time of their order; eight random hexadecimal digits tell those of one second apart."""
    return f"{group}-{ordered_at:%y%m%d-%H%M%S}-{chance}"


_SLICE_ID = re.compile(r"(?P<group>.+)-\d{6}-\d{6}-[0-9a-f]{8}")


def group_named_in(slice_id: str) -> str | None:
    """The group that the id of a slice begins with; None if no order ever gave such an id."""
    found = _SLICE_ID.fullmatch(slice_id)
    return found["group"] if found else None


def slice_workflow_id(cluster: str, group: str, slice_id: str) -> str:
    """The workflow that owns a slice."""
    return f"penstock/{cluster}/{group}/{slice_id}"


def inventory_id(cluster: str, account: str, location: str) -> str:
    """The workflow that looks at a location of a provider; the tilde keeps it apart from groups."""
    return f"penstock/{cluster}/~inventory/{account}/{location}"
