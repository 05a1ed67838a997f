"""Run the Temporal benchmarks; check their targets and print their table."""

import asyncio

from rich.table import Table

from bench.temporal import scene as staging
from bench.temporal.fleet import DEADLINE_SECONDS, QUICK_SLICES, SLICES, FleetResult, measure_fleet
from bench.temporal.footprint import FootprintResult, measure_footprint
from bench.temporal.latency import LatencyResult, measure_latency
from bench.temporal.scene import staged
from bench.temporal.throughput import ThroughputResult, measure_throughput
from bench.verdicts import Status, Verdict
from penstock.model.value import Value

OF_BARE_LATENCY = 1.5
OF_BARE_RATE = 0.7
INVENTORY_EVENTS_PER_HOUR = 100


class TemporalRun(Value):
    """All results of one run."""

    latency: LatencyResult
    throughput: ThroughputResult
    footprint: FootprintResult
    fleet: FleetResult


def run_temporal(*, quick: bool) -> TemporalRun:
    """Measure on a new Temporal server, simulated cloud, worker and bare worker."""
    return asyncio.run(_measured(quick=quick))


async def _measured(*, quick: bool) -> TemporalRun:
    staging.DEADLINE_SECONDS = DEADLINE_SECONDS
    async with staged() as scene:
        latency = await measure_latency(scene, samples=100 if quick else 200)
        footprint = await measure_footprint(scene, rest_seconds=20 if quick else 60)
        throughput = await measure_throughput(scene, slices=200 if quick else 400, rounds=3)
        fleet = await measure_fleet(scene, slices=QUICK_SLICES if quick else SLICES)
        return TemporalRun(latency=latency, throughput=throughput, footprint=footprint, fleet=fleet)


def temporal_verdicts(run: TemporalRun) -> list[Verdict]:
    """Whether the durable loop reaches its targets."""
    latency, throughput, rest = run.latency, run.throughput, run.footprint
    verdicts = []
    for name in ("p50", "p99"):
        bare, ours, decision = (getattr(side, name) for side in (latency.bare, latency.ours, latency.decision))
        allowed = OF_BARE_LATENCY * bare + decision
        figures = f"{ours:.0f} ms, allowed {allowed:.0f} (bare {bare:.0f}, decision {decision:.0f})"
        target = f"demand to create call, {name}: at most {OF_BARE_LATENCY:g} × bare + the decision"
        verdicts.append(_verdict(target, ours <= allowed, figures))
    bare, ours = latency.bare.p50, latency.ours.p50
    target = f"demand to create call, p50: at most {OF_BARE_LATENCY:g} × bare, the decision included"
    verdicts.append(_verdict(target, ours <= OF_BARE_LATENCY * bare, f"{ours:.0f} ms, {ours / bare:.2f} × bare"))
    rate = f"{throughput.ours:.0f}/s, bare {throughput.bare:.0f}/s, {throughput.ratio:.2f} of it"
    verdicts.append(
        _verdict(f"slices started per second: at least {OF_BARE_RATE:g} of bare", throughput.ratio >= OF_BARE_RATE, rate)
    )
    still = rest.autoscaler_at_rest + rest.slices_at_rest
    seconds = f"{still} events in {rest.rested_seconds:g} s, {rest.slices} slices"
    verdicts.append(_verdict("no events at rest in the autoscaler and in READY slices", still == 0, seconds))
    hourly = f"{rest.inventory_per_hour:.0f} an hour, {rest.inventory_at_rest} in {rest.rested_seconds:g} s"
    modest = rest.inventory_per_hour <= INVENTORY_EVENTS_PER_HOUR and rest.inventory_at_rest <= 12
    verdicts.append(_verdict(f"at most {INVENTORY_EVENTS_PER_HOUR} events an hour and location in the inventory", modest, hourly))
    return verdicts


def _verdict(target: str, reached: bool, figures: str) -> Verdict:
    return Verdict(target=target, status=Status.REACHED if reached else Status.MISSED, figures=figures)


def temporal_table(run: TemporalRun) -> Table:
    """All figures, with those of bare Temporal."""
    latency, throughput, rest = run.latency, run.throughput, run.footprint
    table = Table(title="The durable loop compared with bare Temporal", title_justify="left")
    for name in ("figure", "bare", "ours", "ratio"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for name in ("p50", "p99"):
        bare, ours = getattr(latency.bare, name), getattr(latency.ours, name)
        label = f"signal to create call, {name} of {latency.samples}, ms"
        table.add_row(label, f"{bare:.1f}", f"{ours:.1f}", f"{ours / bare:.2f}")
    table.add_row("of which the decision, p50 / p99, ms", "", f"{latency.decision.p50:.1f} / {latency.decision.p99:.1f}", "")
    rates = (f"{throughput.bare:.0f}", f"{throughput.ours:.0f}", f"{throughput.ratio:.2f}")
    table.add_row(f"started per second, {throughput.slices} in one batch, median of {throughput.rounds}", *rates)
    fleet = run.fleet
    fleet_rates = f"{fleet.ready_per_second:.0f} / {fleet.deleted_per_second:.0f}"
    table.add_row(f"to READY / deleted per second, {fleet.slices} in one batch", "", fleet_rates, "")
    table.add_row(
        "events / bytes per evaluation that launches a slice",
        "",
        _pair(rest.events_per_evaluation, rest.bytes_per_evaluation),
        "",
    )
    table.add_row("events / bytes of a slice's whole lifecycle", "", _pair(rest.events_per_life, rest.bytes_per_life), "")
    drain = f"{rest.slice_events_per_drain:.1f} / {rest.autoscaler_events_per_drain:.1f}"
    table.add_row(f"events of a drain for idleness, slice / autoscaler, {rest.drained} slices", "", drain, "")
    table.add_row(f"events at rest, autoscaler, {rest.rested_seconds:g} s", "", str(rest.autoscaler_at_rest), "")
    table.add_row(f"events at rest, {rest.slices} READY slices, {rest.rested_seconds:g} s", "", str(rest.slices_at_rest), "")
    table.add_row("events an hour, inventory of a location", "", f"{rest.inventory_per_hour:.0f}", "")
    return table


def _pair(events: float, size: float) -> str:
    return f"{events:.0f} / {size:,.0f}"
