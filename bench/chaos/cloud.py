"""The simulated cloud as its operator sees it: every resource ever created, and what people and fate do to them."""

from typing import Any

import aiohttp

from bench.chaos.accounts import Made

CLUSTER_LABEL, GROUP_LABEL, SLICE_LABEL = "penstock-cluster", "penstock-group", "penstock-slice"
CALL_SECONDS = 10.0


class CloudAdmin:
    """Direct calls to the cloud, past the proxy. `stolen` and `foreign` are the names of the resources treated so."""

    def __init__(self, url: str, session: aiohttp.ClientSession, *, cluster: str) -> None:
        self.cluster = cluster
        self.stolen: set[str] = set()
        self.foreign: set[str] = set()
        self._url = url
        self._session = session

    async def ever_made(self) -> tuple[Made, ...]:
        """Every resource ever created for the cluster."""
        items = [item for item in await self._items() if item["labels"].get(CLUSTER_LABEL) == self.cluster]
        return tuple(
            Made(item["labels"][SLICE_LABEL], item["labels"][GROUP_LABEL], item["name"], exists=item["phase"] != "gone")
            for item in items
            if item["name"] not in self.foreign
        )

    async def missing_foreign(self) -> tuple[str, ...]:
        """Foreign resources that no longer run."""
        running = {item["name"] for item in await self._items() if item["phase"] == "running"}
        return tuple(sorted(self.foreign - running))

    async def names(self) -> list[str]:
        """Names of the cluster's resources that exist, in order."""
        return sorted(made.name for made in await self.ever_made() if made.exists)

    async def behave(self, zone: str, **behaviour: Any) -> None:
        """Set the behaviour of a zone; everything else returns to the default."""
        await self._call("PUT", f"/zones/{zone}", behaviour)

    async def steal(self, name: str) -> None:
        """Delete a resource behind the autoscaler's back."""
        self.stolen.add(name)
        await self._call("DELETE", f"/resources/{name}")

    async def preempt(self, name: str) -> None:
        """Preempt one resource."""
        await self._call("POST", f"/resources/{name}/preempt")

    async def preempt_zone(self, zone: str) -> None:
        """Preempt every preemptible resource of a zone."""
        await self._call("POST", f"/zones/{zone}/preempt")

    async def kill_host(self, name: str) -> None:
        """Make the first host of a resource stop answering."""
        await self._call("POST", f"/resources/{name}/hosts/0/kill")

    async def add_foreign(self, name: str, zone: str, labels: dict[str, str]) -> None:
        """Create a resource that is not the cluster's."""
        await self._call("POST", f"/zones/{zone}/resources", {"name": name, "labels": labels})
        self.foreign.add(name)

    async def _items(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self._call("GET", "/resources"))["items"]
        return items

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
        async with self._session.request(method, self._url + path, json=body, timeout=timeout) as reply:
            reply.raise_for_status()
            return await reply.json()
