"""What can be told of a Google project before anything is ordered there: orders, credentials, its clock, and quotas."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import aiohttp
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1

from activities.providers.gcp import catalogue, compute_wire, tpu_wire
from activities.providers.gcp.calls import CALL_SECONDS
from activities.providers.gcp.credentials import check_credentials
from activities.providers.gcp.errors import Place, translated
from activities.providers.gcp.settings import Capacity, ComputeSettings, Connection, TpuSettings, read
from activities.providers.gcp.startup import told
from activities.providers.port import Order, PermissionDenied, ProviderError
from penstock.contract.answers import Finding
from penstock.model.gpu import GPU_MACHINES

NEARLY_USED = 0.8
"""The part of a quota that is worth a look once it is used: Google takes hours to days to give more."""
MORE = "ask Google for more (console: IAM & Admin, Quotas), or lower max_slices"
_ALL_REGIONS = "GPUS_ALL_REGIONS"
_HOSTS = {"gcp-tpu": "https://tpu.googleapis.com", "gce": "https://compute.googleapis.com"}


class Wanted(NamedTuple):
    """A slice of a group as it would be ordered, and how many the group may have."""

    order: Order
    at_most: int


class Clock(NamedTuple):
    """The time that a cloud says it is, and how many seconds that may be off."""

    at: datetime
    within: float


def check_order(kind: str, order: Order) -> None:
    """Raise what the order would be refused with before any call: settings, variants, and secrets that are not here."""
    if kind == "gcp-tpu":
        settings = read(TpuSettings, order.settings)
        tpu_wire.node_of(order, settings, told(order, settings, settings.connection).metadata)
        return
    machines = read(ComputeSettings, order.settings)
    make = compute_wire.instance_of if order.hosts == 1 else compute_wire.bulk_of
    make(order, machines, told(order, machines, machines.connection).metadata)


async def credentials(account: str, connection: Connection) -> Finding:
    """Whether this process can speak to Google at all; with an emulator of the account's API it need not."""
    subject = f"{account}: credentials"
    if _is_emulated(account.partition(":")[0], connection):
        return Finding(subject=subject, ok=True, message="none are needed for an emulator")
    missing = await asyncio.to_thread(check_credentials)
    if missing is None:
        return Finding(subject=subject, ok=True, message="found, and taken by Google")
    said, _, fix = missing.rpartition(". ")
    return Finding(subject=subject, ok=False, message=said, fix=fix)


def _is_emulated(kind: str, connection: Connection) -> bool:
    """Whether the API of the kind is somebody else's than Google's; the other one does not matter."""
    return (connection.tpu_endpoint if kind == "gcp-tpu" else connection.endpoint) is not None


def clock_url(kind: str, connection: Connection) -> str | None:
    """Who is asked for the time: Google, or the emulator, where its Compute API is known; its TPU API has no header for it."""
    return connection.endpoint if _is_emulated(kind, connection) else _HOSTS[kind]


async def clock(kind: str, connection: Connection) -> Clock | None:
    """The cloud's time by the header of any reply; None if it does not answer, or there is nobody to ask."""
    began, url = time.monotonic(), clock_url(kind, connection)
    if url is None:
        return None
    timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, allow_redirects=False) as reply,
        ):
            said = reply.headers.get("Date")
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None
    return None if said is None else Clock(parsedate_to_datetime(said).astimezone(UTC), 1.0 + time.monotonic() - began)


async def quotas(account: str, connection: Connection, wanted: Sequence[Wanted]) -> list[Finding]:
    """What Compute says of the project and of each region with groups: what is nearly used, and GPUs that can never be had."""
    regions = sorted({_region(each.order) for each in wanted})
    return list(await asyncio.gather(*(_quotas(account, connection, wanted, region) for region in ("", *regions))))


async def _quotas(account: str, connection: Connection, wanted: Sequence[Wanted], region: str) -> Finding:
    subject = f"{account}: quotas in {region}" if region else f"{account}: quotas"
    try:
        with translated(Place(connection.project, f"{region}-" if region else "")):
            found = await asyncio.to_thread(_read_quotas, connection, region)
    except PermissionDenied as error:
        needed = "compute.regions.get" if region else "compute.projects.get"
        return Finding(subject=subject, ok=True, message=f"cannot be read without {needed}: {error}")
    except ProviderError as error:
        return Finding(subject=subject, ok=False, message=str(error), fix="see that the worker can reach Compute Engine")
    limits = {quota.metric: quota for quota in found}
    short = [
        f"{count} {metric} may be wanted, {limits[metric].limit:g} are allowed"
        for metric, count in sorted(_gpus(wanted, region).items())
        if metric in limits and count > limits[metric].limit
    ]
    used = [f"{q.usage:g} of {q.limit:g} {q.metric} are used" for q in found if q.limit and q.usage >= NEARLY_USED * q.limit]
    if short or used:
        return Finding(subject=subject, ok=False, message="; ".join((*short, *used)), fix=MORE)
    return Finding(subject=subject, ok=True, message=f"{len(found)} read, none nearly used")


def _read_quotas(connection: Connection, region: str) -> Sequence[Any]:
    options: dict[str, Any] = {}
    if connection.endpoint is not None:
        nobody = AnonymousCredentials()  # type: ignore[no-untyped-call]
        options = {"credentials": nobody, "client_options": ClientOptions(api_endpoint=connection.endpoint)}
    if region:
        regional = compute_v1.RegionsClient(**options)
        return list(regional.get(project=connection.project, region=region, timeout=CALL_SECONDS, retry=None).quotas)
    project = compute_v1.ProjectsClient(**options)
    return list(project.get(project=connection.project, timeout=CALL_SECONDS, retry=None).quotas)


def _gpus(wanted: Sequence[Wanted], region: str) -> Counter[str]:
    """How many GPUs of each quota the region's groups may have together; without a region, of the quota over all of them."""
    found: Counter[str] = Counter()
    for order, at_most in wanted:
        if region and _region(order) != region:
            continue
        try:
            settings = read(ComputeSettings, order.settings)
            gpus = GPU_MACHINES.get(catalogue.machine_type(settings.machine_type, variant=order.variant))
            spot = settings.capacity_of(order) is Capacity.SPOT
        except ProviderError:
            continue
        if gpus is not None:
            name = gpus.variant.removesuffix("-40gb").upper().replace("-", "_")
            metric = f"{'PREEMPTIBLE_' if spot else ''}NVIDIA_{name}_GPUS" if region else _ALL_REGIONS
            found[metric] += at_most * order.hosts * gpus.number
    return found


def _region(order: Order) -> str:
    return order.location.rsplit("-", 1)[0]
