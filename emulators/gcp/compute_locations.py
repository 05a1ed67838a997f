"""Methods of the Compute API on projects, regions and zones, with their quotas."""

from collections import Counter
from typing import Any

from aiohttp import web

from emulators.behaviour import Scope, region_of
from emulators.gcp import admission, error_messages
from emulators.gcp.cloud import Cloud
from emulators.gcp.compute_json import ROOT, zone_link
from emulators.gcp.faults import Fault
from emulators.gcp.records import Api, Kind

_DEFAULT_LIMIT = 1000.0
"""Limit of a metric without a configured quota."""
_METRICS = {Scope.REGION: "INSTANCES", Scope.PROJECT: "CPUS_ALL_REGIONS"}
"""Default metrics; the usage of every metric is the number of instances."""

Json = dict[str, Any]


class LocationMethods:
    """One function per API method; each returns the JSON of its reply."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    async def project(self, request: web.Request, _: Fault | None) -> Json:
        """A project, with its quotas."""
        project = request.match_info["project"]
        self._check_permission(project, "-")
        quotas = self._quotas(Scope.PROJECT, project, self._cloud.store.zones())
        return {"kind": "compute#project", "name": project, "selfLink": f"{ROOT}/projects/{project}", "quotas": quotas}

    async def region(self, request: web.Request, _: Fault | None) -> Json:
        """A region, with its quotas."""
        project, region = request.match_info["project"], request.match_info["region"]
        regions = self._regions()
        if region not in regions:
            raise error_messages.not_found(f"projects/{project}/regions/{region}")
        self._check_permission(project, regions[region][0])
        return self._region(project, region, regions[region])

    async def regions(self, request: web.Request, _: Fault | None) -> Json:
        """All regions."""
        project = request.match_info["project"]
        self._check_permission(project, "-")
        return {"kind": "compute#regionList", "items": [self._region(project, *region) for region in self._regions().items()]}

    async def zone(self, request: web.Request, _: Fault | None) -> Json:
        """A zone."""
        project, zone = request.match_info["project"], request.match_info["zone"]
        self._check_permission(project, zone)
        if zone not in self._cloud.store.zones():
            raise error_messages.not_found(f"projects/{project}/zones/{zone}")
        return self._zone(project, zone)

    async def zones(self, request: web.Request, _: Fault | None) -> Json:
        """All zones."""
        project = request.match_info["project"]
        self._check_permission(project, "-")
        return {"kind": "compute#zoneList", "items": [self._zone(project, zone) for zone in self._cloud.store.zones()]}

    def _check_permission(self, project: str, zone: str) -> None:
        admission.check_permission(self._cloud.behaviour(zone), Api.COMPUTE, project=project, zone=zone)

    def _regions(self) -> dict[str, list[str]]:
        regions: dict[str, list[str]] = {}
        for zone in self._cloud.store.zones():
            regions.setdefault(region_of(zone), []).append(zone)
        return regions

    def _region(self, project: str, region: str, zones: list[str]) -> Json:
        return {
            "kind": "compute#region",
            "name": region,
            "status": "UP",
            "selfLink": f"{ROOT}/projects/{project}/regions/{region}",
            "zones": [zone_link(project, zone) for zone in zones],
            "quotas": self._quotas(Scope.REGION, project, zones),
        }

    def _zone(self, project: str, zone: str) -> Json:
        region = f"{ROOT}/projects/{project}/regions/{region_of(zone)}"
        return {"kind": "compute#zone", "name": zone, "status": "UP", "region": region, "selfLink": zone_link(project, zone)}

    def _quotas(self, scope: Scope, project: str, zones: list[str]) -> list[Json]:
        """The quotas of the zones at this scope, with their usage."""
        used = Counter(
            m.zone for m in self._cloud.store.machines(self._cloud.now()) if (m.kind, m.project) == (Kind.INSTANCE, project)
        )
        limits = {_METRICS[scope]: _DEFAULT_LIMIT}
        for quota in (self._cloud.behaviour(zone).quota for zone in zones):
            if quota is not None and quota.scope is scope:
                limits[quota.metric or _METRICS[scope]] = float(quota.limit)
        usage = float(sum(used[zone] for zone in zones))
        return [{"metric": metric, "limit": limit, "usage": usage} for metric, limit in sorted(limits.items())]
