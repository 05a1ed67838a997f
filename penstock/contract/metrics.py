"""Definitions of all metrics: name, description, labels, unit. Names are durable: never rename one."""

from typing import NamedTuple


class Metric(NamedTuple):
    """One metric. `buckets` are the upper bounds of a histogram, in its unit."""

    name: str
    description: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()


EVALUATION_SECONDS = Metric(
    "penstock_evaluation_seconds",
    "Duration of a decision, without fetching the state.",
    ("cluster",),
    "s",
    # A small cluster takes milliseconds, a hundred thousand tasks up to a second; the rest is for overloaded workers.
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
EVALUATION_FAILURES = Metric(
    "penstock_evaluation_failures", "Evaluations that failed, each counted once with all its attempts.", ("cluster",)
)
EVALUATED = Metric(
    "penstock_evaluated_timestamp_seconds", "When this process last evaluated the cluster, in Unix time.", ("cluster",), "s"
)
TASKS = Metric("penstock_tasks", "Tasks of the demand, by outcome.", ("cluster", "outcome"))
UNMET = Metric("penstock_unmet", "Unmet tasks, by reason.", ("cluster", "reason"))
SLICES = Metric("penstock_slices", "Slices in the ledger.", ("cluster", "group", "state"))
COST_PER_HOUR = Metric("penstock_cost_per_hour", "Cost per hour of the existing slices of groups with a price.", ("cluster",))
TIME_TO_READY_SECONDS = Metric(
    "penstock_time_to_ready_seconds",
    "Time from the order of a slice until it is READY.",
    ("cluster", "group"),
    "s",
    # Machines boot in seconds to minutes; a slice in a cloud's queue may take hours.
    (1, 2.5, 5, 10, 20, 30, 60, 90, 120, 180, 300, 450, 600, 900, 1800, 3600, 7200, 21600, 86400),
)
CREATE_ERRORS = Metric("penstock_create_errors", "Failed create calls, by kind.", ("provider", "kind"))
DELETIONS_OVERDUE = Metric(
    "penstock_deletions_overdue", "Deletions that exceeded their deadline, each counted once.", ("cluster", "group")
)
DRAINS_BEGUN = Metric("penstock_drains_begun", "Drains that slices began, by cause.", ("cluster", "group", "cause"))
DRAINS_ENDED = Metric(
    "penstock_drains_ended", "Drains that ended, by cause and by how they ended.", ("cluster", "group", "cause", "how")
)
LOCATION_PROBLEM = Metric(
    "penstock_location_problem",
    "1 while a location cannot be watched or listed, by kind of problem; 0 once it can.",
    ("cluster", "location", "kind"),
)
COST_BY_USE = Metric(
    "penstock_cost_per_hour_by_use",
    "Cost per hour of slices with a price: busy, idle, on the way, draining or unreported.",
    ("cluster", "group", "use"),
)
IDLE_COST_OF_DAY = Metric("penstock_idle_cost_of_day", "What idle slices have cost in the last 24 hours.", ("cluster",))
SOURCE_HEARD = Metric(
    "penstock_source_heard_timestamp_seconds",
    "When a source of usage that has named slices was last heard, in Unix time; 0 once it names none.",
    ("cluster", "source"),
    "s",
)
SLICES_UNREPORTED = Metric(
    "penstock_slices_unreported",
    "READY slices that no usage report has named, once the first has been READY for ready_grace.",
    ("cluster", "group"),
)
SLICES_UNCLAIMED = Metric(
    "penstock_slices_unclaimed", "READY slices that no source has named though one should have.", ("cluster", "group")
)
GROUP_PRESSURE = Metric(
    "penstock_group_pressure", "Pressure on a group by the last decision, in slices.", ("cluster", "group", "kind")
)
POOL_PRESSURE = Metric(
    "penstock_pool_pressure", "Pressure on a pool by the last decision, in chips.", ("cluster", "pool", "kind")
)
LOCATION_FAILURES = Metric(
    "penstock_location_failures",
    "Failed attempts to list a location or to start its inventory, and defects in other calls there, by kind.",
    ("cluster", "location", "kind"),
)

OF_STATUS = (
    LOCATION_PROBLEM,
    COST_BY_USE,
    IDLE_COST_OF_DAY,
    SOURCE_HEARD,
    SLICES_UNREPORTED,
    SLICES_UNCLAIMED,
    GROUP_PRESSURE,
    POOL_PRESSURE,
)
"""Gauges of what the status of a cluster tells."""
METRICS = (
    EVALUATION_SECONDS,
    EVALUATION_FAILURES,
    EVALUATED,
    TASKS,
    UNMET,
    SLICES,
    COST_PER_HOUR,
    TIME_TO_READY_SECONDS,
    CREATE_ERRORS,
    DELETIONS_OVERDUE,
    DRAINS_BEGUN,
    DRAINS_ENDED,
    LOCATION_FAILURES,
    *OF_STATUS,
)
"""All metrics."""

UNMET_OUTCOME = "unmet"
"""The label `outcome` of unplaced tasks; for placed tasks it is their tier."""
PRESSURE_KINDS = ("capacity", "logical", "accounted_for")
"""The label `kind` of pressure: denied demand, use above the watermark, launched or moving already."""
OPERATOR = "operator"
"""The label `cause` of drains that operators order: their own words would make a series of every drain."""
TRANSIENT = "transient"
"""The label `kind` of create errors that Temporal retries, without a failure of the slice."""
