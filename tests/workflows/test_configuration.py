"""Live configuration: validated, versioned, applied without a restart."""

from typing import Any

from penstock.contract.names import inventory_id
from penstock.model.cluster import ClusterConfig, ProviderConfig
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group
from tests.workflows.test_demand import played, ready, tasks


def changed(stage: Stage, *groups: dict[str, Any], **rest: Any) -> ClusterConfig:
    """The stage's configuration with other groups, or other numbers."""
    written = stage.config.model_dump(mode="json", exclude_unset=True) | rest
    placed = [each | {"zone": stage.cloud.zone(each["zone"])} for each in groups]
    return ClusterConfig.model_validate(written | ({"groups": placed} if placed else {}))


def test_a_raised_maximum_lets_waiting_demand_in(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(3, cpu=4))
        await ready(stage, "small", 1)
        done = await stage.autoscaler.apply_config(changed(stage, group(max_slices=3)))
        assert done.config_revision == 2
        await ready(stage, "small", 3)
        assert (await stage.autoscaler.status()).config_revision == 2

    played(machine, story, group(max_slices=1))


def test_a_new_group_at_another_location_is_watched_and_used(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "small", 1)
        await stage.autoscaler.apply_config(changed(stage, group(min_slices=1), group("other", zone="b", min_slices=2)))
        await ready(stage, "other", 2)

    played(machine, story, group(min_slices=1))


def test_a_cluster_that_is_deleted_does_not_wait_for_a_location_that_is_no_longer_configured(machine: Machine) -> None:
    """A location that cannot be listed keeps a cluster open until it can be, or is removed from the configuration."""

    async def story(stage: Stage) -> None:
        nowhere = stage.config.groups[1].model_copy(update={"provider": ProviderConfig(kind="nowhere")})
        wrong = stage.config.model_copy(update={"groups": (stage.config.groups[0], nowhere)})
        await stage.autoscaler.start(wrong)
        location = f"nowhere/{stage.cloud.zone('b')}"
        await stage.eventually(
            stage.autoscaler.status, lambda status: status.recovery and status.recovery.waiting_for == (location,)
        )
        await stage.autoscaler.delete(force=True)
        await stage.autoscaler.apply_config(stage.config.model_copy(update={"groups": stage.config.groups[:1]}))
        await stage.workflow.result()
        watch = stage.client.get_workflow_handle(inventory_id(stage.cluster, "nowhere", stage.cloud.zone("b")))
        await watch.result()

    played(machine, story, group(), group("other", zone="b"), start=False)


def test_a_group_that_disappears_gets_no_new_slices_and_keeps_those_it_has(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1, cpu=4))
        await ready(stage, "old", 1)
        await stage.autoscaler.apply_config(changed(stage, group("new")))
        await stage.autoscaler.submit_demand(tasks(3, cpu=4))
        await stage.eventually(lambda: stage.autoscaler.slices(group="new", state="READY"), lambda page: page.total >= 2)
        status = await stage.autoscaler.status()
        assert {each.name: (each.configured, sum(each.slices.values())) for each in status.groups}["old"] == (False, 1)

    played(machine, story, group("old"))
