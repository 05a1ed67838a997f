"""What must hold once everything works again and nothing is asked for any more."""

from collections import Counter

from penstock.contract import names
from penstock.contract.tasks import demand_of
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.decision.decide import decide
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Code
from penstock.model.slices import SliceState
from penstock.model.snapshot import Snapshot
from tests.core.elastic.disruptions import left_to_replace
from tests.core.elastic.jobs import Job
from tests.core.elastic.world import World

HOUR = 3600.0
SETTLED_SECONDS = 4 * HOUR
"""Longer than blocks, silence and idle timeouts together take."""
MOST_HOURS_OF_WORK = 20
"""Within which all work is done, one job after the other."""
QUIET_SECONDS = 1.5 * HOUR
"""Longer than every patience."""

PLENTY = {"chips": 1_000_000, "system": 0}


def at_rest(world: World) -> None:
    """End every fault, and let hours pass: work is done, then what is idle goes; once nothing changes, nothing moves."""
    heal(world)
    world.run(SETTLED_SECONDS)
    for _ in range(MOST_HOURS_OF_WORK):
        if any(controller.running for controller in world.controllers.values()):
            world.run(HOUR)
    judge_demand(world)
    judge_replaced(world)
    stop_ageing(world)
    judge_replaced(world)
    judge_quiet(world)
    for controller in world.controllers.values():
        controller.withdraw()
    for queue in world.queues.values():
        queue.waiting.clear()
    for owner in list(world.state.standing):
        world.operate(names.REQUEST_CAPACITY, {"owner": owner, "wants": []})
    world.run(QUIET_SECONDS)
    judge_floors(world)
    judge_quiet(world)


def judge_quiet(world: World) -> None:
    """Nothing is ordered while nothing changes, and ledger, workflows and cloud agree."""
    before = len(world.checks.orders)
    world.run(QUIET_SECONDS)
    for order in world.checks.orders[before:]:
        world.checks.report(f"group {order.group} does not rest: {order.what}")
    judge_ledger(world)


def judge_replaced(world: World) -> None:
    """Nothing is left that ought to be replaced and could be."""
    for problem in left_to_replace(world.state):
        world.checks.report(problem)


def stop_ageing(world: World) -> None:
    """No slice is too old from now on, and no window is closed: so all that is to be replaced is, and then nothing moves."""
    config = {name: value for name, value in world.config.items() if name != "window"}
    groups = [{name: each[name] for name in each if name not in ("max_age", "window")} for each in config["groups"]]
    if config != world.config or groups != config["groups"]:
        world.configure(config | {"groups": groups})
        world.run(2 * HOUR)


def heal(world: World) -> None:
    """End every fault, of the cloud, the network, the controllers and the operators."""
    world.cloud.heal()
    world.message_seconds, world.autoscaler.evaluation_seconds = 1.0, 0.5
    for controller in world.controllers.values():
        controller.heal()
    if world.state.paused is not None:
        world.operate(names.RESUME, {})
    for slice_id, protection in world.state.protections.items():
        if protection.cordoned and world.state.by_id[slice_id].state.live:
            world.operate(names.CORDON_SLICE, {"slice_id": slice_id, "cordoned": False})


def judge_demand(world: World) -> None:
    """All work is done that the configuration has room for."""
    for controller in world.controllers.values():
        for job in controller.pending.values():
            if _fits(world, job) and not _floors_hold_what_is_shared(world):
                world.checks.report(f"{job.id} waits although it fits")
        for name in controller.running:
            world.checks.report(f"{name} still runs")
    for group, queue in world.queues.items():
        if queue.waiting and _has_room_for(world, group):
            world.checks.report(f"{len(queue.waiting)} tasks wait for slices of {group}")


def _has_room_for(world: World, name: str) -> bool:
    """Whether a group may have slices, and the cluster another one."""
    config = world.state.config
    assert config is not None
    group = config.group(name)
    is_full = config.max_slices is not None and len(world.state.slices) >= config.max_slices
    return group is not None and bool(group.max_slices) and not is_full


def _fits(world: World, job: Job) -> bool:
    """Whether an empty cluster would take the job."""
    state, workload = world.state, demand_of([job.item]).workload
    assert state.config is not None
    return bool(decide(Snapshot(config=state.config, now=state.now, workload=workload)).placed)


def _floors_hold_what_is_shared(world: World) -> bool:
    """Whether demand waits for chips of a pool or slices of the cluster that minimums, spares and standing requests hold."""
    decision = decide(snapshot_of(world.state).snapshot)
    shared = {code for unmet in decision.unmet for code in unmet.groups.values()} & {Code.CLUSTER_AT_MAX, Code.POOL_EXHAUSTED}
    return bool(shared) and all(group.have <= group.target for group in decision.groups)


def judge_floors(world: World) -> None:
    """Each group has at most the slices that an empty cluster would launch without demand, and the cluster not fewer of them.

    Groups share the maximum of the cluster and the chips of pools; which of them has its spares is open.
    """
    config = world.state.config
    assert config is not None
    free = config.model_copy(update={"max_slices": None, "pools": tuple(pool.model_copy(update=PLENTY) for pool in config.pools)})
    most, least = _launched(world, free), _launched(world, config)
    found = Counter(piece.group for piece in world.state.slices)
    for group in sorted(found):
        if found[group] > most[group]:
            world.checks.report(f"group {group} rests with {found[group]} slices, {most[group]} are enough")
    if found.total() < least.total():
        world.checks.report(f"the cluster rests with {found.total()} slices, it needs {least.total()}")
    heads = sum(group.protect_first and bool(found[group.name]) for group in config.groups)
    if config.max_slices is not None and found.total() - heads > config.max_slices:  # No maximum above 0 takes a head.
        world.checks.report(f"the cluster rests with {found.total()} slices, its limit is {config.max_slices}")


def _launched(world: World, config: ClusterConfig) -> Counter[str]:
    """What an empty cluster launches without demand."""
    found: Counter[str] = Counter()
    for launch in decide(Snapshot(config=config, now=world.state.now)).launches:
        found[launch.group] += launch.slices
    return found


def judge_ledger(world: World) -> None:
    """Ledger, workflows and cloud agree on every slice."""
    if world.state.recovery is not None:
        world.checks.report(f"a recovery lasts at rest: {world.state.recovery.reason}")
    ledger = {piece.id: piece.state for piece in world.state.slices}
    running = {slice_id: run.lifecycle.state for slice_id, run in world.runs.items() if run.is_running}
    if ledger != running or ledger.keys() != world.cloud.existing().keys():
        world.checks.report(f"at rest the ledger has {ledger}, workflows {running}, the cloud {world.cloud.existing()}")
    for piece in world.state.slices:
        if piece.state is not SliceState.READY or piece.drains:
            world.checks.report(f"{piece.id} is {piece.state} at rest, drain {piece.drain}")
