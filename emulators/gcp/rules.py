"""What a zone permits: a behaviour, what exists and the time in, a refusal or room out."""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from emulators.gcp import wording
from emulators.gcp.behaviour import Behaviour, Failure, Scope
from emulators.gcp.records import Api, Kind, Machine, Operation, Stage
from emulators.gcp.refusals import Code, Refusal
from emulators.gcp.wording import region_of

_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_MOST_LABELS = 64
_HOLDING_NOTHING = (Stage.PENDING, Stage.PREEMPTED)
CREATES = ("create", "insert", "bulkInsert")
"""Verbs of operations that make something."""


def check_name(field: str, name: str) -> None:
    """Refuse a name that is no RFC 1035 label."""
    if not _NAME.fullmatch(name):
        raise wording.malformed(field, name, f"Must be a match of regex '{_NAME.pattern}'")


def check_zone(zone: str) -> None:
    """Refuse what cannot be the name of a zone."""
    if not _NAME.fullmatch(zone):
        raise wording.malformed("zone", zone, "Unknown zone.")


def check_labels(field: str, labels: Mapping[str, str]) -> None:
    """Refuse labels that Google does not store."""
    if len(labels) > _MOST_LABELS:
        raise wording.malformed(field, str(len(labels)), f"At most {_MOST_LABELS} labels are allowed.")
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key):
            raise wording.malformed(field, key, f"Label keys must match '{_LABEL_KEY.pattern}'")
        if not _LABEL_VALUE.fullmatch(value):
            raise wording.malformed(field, value, f"Label values must match '{_LABEL_VALUE.pattern}'")


def check_offer(behaviour: Behaviour, zone: str, variant: str) -> None:
    """Refuse a type that the zone does not know."""
    if behaviour.invalid or (behaviour.offers is not None and variant not in behaviour.offers):
        raise wording.unknown_type(zone, variant)


def permit(behaviour: Behaviour, api: Api, *, project: str, zone: str) -> None:
    """Refuse every call to a zone that may not be entered."""
    if behaviour.permission_denied is not None:
        raise wording.denied(api, behaviour.permission_denied, project=project, zone=zone)


def refuse_haste(
    behaviour: Behaviour, api: Api, operations: Iterable[Operation], *, project: str, zone: str, now: datetime
) -> None:
    """Refuse a create that comes too soon after others in the zone."""
    rate = behaviour.rate
    if rate is None:
        return
    window = timedelta(seconds=rate.seconds)
    recent = sorted(
        operation.created_at
        for operation in operations
        if (operation.api, operation.zone) == (api, zone) and operation.verb in CREATES and operation.created_at > now - window
    )
    if len(recent) >= rate.creates:
        wait = (recent[-rate.creates] + window - now).total_seconds()
        raise wording.too_hasty(api, project, wait)


def quota_failure(
    behaviour: Behaviour, kind: Kind, existing: Collection[Machine], *, project: str, zone: str, variant: str, wanted: int
) -> Failure | None:
    """Why so many more may not be had, or nothing."""
    quota = behaviour.quota
    if quota is None:
        return None
    subject = subject_of(quota.scope, project=project, zone=zone)
    mine = [machine for machine in existing if machine.kind is kind and machine.project == project]
    used = sum(subject_of(quota.scope, project=project, zone=machine.zone) == subject for machine in mine)
    if used + wanted <= quota.limit:
        return None
    return wording.beyond_quota(api_of(kind), quota, zone=zone, variant=variant)


def room(behaviour: Behaviour, kind: Kind, existing: Collection[Machine], *, zone: str, now: datetime) -> int | None:
    """How many more the zone has to give; unset is any number."""
    if behaviour.dry:
        return 0
    if behaviour.capacity is None:
        return behaviour.stockout_after
    held = sum(
        (m.kind, m.zone) == (kind, zone) and m.failed_at is None and m.stage(now) not in _HOLDING_NOTHING for m in existing
    )
    free = max(0, behaviour.capacity - held)
    return free if behaviour.stockout_after is None else min(free, behaviour.stockout_after)


def api_of(kind: Kind) -> Api:
    """The API that shows a kind."""
    return Api.COMPUTE if kind is Kind.INSTANCE else Api.TPU


def subject_of(scope: Scope, *, project: str, zone: str) -> str:
    """The name of the zone, its region, or the project."""
    return {Scope.ZONE: zone, Scope.REGION: region_of(zone), Scope.PROJECT: project}[scope]


def not_found(what: str) -> Refusal:
    """There is no such thing."""
    return Refusal(Code.NOT_FOUND, f"The resource '{what}' was not found")


def already_exists(what: str) -> Refusal:
    """The name is taken."""
    return Refusal(Code.ALREADY_EXISTS, f"The resource '{what}' already exists")
