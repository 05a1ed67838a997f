"""Run the tasks of demand.json, by sleeping, on the slices of `make run`: single tasks, and gangs on slices of their own."""

import asyncio
from collections import Counter
from functools import cache
from pathlib import Path

from temporalio.service import RPCError

from penstock.client import AutoscalerClient, ClientError
from penstock.config.cluster import load_cluster
from penstock.config.demand import DemandFile
from penstock.connection import connect, run
from penstock.contract.tasks import DemandItem
from penstock.core.decision.match import exclusion
from penstock.model.cluster import ClusterConfig, ScaleGroup

Host = dict[str, Counter[str]]  # What each of its tasks has reserved.
say = cache(print)  # Each line once.


class Controller:
    def __init__(self, autoscaler: AutoscalerClient, config: ClusterConfig, demand: DemandFile, seconds: float = 20) -> None:
        self.autoscaler, self.groups, self.seconds = autoscaler, {group.name: group for group in config.groups}, seconds
        names = [(item, f"{item.id}/{i}" if item.count > 1 else item.id) for item in demand.tasks for i in range(item.count)]
        self.waiting = [item.model_copy(update={"id": name, "count": 1}) for item, name in names]
        self.slices: dict[str, list[Host]] = {}

    async def step(self) -> None:
        """See which slices there are, start jobs, most urgent first, and report what waits, what runs and what is drained."""
        drains = {drain.slice_id: drain for drain in (await self.autoscaler.status()).drains}
        found = {each.id: each async for each in self.autoscaler.all_slices() if each.state.was_ready}
        self.slices = {name: self.slices.get(name) or [{} for _ in each.hosts] for name, each in found.items()}
        for name, each in found.items():
            say(f"{name} is READY")
            for job in [] if name in drains or each.cordoned else list(self.waiting):
                self.start(job, name, self.groups[each.group])
        usage = {s: [{"tasks": [*host], "reserved": sum(host.values(), Counter())} for host in self.slices[s]] for s in found}
        empty = [drain for name, drain in drains.items() if name in found and not any(self.slices[name])]
        await self.autoscaler.report(self.waiting, usage=usage, confirmed=empty)
        for drain in empty:
            say(f"{drain.slice_id} is empty: drain {drain.number} ({drain.cause}) is confirmed")

    def start(self, job: DemandItem, name: str, group: ScaleGroup) -> None:
        """Start the job if the slice is of its kind and has room. Accelerators are left to the jobs that need them."""
        tasks = [f"{job.id}/{i}" for i in range(job.tasks)] if job.gang else [job.id]
        need, most = Counter(job.resources.model_dump()), Counter(group.host.model_dump())
        free = (host for host in self.slices[name] if sum(host.values(), need) <= most and not (job.gang and host))
        room = dict(zip(tasks, free, strict=False))
        if len(room) == len(tasks) and exclusion(job, group) is None and group.accelerated == job.accelerated:
            self.waiting.remove(job)
            for task, host in room.items():
                host[task] = need
            say(f"{job.id} starts on {name}")
            asyncio.get_running_loop().call_later(self.seconds, self.finish, job, name, room)

    def finish(self, job: DemandItem, name: str, room: dict[str, Host]) -> None:
        for task, host in room.items():
            del host[task]
        self.waiting[:0] = [] if name in self.slices else [job]  # Without its slice, it waits again.
        say(f"{job.id} {'has finished' if name in self.slices else f'waits again: {name} is lost'}")


async def main() -> None:
    config = load_cluster(Path(__file__).with_name("cluster.yaml")).config
    demand = DemandFile.model_validate_json(Path(__file__).with_name("demand.json").read_text())
    controller = Controller(AutoscalerClient(await connect(quiet=True), config.cluster), config, demand)
    while True:
        try:
            await controller.step()
        except (RPCError, ClientError) as error:
            print(f"no answer, trying again: {error}")
        await asyncio.sleep(1)


if __name__ == "__main__":
    run(main())
