"""The doctor's checks of a Google project: each API by its own endpoint, and quotas of one region and of all."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.cloud import compute_v1

from activities.providers.gcp import doctor
from activities.providers.gcp.settings import Connection
from activities.providers.port import Order
from activities.providers.runtime import SampleOrder
from penstock.contract.answers import Finding

NOWHERE = "http://127.0.0.1:9"
COMPUTE_ALONE = Connection(project="p", endpoint=NOWHERE)
TPU_ALONE = Connection(project="p", tpu_endpoint="127.0.0.1:9")


@pytest.mark.parametrize(
    ("kind", "emulated", "google"), [("gce", COMPUTE_ALONE, TPU_ALONE), ("gcp-tpu", TPU_ALONE, COMPUTE_ALONE)]
)
def test_credentials_are_needed_unless_the_api_of_the_provider_is_emulated(
    no_login: Path, kind: str, emulated: Connection, google: Connection
) -> None:
    assert asyncio.run(doctor.credentials(f"{kind}:p", emulated)).ok
    assert not asyncio.run(doctor.credentials(f"{kind}:p", google)).ok


@pytest.mark.parametrize(
    ("kind", "connection", "asked"),
    [
        ("gce", Connection(project="p"), "https://compute.googleapis.com"),
        ("gce", COMPUTE_ALONE, NOWHERE),
        ("gce", TPU_ALONE, "https://compute.googleapis.com"),
        ("gcp-tpu", Connection(project="p"), "https://tpu.googleapis.com"),
        ("gcp-tpu", COMPUTE_ALONE, "https://tpu.googleapis.com"),
        ("gcp-tpu", TPU_ALONE, None),
        ("gcp-tpu", Connection(project="p", endpoint=NOWHERE, tpu_endpoint="127.0.0.1:9"), NOWHERE),
    ],
)
def test_the_clock_is_that_of_the_api_of_the_provider(kind: str, connection: Connection, asked: str | None) -> None:
    assert doctor.clock_url(kind, connection) == asked


def wanted(zone: str, machine_type: str, *, max_slices: int, hosts: int = 1, **order: Any) -> SampleOrder:
    settings = {"project": "p", "image": "i", "machine_type": machine_type}
    return SampleOrder(
        Order(cluster="c", group="g", slice="s", location=zone, hosts=hosts, settings=settings, **order), max_slices
    )


def quotas(monkeypatch: pytest.MonkeyPatch, project: dict[str, float], *groups: SampleOrder) -> Finding:
    """The finding for a project with these quotas."""
    limits = [compute_v1.Quota(metric=metric, limit=limit) for metric, limit in project.items()]
    monkeypatch.setattr(doctor, "_read_quotas", lambda _, region: () if region else limits)
    found = asyncio.run(doctor.quotas("gce:p", Connection(project="p"), groups))
    return next(finding for finding in found if finding.subject == "gce:p: quotas")


GROUPS = (
    wanted("us-central1-a", "g2-standard-24", max_slices=3),
    wanted("europe-west4-a", "a3-highgpu-8g", max_slices=2, hosts=2, preemptible=True),
    wanted("europe-west4-a", "n2-standard-8", max_slices=100),
)


@pytest.mark.parametrize("limit", [37, 1, 0])
def test_gpus_of_all_regions_together_are_held_against_the_projects_quota(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    found = quotas(monkeypatch, {"GPUS_ALL_REGIONS": limit}, *GROUPS)
    assert (found.ok, found.fix) == (False, doctor.MORE)
    assert found.message == f"the groups may need 38 GPUS_ALL_REGIONS, the quota is {limit}"


def test_gpus_that_the_projects_quota_allows_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quotas(monkeypatch, {"GPUS_ALL_REGIONS": 38}, *GROUPS).ok
    assert quotas(monkeypatch, {"CPUS_ALL_REGIONS": 1}, *GROUPS).ok
    assert quotas(monkeypatch, {"GPUS_ALL_REGIONS": 0}, GROUPS[-1]).ok
