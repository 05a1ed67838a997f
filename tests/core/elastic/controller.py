"""A job controller in simulated time: it runs tasks on the slices that it knows, reports usage, and confirms drains."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from penstock.contract import names
from penstock.model.slices import SliceState
from tests.core.elastic.clock import Process, Task, Within
from tests.core.elastic.jobs import HostRoom, Job, Running, Size, hosts_for
from tests.core.elastic.surroundings import Surroundings

TICK_SECONDS = 5.0
"""Least time between two looks at the status."""
HEARTBEATS = 3
"""Heartbeats in the time after which silence counts."""
CHECKED_AFTER_SECONDS = 60.0
"""How long after its last message a controller compares what the status says was applied with what it sent."""
LEASE_SECONDS = 600.0


class Controller:
    """One controller. It may be cut off from the autoscaler, crash, and leave drains unconfirmed; its tasks run on meanwhile."""

    def __init__(self, world: Surroundings, source: str = "controller") -> None:
        self._world = world
        self.source = source
        self.pending: dict[str, Job] = {}
        self.running: dict[str, Running] = {}
        self.finished: list[str] = []
        self.is_cut_off = False
        self.confirms = True
        self.moves = False
        """Whether it moves work away from draining slices, or lets it run to its end."""
        self.spreads = False
        """Whether it runs tasks on the emptiest hosts, or on the first with room."""
        self.degraded: set[tuple[str, int]] = set()
        """Hosts that it says are degraded, by slice and position."""
        self.undisturbed: set[str] = set()
        """Slices of which it says `do_not_disrupt`."""
        self._ready: list[str] = []
        """Slices that are READY and do not drain, as the status last showed them."""
        self._cordoned: set[str] = set()
        self._draining: dict[str, int] = {}
        """Slices that drain, with the numbers of their drains."""
        self._sizes: dict[str, Size] = {}
        """Of every slice that it has seen."""
        self.epoch, self._revision, self._demand_revision = 1, 0, 0
        self._sent_usage: dict[str, Any] = {}
        self._sent_demand: list[Any] | None = None
        self._is_known = False
        """Whether it has reported usage in this epoch."""
        self._rejected_at = world.clock.now
        """When the last rejected message came that it has sent again."""
        self._confirmed: set[tuple[str, int]] = set()
        self._sent_at = world.clock.now - timedelta(days=1)
        self._seen_version = -1
        self._silent_until = world.clock.now
        """It reports usage from then on; a controller that restarts may first send demand alone."""
        self._task: Task = world.clock.start(self._loop())

    # What happens to it.

    def submit(self, jobs: Iterable[Job]) -> None:
        """Jobs wait from now on."""
        self.pending |= {job.id: job for job in jobs}
        self._seen_version = -1

    def withdraw(self) -> None:
        """Nothing waits any more; what runs goes on."""
        self.pending.clear()
        self._seen_version = -1

    def finish(self, slice_id: str) -> None:
        """Everything on a slice ends now."""
        now = self._world.clock.now
        for name, each in list(self.running.items()):
            if slice_id in each.slices:
                self.running[name] = each._replace(until=now)
        self._seen_version = -1

    def lose_message(self) -> None:
        """A change of its demand never arrives, and the next one does."""
        self._demand_revision += 2
        stamp: dict[str, Any] = {"epoch": self.epoch, "revision": self._demand_revision, "base": self._demand_revision - 1}
        self._world.send(names.DEMAND, {"source": self.source} | stamp)
        self._sent_at = self._world.clock.now

    def restart(self, *, down_seconds: float, usage_after: float = 0.0) -> None:
        """It crashes and comes back in a new epoch; its tasks run on. Usage may come later than demand."""
        self._world.clock.stop(self._task)
        self._task = self._world.clock.start(self._come_back(down_seconds, usage_after))

    def heal(self) -> None:
        """Whatever kept it from working is over."""
        self.is_cut_off, self.confirms = False, True
        self.degraded.clear()
        self.undisturbed.clear()
        self.look_again()

    def look_again(self) -> None:
        """It looks at everything again soon: something changed that no status shows."""
        self._seen_version = -1

    # The truth.

    def busy(self, slice_id: str) -> bool:
        """Whether a task runs on the slice."""
        now = self._world.clock.now
        on_it = (each for each in self.running.values() if slice_id in each.slices)
        return any(each.until > now for each in on_it) and self._world.cloud.runs(slice_id)

    # The loop.

    def _come_back(self, down_seconds: float, usage_after: float) -> Process:
        yield down_seconds
        self._begin_epoch()
        self._silent_until = self._world.clock.now + timedelta(seconds=usage_after)
        yield from self._loop()

    def _begin_epoch(self, after: int = 0) -> None:
        self.epoch, self._revision, self._demand_revision = max(self.epoch, after) + 1, 0, 0
        self._sent_usage, self._sent_demand, self._is_known = {}, None, False
        self._seen_version = -1

    def _loop(self) -> Process:
        while True:
            self._tick()
            yield TICK_SECONDS
            yield Within(
                lambda: self._seen_version != self._world.state.version, max(0.0, self._seconds_to_wake() - TICK_SECONDS)
            )

    def _seconds_to_wake(self) -> float:
        """Until a job ends or a heartbeat is due."""
        now = self._world.clock.now
        ends = [(each.until - now).total_seconds() for each in self.running.values()]
        heartbeat = self._heartbeat_seconds() - self._world.clock.seconds_since(self._sent_at)
        late = (self._silent_until - now).total_seconds()
        return max(0.0, min([*ends, heartbeat, *([late] if late > 0 else [])]))

    def _heartbeat_seconds(self) -> float:
        config = self._world.state.config
        return min(LEASE_SECONDS, config.stale_after_seconds if config else LEASE_SECONDS) / HEARTBEATS

    def _tick(self) -> None:
        self._end_jobs()
        if not self.is_cut_off:
            self._read_status()
        self._seen_version = self._world.state.version
        if self.moves:
            self._stop_jobs_that_move()
        self._start_jobs()
        if not self.is_cut_off:
            self._report()

    def _end_jobs(self) -> None:
        """Jobs end in time, or wait again if a slice under them is lost."""
        now = self._world.clock.now
        for name, each in list(self.running.items()):
            if each.until <= now:
                del self.running[name]
                self.finished.append(name)
            elif not all(self._world.cloud.runs(owner) for owner, _ in each.hosts):
                del self.running[name]
                self.pending[name] = each.job

    def _stop_jobs_that_move(self) -> None:
        """What runs on draining slices waits again, with what is left of it to do."""
        now = self._world.clock.now
        for name, each in list(self.running.items()):
            if not each.slices.isdisjoint(self._draining):
                del self.running[name]
                self.pending[name] = each.job._replace(seconds=max(1.0, (each.until - now).total_seconds()))

    def _read_status(self) -> None:
        self._check_stamps()
        self._check_rejections()
        state = self._world.state
        self._sizes |= {piece.id: self._world.sizes[piece.group] for piece in state.slices}
        cordoned = {slice_id for slice_id, protection in state.protections.items() if protection.cordoned}
        mine = [piece for piece in state.slices if piece.group not in self._world.driven]
        ready = (piece for piece in mine if piece.state is SliceState.READY and not piece.drains)
        self._ready = [piece.id for piece in ready]
        self._cordoned = cordoned
        draining = [piece for piece in mine if piece.drains and piece.state.was_ready]
        self._draining = {piece.id: piece.drain.number if piece.drain else 0 for piece in draining}

    def _check_stamps(self) -> None:
        """Send everything again in a new epoch if what was sent is not what the autoscaler has."""
        if self._world.clock.seconds_since(self._sent_at) < CHECKED_AFTER_SECONDS or not self._revision:
            return
        usage, demand = self._world.state.usage_sources.get(self.source), self._world.state.demand.get(self.source)
        lost = usage is None or usage.resync_needed is not None or usage.stamp != (self.epoch, self._revision)
        if self._sent_demand is not None:
            sent = (self.epoch, self._demand_revision)
            lost = lost or demand is None or demand.resync_needed is not None or demand.stamp != sent
        if lost:
            self._begin_epoch(max(usage.epoch if usage else 0, demand.epoch if demand else 0))

    def _check_rejections(self) -> None:
        """Send everything again once slices are known that were not known yet when it named them."""
        state, since = self._world.state, self._rejected_at
        found = [one.at for one in state.rejected if "not known yet" in one.problem and one.at > since]
        if found and state.recovery is None:
            self._rejected_at = max(found)
            self._begin_epoch(self.epoch)

    def _start_jobs(self) -> None:
        closed = {owner for owner, _ in self.degraded} | self._cordoned
        running = [slice_id for slice_id in self._ready if slice_id not in closed and self._world.cloud.runs(slice_id)]
        rooms = {slice_id: [HostRoom(self._sizes[slice_id]) for _ in range(self._sizes[slice_id].hosts)] for slice_id in running}
        for each in self.running.values():
            for owner, host in each.hosts:
                if owner in rooms:
                    rooms[owner][host].take(each.job)
        for name, job in list(self.pending.items()):
            hosts = hosts_for(rooms, job, spread=self.spreads)
            if not hosts:
                continue
            for owner, host in hosts:
                rooms[owner][host].take(job)
            del self.pending[name]
            self.running[name] = Running(job, hosts, self._world.clock.now + timedelta(seconds=job.seconds))

    # Reports.

    def _report(self) -> None:
        """Send what is news, or a heartbeat. The first usage of an epoch is complete."""
        now = self._world.clock.now
        usage = self._usage() if now >= self._silent_until else {}
        news = {slice_id: word for slice_id, word in usage.items() if self._sent_usage.get(slice_id) != word}
        complete = now >= self._silent_until and not self._is_known
        confirmed, demand = self._newly_empty(), [job.item for job in self.pending.values()]
        due = self._world.clock.seconds_since(self._sent_at) >= self._heartbeat_seconds()
        if not (news or complete or confirmed or due or demand != self._sent_demand):
            return
        self._revision += 1
        message: dict[str, Any] = {"source": self.source, "epoch": self.epoch, "revision": self._revision}
        if news or complete:
            message |= {"usage": news, "complete": complete}
        if confirmed:
            message |= {"confirmed": [{"slice_id": slice_id, "number": number} for slice_id, number in confirmed]}
        if demand != self._sent_demand:
            self._demand_revision += 1
            stamp = {"epoch": self.epoch, "revision": self._demand_revision}
            message["demand"] = {"source": self.source, "tasks": demand, "lease": LEASE_SECONDS} | stamp
        self._is_known = self._is_known or complete
        self._confirmed |= set(confirmed)
        self._sent_usage = {slice_id: word for slice_id, word in self._sent_usage.items() if slice_id in usage} | news
        self._sent_demand, self._sent_at = demand, now
        self._world.send(names.REPORT, message)

    def _newly_empty(self) -> list[tuple[str, int]]:
        """Draining slices on which nothing runs, with the numbers of their drains; those that were not confirmed yet."""
        if not self.confirms:
            return []
        busy = {owner for each in self.running.values() for owner in each.slices}
        return sorted(
            (one, number) for one, number in self._draining.items() if one not in busy and (one, number) not in self._confirmed
        )

    def _usage(self) -> dict[str, Any]:
        """What runs where, for every slice that the status shows and every one with a job."""
        busy = {owner for each in self.running.values() for owner in each.slices}
        on_hosts: dict[str, list[list[tuple[Job, int]]]] = {
            slice_id: [[] for _ in range(self._sizes[slice_id].hosts)]
            for slice_id in sorted({*self._ready, *self._draining, *busy})
        }
        for each in self.running.values():
            for rank, (owner, host) in enumerate(each.hosts):
                on_hosts[owner][host].append((each.job, rank))
        return {
            slice_id: [self._word(slice_id, i, on_it) for i, on_it in enumerate(hosts)] for slice_id, hosts in on_hosts.items()
        }

    def _word(self, slice_id: str, host: int, on_it: list[tuple[Job, int]]) -> dict[str, Any]:
        """The usage of one host."""
        word = _word(on_it)
        word |= {"state": "degraded"} if (slice_id, host) in self.degraded else {}
        return word | ({"do_not_disrupt": True} if slice_id in self.undisturbed else {})


def _word(on_it: list[tuple[Job, int]]) -> dict[str, Any]:
    """What runs on one host."""
    if not on_it:
        return {"state": "idle"}
    cpu, tpu = sum(job.cpu for job, _ in on_it), sum(job.tpu for job, _ in on_it)
    tasks = [f"{job.id}/{rank}" if job.gang else job.id for job, rank in on_it]
    gangs = list(dict.fromkeys(job.id for job, _ in on_it if job.gang))
    return {"state": "busy", "reserved": {"cpu": cpu} | ({"tpu": tpu} if tpu else {}), "tasks": tasks, "gangs": gangs}
