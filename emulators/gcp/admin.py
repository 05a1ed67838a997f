"""The emulator's own calls: how zones behave, which calls fail, and what happens to machines."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from aiohttp import web
from google.cloud import tpu_v2
from pydantic import Field, ValidationError

from emulators.gcp.behaviour import Behaviour, Failure, Fault
from emulators.gcp.calls import Calls
from emulators.gcp.cloud import Cloud
from emulators.gcp.orders import Order
from emulators.gcp.queueing import Queueing
from emulators.gcp.records import Kind, Machine, Queued
from emulators.gcp.refusals import Code, Refusal
from emulators.gcp.store import DEFAULTS
from emulators.gcp.tpu_wire import queued_state
from penstock.config.problems import problems_of
from penstock.model.tpu import tpu_variant
from penstock.model.units import Seconds
from penstock.model.value import Value

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T", bound=Value)


class Maintenance(Value):
    """How long a maintenance lasts; without an end it lasts until the next call ends it."""

    seconds: Seconds | None = Field(default=None, alias="lasts")


class Stranger(Value):
    """A machine that somebody else made."""

    kind: Kind = Kind.NODE
    project: str
    zone: str
    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")]
    variant: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    metadata: dict[str, str] = Field(default_factory=dict)


@web.middleware
async def tell_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what cannot be done with its reason."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return web.json_response({"error": {"code": refusal.code.name, "message": refusal.message}}, status=refusal.status)


class Admin:
    """One handler per route."""

    def __init__(self, cloud: Cloud, queueing: Queueing, counted: Calls) -> None:
        self._cloud = cloud
        self._queueing = queueing
        self._counted = counted

    def routes(self) -> list[web.RouteDef]:
        """Where each call is found."""
        one = "/emulator/resources/{name}"
        return [
            web.get("/emulator/ready", self.ready),
            web.get("/emulator/defaults", self.show_zone),
            web.put("/emulator/defaults", self.set_zone),
            web.get("/emulator/zones/{zone}", self.show_zone),
            web.put("/emulator/zones/{zone}", self.set_zone),
            web.post("/emulator/zones/{zone}/preempt", self.preempt_zone),
            web.get("/emulator/faults", self.show_faults),
            web.post("/emulator/faults", self.add_fault),
            web.delete("/emulator/faults", self.clear_faults),
            web.get("/emulator/calls", self.calls),
            web.get("/emulator/resources", self.ever),
            web.post("/emulator/strangers", self.add_stranger),
            web.post(one + "/preempt", self.preempt),
            web.post(one + "/maintenance", self.maintain),
            web.post(one + "/hosts/{host:\\d+}/kill", self.kill_host),
            web.post(one + "/admit", self.admit),
            web.post(one + "/fail", self.fail),
        ]

    async def ready(self, _: web.Request) -> web.Response:
        """Whether calls are taken."""
        return web.json_response({"ready": True})

    async def show_zone(self, request: web.Request) -> web.Response:
        """How a zone behaves, its counters as they are now."""
        zone = request.match_info.get("zone", DEFAULTS)
        return web.json_response(self._cloud.behaviour(zone).model_dump(mode="json"))

    async def set_zone(self, request: web.Request) -> web.Response:
        """Replace the behaviour of a zone, or of all zones that have none of their own."""
        self._cloud.store.set_zone(request.match_info.get("zone", DEFAULTS), await _body(request, Behaviour))
        self._cloud.changed.set()
        return await self.show_zone(request)

    async def show_faults(self, _: web.Request) -> web.Response:
        """Faults that wait for calls."""
        return web.json_response({"items": [fault.model_dump(mode="json") for fault in self._cloud.store.faults]})

    async def add_fault(self, request: web.Request) -> web.Response:
        """One more fault, after those that wait."""
        self._cloud.store.set_faults([*self._cloud.store.faults, await _body(request, Fault)])
        return await self.show_faults(request)

    async def clear_faults(self, request: web.Request) -> web.Response:
        """No fault waits any more."""
        self._cloud.store.set_faults([])
        return await self.show_faults(request)

    async def calls(self, _: web.Request) -> web.Response:
        """How often each method was called since the start, by zone."""
        return web.json_response(self._counted.by_method())

    async def ever(self, request: web.Request) -> web.Response:
        """Everything that was ever made, gone or not, and how often each name was made; `?zone=` and the like narrow it down."""
        made = [record for record in self._cloud.store.ever() if _meant(record, request)]
        created: dict[str, Counter[str]] = {kind.value: Counter() for kind in Kind}
        for record in made:
            if isinstance(record, Queued) or record.failed_at is None:
                created[record.key.kind][record.name] += 1
        return web.json_response({"items": [self._described(record) for record in made], "created": created})

    async def add_stranger(self, request: web.Request) -> web.Response:
        """Something that somebody else made, there at once."""
        asked = await _body(request, Stranger)
        if asked.kind is Kind.QUEUED:
            raise Refusal(Code.INVALID_ARGUMENT, "strangers are nodes or instances")
        node = asked.kind is Kind.NODE
        variant = asked.variant or ("v5litepod-1" if node else "e2-small")
        shape = tpu_variant(variant) if node else None
        items = [{"key": key, "value": value} for key, value in asked.metadata.items()]
        body: dict[str, Any] = {"labels": asked.labels, "metadata": asked.metadata if node else {"items": items}}
        order = Order(
            kind=asked.kind,
            project=asked.project,
            zone=asked.zone,
            name=asked.name,
            variant=variant,
            hosts=1 if shape is None else shape.hosts,
            body=body if node else body | {"networkInterfaces": [{}]},
        )
        if self._cloud.store.find(order.key, self._cloud.now()) is not None:
            raise Refusal(Code.ALREADY_EXISTS, f"{asked.name} exists")
        now = self._cloud.now()
        (made,) = self._cloud.admit([order], None, now)
        made = made.model_copy(update={"addressed_at": now, "ready_at": now, "answering_at": now})
        self._cloud.keep(made)
        return web.json_response(self._described(made), status=201)

    async def preempt(self, request: web.Request) -> web.Response:
        """Take one machine away, spot or not."""
        return self._changed(self._cloud.preempt(self._machine(request)))

    async def preempt_zone(self, request: web.Request) -> web.Response:
        """Take every spot machine of a zone away."""
        now, zone = self._cloud.now(), request.match_info["zone"]
        given = [
            m
            for m in self._cloud.store.machines(now)
            if m.zone == zone and m.spot and m.preempted_at is None and m.gone_at is None
        ]
        for machine in given:
            self._cloud.preempt(machine)
        return web.json_response({"preempted": sorted(machine.name for machine in given)})

    async def maintain(self, request: web.Request) -> web.Response:
        """Begin a maintenance of one machine, or end it with `{"lasts": 0}`."""
        lasts = await _body(request, Maintenance) if request.can_read_body else Maintenance()
        return self._changed(self._cloud.maintain(self._machine(request), lasts.seconds))

    async def kill_host(self, request: web.Request) -> web.Response:
        """One host of a machine answers no more."""
        return self._changed(self._cloud.kill_host(self._machine(request), int(request.match_info["host"])))

    async def admit(self, request: web.Request) -> web.Response:
        """Let a queued resource or a flex-start machine in, room or not."""
        if request.query.get("kind") == Kind.INSTANCE:
            return self._changed(self._cloud.let_in(self._machine(request)))
        return self._changed(self._queueing.admit(self._queued(request)))

    async def fail(self, request: web.Request) -> web.Response:
        """End a queued resource that waits, with the code and message given."""
        return self._changed(self._queueing.fail(self._queued(request), await _body(request, Failure)))

    def _machine(self, request: web.Request) -> Machine:
        found = [m for m in self._cloud.store.machines(self._cloud.now()) if _meant(m, request)]
        if len(found) != 1:
            raise _not_one(request, len(found))
        return found[0]

    def _queued(self, request: web.Request) -> Queued:
        found = [queued for queued in self._cloud.store.queued(self._cloud.now()) if _meant(queued, request)]
        if len(found) != 1:
            raise _not_one(request, len(found))
        return found[0]

    def _changed(self, record: Machine | Queued) -> web.Response:
        return web.json_response(self._described(record))

    def _described(self, record: Machine | Queued) -> dict[str, Any]:
        now = self._cloud.now()
        told: dict[str, Any] = {
            "kind": record.key.kind,
            "project": record.project,
            "zone": record.zone,
            "name": record.name,
            "created_at": record.created_at.isoformat(),
            "exists": record.exists(now),
        }
        if isinstance(record, Queued):
            nodes = [self._cloud.store.machine(number) for number in record.nodes]
            state, _ = queued_state(record, nodes, now, accepting=self._cloud.behaviour(record.zone).accept_queue)
            return told | {"state": tpu_v2.QueuedResourceState.State(state).name.lower(), "nodes": [node.name for node in nodes]}
        up = record.answering(now)
        hosts = [{"address": address, "answers": address in up} for address in record.addresses]
        about = {"variant": record.variant, "spot": record.spot, "labels": record.labels, "queued": record.queued}
        return told | about | {"state": record.stage(now), "failed": record.failed_at is not None, "hosts": hosts}


def _meant(record: Machine | Queued, request: web.Request) -> bool:
    """Whether the name, kind, project and zone, as far as they are given, are those of the record."""
    given = {"kind": record.key.kind, "project": record.project, "zone": record.zone}
    named = request.match_info.get("name", record.name) == record.name
    return named and all(request.query.get(k, v) == v for k, v in given.items())


def _not_one(request: web.Request, found: int) -> Refusal:
    name = request.match_info["name"]
    if found:
        return Refusal(Code.ALREADY_EXISTS, f"there are {found} of the name {name}; add ?kind=, ?project= or ?zone=")
    return Refusal(Code.NOT_FOUND, f"there is no {name}")


async def _body(request: web.Request, model: type[T]) -> T:
    try:
        return model.model_validate(await request.json())
    except json.JSONDecodeError as error:
        raise Refusal(Code.INVALID_ARGUMENT, f"the body is not JSON: {error}") from None
    except ValidationError as error:
        told = "; ".join(f"{p.path}: {p.message}" for p in problems_of(error, model, "body", {}))
        raise Refusal(Code.INVALID_ARGUMENT, told) from None
