"""Constructors of new machines and operations."""

from datetime import datetime, timedelta
from typing import TypedDict

from emulators.gcp import error_messages
from emulators.gcp.behaviour import Behaviour
from emulators.gcp.faults import Failure
from emulators.gcp.records import Api, Machine, Operation
from emulators.gcp.specs import MachineSpec, WriteCall

_DEFAULT_STATUS = 400


class BootMoments(TypedDict):
    """When a machine that is admitted now reaches each step of its boot."""

    addressed_at: datetime
    ready_at: datetime
    healthy_at: datetime


def boot_moments(behaviour: Behaviour, now: datetime) -> BootMoments:
    """The moments of a machine that is admitted now."""
    addressed_at = now + timedelta(seconds=behaviour.create_latency_seconds)
    booted_at = addressed_at + timedelta(seconds=behaviour.boot_latency_seconds)
    return {
        "addressed_at": addressed_at,
        "ready_at": booted_at + timedelta(seconds=behaviour.ready_lag_seconds),
        "healthy_at": booted_at + timedelta(seconds=behaviour.init_latency_seconds),
    }


def new_machine(number: int, spec: MachineSpec, operation: Operation | None, behaviour: Behaviour, now: datetime) -> Machine:
    """A machine that is admitted now, without addresses yet."""
    return Machine(
        number=number,
        project=spec.project,
        zone=spec.zone,
        name=spec.name,
        created_at=now,
        kind=spec.kind,
        variant=spec.variant,
        hosts=spec.hosts,
        spot=spec.spot,
        stops_when_preempted=spec.stops_when_preempted,
        body=spec.body,
        operation=None if operation is None else operation.name,
        **boot_moments(behaviour, now),
    )


def new_operation(
    number: int,
    api: Api,
    call: WriteCall,
    *,
    project: str,
    zone: str,
    target: str,
    now: datetime,
    failures: tuple[Failure, ...] = (),
) -> Operation:
    """An operation that is done at once."""
    name = f"operation-{int(now.timestamp() * 1000)}-{number:012x}"
    known = (error_messages.STATUS_OF[failure.code] for failure in failures if failure.code in error_messages.STATUS_OF)
    return Operation(
        number=number,
        project=project,
        zone=zone,
        name=name if api is Api.COMPUTE else f"projects/{project}/locations/{zone}/operations/{name}",
        created_at=now,
        api=api,
        verb=call.verb,
        target=target,
        done_at=now,
        failures=failures,
        status=(call.status or next(known, _DEFAULT_STATUS)) if failures else None,
        request_id=call.request_id,
    )
