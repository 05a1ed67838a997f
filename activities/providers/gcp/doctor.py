"""The doctor's checks of a Google project: orders, credentials, clock and quotas."""

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

from activities.clock_skew import compare_clocks
from activities.providers.gcp import catalogue, compute_wire, tpu_wire
from activities.providers.gcp.calls import CALL_SECONDS
from activities.providers.gcp.credentials import check_credentials
from activities.providers.gcp.errors import ProjectZone, translated
from activities.providers.gcp.machine_metadata import machine_metadata
from activities.providers.gcp.settings import Capacity, ComputeSettings, Connection, TpuSettings, read
from activities.providers.port import Order, PermissionDenied, ProviderError
from activities.providers.runtime import SampleOrder
from penstock.contract.answers import Finding
from penstock.model.gpu import GPU_MACHINES

NEARLY_USED = 0.8
"""The used part of a quota that is worth a warning: Google takes hours to days to raise one."""
MORE = "ask Google for more (console: IAM & Admin, Quotas), or lower max_slices"
_ALL_REGIONS = "GPUS_ALL_REGIONS"
_HOSTS = {"gcp-tpu": "https://tpu.googleapis.com", "gce": "https://compute.googleapis.com"}


class Clock(NamedTuple):
    """A cloud's time, read with an error of at most `within` seconds."""

    at: datetime
    within: float


async def check_account(kind: str, account: str, connection: Connection, orders: Sequence[SampleOrder]) -> list[Finding]:
    """Credentials; with usable ones also the clock, and the quotas of Compute Engine. The TPU API has no quotas to read."""
    found = [await credentials(account, connection)]
    if found[0].ok:
        theirs = await clock(kind, connection)
        found += [] if theirs is None else [compare_clocks(f"{account}: clock", theirs=theirs.at, within=theirs.within)]
        found += await quotas(account, connection, orders) if kind == "gce" else []
    return found


def check_order(kind: str, order: Order) -> None:
    """Raise the `Invalid` that a create would meet before any call: bad settings, unknown variants, missing secrets."""
    if kind == "gcp-tpu":
        settings = read(TpuSettings, order.settings)
        tpu_wire.node_of(order, settings, machine_metadata(order, settings, settings.connection).metadata)
        return
    machines = read(ComputeSettings, order.settings)
    make = compute_wire.instance_of if order.hosts == 1 else compute_wire.bulk_of
    make(order, machines, machine_metadata(order, machines, machines.connection).metadata)


async def credentials(account: str, connection: Connection) -> Finding:
    """Whether this process has usable credentials; an emulator of the account's API needs none."""
    subject = f"{account}: credentials"
    if _is_emulated(account.partition(":")[0], connection):
        return Finding(subject=subject, ok=True, message="none are needed for an emulator")
    missing = await asyncio.to_thread(check_credentials)
    if missing is None:
        return Finding(subject=subject, ok=True, message="found, and accepted by Google")
    message, _, fix = missing.rpartition(". ")
    return Finding(subject=subject, ok=False, message=message, fix=fix)


def _is_emulated(kind: str, connection: Connection) -> bool:
    """Whether the API of the kind is an emulator's, whatever the other API is."""
    return (connection.tpu_endpoint if kind == "gcp-tpu" else connection.endpoint) is not None


def clock_url(kind: str, connection: Connection) -> str | None:
    """The server whose clock is read: Google, or the emulator's Compute API. Its TPU API (gRPC) sends no date."""
    return connection.endpoint if _is_emulated(kind, connection) else _HOSTS[kind]


async def clock(kind: str, connection: Connection) -> Clock | None:
    """The cloud's time by the Date header of any reply; None if there is no server or it does not answer."""
    began, url = time.monotonic(), clock_url(kind, connection)
    if url is None:
        return None
    timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, allow_redirects=False) as reply,
        ):
            date = reply.headers.get("Date")
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None
    return None if date is None else Clock(parsedate_to_datetime(date).astimezone(UTC), 1.0 + time.monotonic() - began)


async def quotas(account: str, connection: Connection, orders: Sequence[SampleOrder]) -> list[Finding]:
    """Quotas of the project and of each region with groups: which are nearly used, and which are too small for the groups."""
    regions = sorted({_region(each.order) for each in orders})
    return list(await asyncio.gather(*(_quotas(account, connection, orders, region) for region in ("", *regions))))


async def _quotas(account: str, connection: Connection, orders: Sequence[SampleOrder], region: str) -> Finding:
    subject = f"{account}: quotas in {region}" if region else f"{account}: quotas"
    try:
        with translated(ProjectZone(connection.project, f"{region}-" if region else "")):
            found = await asyncio.to_thread(_read_quotas, connection, region)
    except PermissionDenied as error:
        needed = "compute.regions.get" if region else "compute.projects.get"
        return Finding(subject=subject, ok=True, message=f"cannot be read without {needed}: {error}")
    except ProviderError as error:
        return Finding(subject=subject, ok=False, message=str(error), fix="check that the worker can reach Compute Engine")
    limits = {quota.metric: quota for quota in found}
    short = [
        f"the groups may need {count} {metric}, the quota is {limits[metric].limit:g}"
        for metric, count in sorted(_gpus(orders, region).items())
        if metric in limits and count > limits[metric].limit
    ]
    used = [f"{q.usage:g} of {q.limit:g} {q.metric} are used" for q in found if q.limit and q.usage >= NEARLY_USED * q.limit]
    if short or used:
        return Finding(subject=subject, ok=False, message="; ".join((*short, *used)), fix=MORE)
    return Finding(subject=subject, ok=True, message=f"{len(found)} read, none nearly used")


def _read_quotas(connection: Connection, region: str) -> Sequence[Any]:
    options: dict[str, Any] = {}
    if connection.endpoint is not None:
        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]
        options = {"credentials": anonymous, "client_options": ClientOptions(api_endpoint=connection.endpoint)}
    if region:
        regional = compute_v1.RegionsClient(**options)
        return list(regional.get(project=connection.project, region=region, timeout=CALL_SECONDS, retry=None).quotas)
    project = compute_v1.ProjectsClient(**options)
    return list(project.get(project=connection.project, timeout=CALL_SECONDS, retry=None).quotas)


def _gpus(orders: Sequence[SampleOrder], region: str) -> Counter[str]:
    """GPUs that the region's groups may have together, by quota metric; without a region, of all regions."""
    found: Counter[str] = Counter()
    for order, max_slices in orders:
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
            found[metric] += max_slices * order.hosts * gpus.number
    return found


def _region(order: Order) -> str:
    return order.location.rsplit("-", 1)[0]
