"""The emulator's own HTTP API under `/emulator`: set zone behaviours, inject faults, preempt and inspect resources."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from aiohttp import web
from google.cloud import tpu_v2
from pydantic import Field

from emulators.gcp.api_error import ApiError, Code
from emulators.gcp.behaviour import Behaviour
from emulators.gcp.cloud import Cloud
from emulators.gcp.faults import Failure, Fault
from emulators.gcp.interceptor import Interceptor
from emulators.gcp.queued_resources import QueuedResources
from emulators.gcp.records import Kind, Machine, QueuedResource
from emulators.gcp.specs import MachineSpec
from emulators.gcp.store import DEFAULTS
from emulators.gcp.tpu_messages import queued_state
from emulators.request_body import InvalidBody, read_body
from penstock.model.tpu import tpu_variant
from penstock.model.units import Seconds
from penstock.model.value import Value

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Maintenance(Value):
    """Length of a maintenance; unset, it lasts until the next call ends it."""

    seconds: Seconds | None = Field(default=None, alias="lasts")


class ForeignMachine(Value):
    """A machine that Penstock did not create."""

    kind: Kind = Kind.NODE
    project: str
    zone: str
    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")]
    variant: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    metadata: dict[str, str] = Field(default_factory=dict)

    def spec(self) -> MachineSpec:
        """The machine to create, with a small type unless one is given."""
        is_node = self.kind is Kind.NODE
        variant = self.variant or ("v5litepod-1" if is_node else "e2-small")
        shape = tpu_variant(variant) if is_node else None
        items = [{"key": key, "value": value} for key, value in self.metadata.items()]
        body: dict[str, Any] = {"labels": self.labels, "metadata": self.metadata if is_node else {"items": items}}
        return MachineSpec(
            kind=self.kind,
            project=self.project,
            zone=self.zone,
            name=self.name,
            variant=variant,
            hosts=1 if shape is None else shape.hosts,
            body=body if is_node else body | {"networkInterfaces": [{}]},
        )


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a refused call with its code and message."""
    try:
        return await handler(request)
    except InvalidBody as error:
        refused = ApiError(Code.INVALID_ARGUMENT, str(error))
    except ApiError as error:
        refused = error
    return web.json_response({"error": {"code": refused.code.name, "message": refused.message}}, status=refused.status)


class AdminApi:
    """One handler per route."""

    def __init__(self, cloud: Cloud, queue: QueuedResources, interceptor: Interceptor) -> None:
        self._cloud = cloud
        self._queue = queue
        self._interceptor = interceptor

    def routes(self) -> list[web.RouteDef]:
        """The route of every call."""
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
            web.get("/emulator/calls", self.call_counts),
            web.get("/emulator/resources", self.list_ever_created),
            web.post("/emulator/strangers", self.add_foreign_machine),
            web.post(one + "/preempt", self.preempt),
            web.post(one + "/maintenance", self.maintain),
            web.post(one + "/hosts/{host:\\d+}/kill", self.kill_host),
            web.post(one + "/admit", self.admit),
            web.post(one + "/fail", self.fail),
        ]

    async def ready(self, _: web.Request) -> web.Response:
        """Readiness probe."""
        return web.json_response({"ready": True})

    async def show_zone(self, request: web.Request) -> web.Response:
        """The behaviour of a zone, with the current values of its counters."""
        zone = request.match_info.get("zone", DEFAULTS)
        return web.json_response(self._cloud.behaviour(zone).model_dump(mode="json"))

    async def set_zone(self, request: web.Request) -> web.Response:
        """Replace the behaviour of a zone, or of all zones that have none of their own."""
        self._cloud.store.set_zone(request.match_info.get("zone", DEFAULTS), await read_body(request, Behaviour))
        self._cloud.changed.set()
        return await self.show_zone(request)

    async def show_faults(self, _: web.Request) -> web.Response:
        """The pending faults."""
        return web.json_response({"items": [fault.model_dump(mode="json") for fault in self._cloud.store.faults]})

    async def add_fault(self, request: web.Request) -> web.Response:
        """Add a fault after the pending ones."""
        self._cloud.store.set_faults([*self._cloud.store.faults, await read_body(request, Fault)])
        return await self.show_faults(request)

    async def clear_faults(self, request: web.Request) -> web.Response:
        """Remove every pending fault."""
        self._cloud.store.set_faults([])
        return await self.show_faults(request)

    async def call_counts(self, _: web.Request) -> web.Response:
        """Number of calls of each method since the start, by zone."""
        return web.json_response(self._interceptor.counts())

    async def list_ever_created(self, request: web.Request) -> web.Response:
        """Every resource ever created and how often each name was; `?zone=`, `?project=` and `?kind=` select some."""
        selected = [record for record in self._cloud.store.ever_created() if _matches(record, request)]
        created: dict[str, Counter[str]] = {kind.value: Counter() for kind in Kind}
        for record in selected:
            if isinstance(record, QueuedResource) or record.failed_at is None:
                created[record.key.kind][record.name] += 1
        return web.json_response({"items": [self._describe(record) for record in selected], "created": created})

    async def add_foreign_machine(self, request: web.Request) -> web.Response:
        """Create a machine that does not belong to Penstock, running at once."""
        requested = await read_body(request, ForeignMachine)
        if requested.kind is Kind.QUEUED:
            raise ApiError(Code.INVALID_ARGUMENT, "kind must be node or instance")
        spec, now = requested.spec(), self._cloud.now()
        if self._cloud.store.find(spec.key, now) is not None:
            raise ApiError(Code.ALREADY_EXISTS, f"{spec.name} exists")
        (machine,) = self._cloud.provision([spec], None, now)
        machine = machine.model_copy(update={"addressed_at": now, "ready_at": now, "healthy_at": now})
        self._cloud.save(machine)
        return web.json_response(self._describe(machine), status=201)

    async def preempt(self, request: web.Request) -> web.Response:
        """Preempt one machine, even if it is not a spot machine."""
        return self._reply(self._cloud.preempt(self._machine(request)))

    async def preempt_zone(self, request: web.Request) -> web.Response:
        """Preempt every spot machine of a zone."""
        now, zone = self._cloud.now(), request.match_info["zone"]
        in_zone = (machine for machine in self._cloud.store.machines(now) if machine.zone == zone)
        spot = [machine for machine in in_zone if machine.spot and machine.preempted_at is None and machine.gone_at is None]
        for machine in spot:
            self._cloud.preempt(machine)
        return web.json_response({"preempted": sorted(machine.name for machine in spot)})

    async def maintain(self, request: web.Request) -> web.Response:
        """Start a maintenance of one machine, or end it with `{"lasts": 0}`."""
        maintenance = await read_body(request, Maintenance) if request.can_read_body else Maintenance()
        return self._reply(self._cloud.start_maintenance(self._machine(request), maintenance.seconds))

    async def kill_host(self, request: web.Request) -> web.Response:
        """Make one host of a machine stop answering."""
        return self._reply(self._cloud.kill_host(self._machine(request), int(request.match_info["host"])))

    async def admit(self, request: web.Request) -> web.Response:
        """Admit a queued resource or a flex-start machine, even if there is no capacity."""
        if request.query.get("kind") == Kind.INSTANCE:
            return self._reply(self._cloud.admit(self._machine(request)))
        return self._reply(self._queue.admit(self._queued_resource(request)))

    async def fail(self, request: web.Request) -> web.Response:
        """Fail a waiting queued resource with the given code and message."""
        return self._reply(self._queue.fail(self._queued_resource(request), await read_body(request, Failure)))

    def _machine(self, request: web.Request) -> Machine:
        found = [machine for machine in self._cloud.store.machines(self._cloud.now()) if _matches(machine, request)]
        if len(found) != 1:
            raise _not_exactly_one(request, len(found))
        return found[0]

    def _queued_resource(self, request: web.Request) -> QueuedResource:
        existing = self._cloud.store.queued_resources(self._cloud.now())
        found = [queued for queued in existing if _matches(queued, request)]
        if len(found) != 1:
            raise _not_exactly_one(request, len(found))
        return found[0]

    def _reply(self, record: Machine | QueuedResource) -> web.Response:
        return web.json_response(self._describe(record))

    def _describe(self, record: Machine | QueuedResource) -> dict[str, Any]:
        now = self._cloud.now()
        common: dict[str, Any] = {
            "kind": record.key.kind,
            "project": record.project,
            "zone": record.zone,
            "name": record.name,
            "created_at": record.created_at.isoformat(),
            "exists": record.exists(now),
        }
        if isinstance(record, QueuedResource):
            nodes = [self._cloud.store.machine(number) for number in record.nodes]
            state, _ = queued_state(record, nodes, now, accepting=self._cloud.behaviour(record.zone).accept_queue)
            return common | {
                "state": tpu_v2.QueuedResourceState.State(state).name.lower(),
                "nodes": [node.name for node in nodes],
            }
        healthy = record.healthy_hosts(now)
        return common | {
            "variant": record.variant,
            "spot": record.spot,
            "labels": record.labels,
            "queued": record.queued,
            "state": record.stage(now),
            "failed": record.failed_at is not None,
            "hosts": [{"address": address, "answers": address in healthy} for address in record.addresses],
        }


def _matches(record: Machine | QueuedResource, request: web.Request) -> bool:
    """Whether the record has the name, kind, project and zone of the call, as far as they are given."""
    fields = {"kind": record.key.kind, "project": record.project, "zone": record.zone}
    same_name = request.match_info.get("name", record.name) == record.name
    return same_name and all(request.query.get(key, value) == value for key, value in fields.items())


def _not_exactly_one(request: web.Request, found: int) -> ApiError:
    name = request.match_info["name"]
    if found:
        return ApiError(Code.ALREADY_EXISTS, f"{found} resources have the name {name}; add ?kind=, ?project= or ?zone=")
    return ApiError(Code.NOT_FOUND, f"there is no {name}")
