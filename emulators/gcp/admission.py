"""Admission checks of the Google emulator: names, labels, types, permissions, rate limit, quota and capacity."""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from emulators.behaviour import name_in_scope
from emulators.gcp import error_messages
from emulators.gcp.behaviour import Behaviour
from emulators.gcp.faults import Failure
from emulators.gcp.records import Api, Kind, Machine, Operation, Stage

_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_MAX_LABELS = 64
_WITHOUT_CAPACITY = (Stage.PENDING, Stage.PREEMPTED)
"""Stages in which a machine uses no capacity."""
_CREATE_VERBS = ("create", "insert", "bulkInsert")


def check_name(field: str, name: str) -> None:
    """Refuse a name that is not an RFC 1035 label."""
    if not _NAME.fullmatch(name):
        raise error_messages.invalid_field(field, name, f"Must be a match of regex '{_NAME.pattern}'")


def check_zone(zone: str) -> None:
    """Refuse text that cannot be the name of a zone."""
    if not _NAME.fullmatch(zone):
        raise error_messages.invalid_field("zone", zone, "Unknown zone.")


def check_labels(field: str, labels: Mapping[str, str]) -> None:
    """Refuse labels that Google does not accept."""
    if len(labels) > _MAX_LABELS:
        raise error_messages.invalid_field(field, str(len(labels)), f"At most {_MAX_LABELS} labels are allowed.")
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key):
            raise error_messages.invalid_field(field, key, f"Label keys must match '{_LABEL_KEY.pattern}'")
        if not _LABEL_VALUE.fullmatch(value):
            raise error_messages.invalid_field(field, value, f"Label values must match '{_LABEL_VALUE.pattern}'")


def check_offered(behaviour: Behaviour, zone: str, variant: str) -> None:
    """Refuse a type that the zone does not offer."""
    if behaviour.invalid or (behaviour.offers is not None and variant not in behaviour.offers):
        raise error_messages.unknown_type(zone, variant)


def check_permission(behaviour: Behaviour, api: Api, *, project: str, zone: str) -> None:
    """Refuse every call to a zone without permission."""
    if behaviour.permission_denied is not None:
        raise error_messages.permission_denied(api, behaviour.permission_denied, project=project, zone=zone)


def check_rate(
    behaviour: Behaviour, api: Api, operations: Iterable[Operation], *, project: str, zone: str, now: datetime
) -> None:
    """Refuse a create beyond the rate limit of the zone."""
    rate = behaviour.rate
    if rate is None:
        return
    window = timedelta(seconds=rate.seconds)
    creates = (o for o in operations if (o.api, o.zone) == (api, zone) and o.verb in _CREATE_VERBS)
    recent = sorted(operation.created_at for operation in creates if operation.created_at > now - window)
    if len(recent) >= rate.creates:
        wait = (recent[-rate.creates] + window - now).total_seconds()
        raise error_messages.rate_limited(api, project, wait)


def quota_failure(
    behaviour: Behaviour, kind: Kind, existing: Collection[Machine], *, project: str, zone: str, variant: str, count: int
) -> Failure | None:
    """The error if `count` more machines exceed the quota."""
    quota = behaviour.quota
    if quota is None:
        return None
    subject = name_in_scope(quota.scope, project=project, zone=zone)
    same_kind = [machine for machine in existing if machine.kind is kind and machine.project == project]
    used = sum(name_in_scope(quota.scope, project=project, zone=machine.zone) == subject for machine in same_kind)
    if used + count <= quota.limit:
        return None
    return error_messages.quota_exceeded(api_of(kind), quota, zone=zone, variant=variant)


def free_capacity(behaviour: Behaviour, kind: Kind, existing: Collection[Machine], *, zone: str, now: datetime) -> int | None:
    """How many more machines the zone can create; None is unlimited."""
    if behaviour.out_of_capacity:
        return 0
    if behaviour.capacity is None:
        return behaviour.stockout_after
    used = sum(
        (m.kind, m.zone) == (kind, zone) and m.failed_at is None and m.stage(now) not in _WITHOUT_CAPACITY for m in existing
    )
    free = max(0, behaviour.capacity - used)
    return free if behaviour.stockout_after is None else min(free, behaviour.stockout_after)


def api_of(kind: Kind) -> Api:
    """The API of a kind of resource."""
    return Api.COMPUTE if kind is Kind.INSTANCE else Api.TPU
