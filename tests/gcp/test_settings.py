"""The settings of groups on Google's clouds, and the messages for wrong ones."""

import re
from pathlib import Path
from typing import Any

import pytest

from activities.providers.gcp.catalogue import machine_type, tpu_kind
from activities.providers.gcp.factory import connection_of
from activities.providers.gcp.machine_metadata import machine_metadata
from activities.providers.gcp.settings import Capacity, ComputeSettings, Connection, Reach, Secret, TpuSettings, read
from activities.providers.port import Invalid, Order
from penstock.model.gpu import GPU_MACHINES

TPU: dict[str, Any] = {"project": "my-project"}
GCE: dict[str, Any] = {"project": "my-project", "image": "family/debian-12"}


def order(**fields: Any) -> Order:
    return Order(**{"cluster": "prod", "group": "g", "slice": "s-1", "location": "us-central2-b", **fields})


MISTAKES: dict[str, tuple[type[TpuSettings] | type[ComputeSettings], dict[str, Any], str]] = {
    "no project": (TpuSettings, {}, "provider.project: is missing; add it"),
    "no image": (ComputeSettings, {"project": "p"}, "provider.image: is missing; add it"),
    "a misspelt key": (TpuSettings, TPU | {"projcet": "p"}, "provider.projcet: unknown key; did you mean project?"),
    "a strange key": (TpuSettings, TPU | {"zzz": 1}, "provider.zzz: unknown key; known keys: capacity,"),
    "a reservation without its name": (
        TpuSettings,
        TPU | {"capacity": "reserved"},
        "capacity: reserved and reservation: NAME go together",
    ),
    "env without a script": (TpuSettings, TPU | {"env": {"A": "b"}}, "env is exported by startup_script; add one"),
    "a label of ours": (
        TpuSettings,
        TPU | {"labels": {"penstock-slice": "x"}},
        "penstock-slice is set by Penstock; choose another",
    ),
    "a label in upper case": (TpuSettings, TPU | {"labels": {"Team": "x"}}, "provider.labels.Team"),
    "a startup script as metadata": (TpuSettings, TPU | {"metadata": {"startup-script": "x"}}, "use startup_script"),
    "a secret of no kind": (TpuSettings, TPU | {"startup_script": {"secret": "vault:x"}}, "provider.startup_script"),
    "a duration in words": (TpuSettings, TPU | {"valid_until": "soon"}, "provider.valid_until: 'soon' is not a duration"),
    "a wait beyond flex-start": (ComputeSettings, GCE | {"valid_until": "3h"}, "provider.valid_until"),
    "an endpoint without a scheme": (ComputeSettings, GCE | {"endpoint": "localhost:1"}, "provider.endpoint"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_with_its_field_and_its_fix(name: str) -> None:
    model, given, expected = MISTAKES[name]
    with pytest.raises(Invalid) as raised:
        read(model, given)
    assert expected in str(raised.value)


NAMES = ("machine_type", "disk_type", "runtime_version")
PATHS = ("network", "subnetwork", "image", "placement_policy", "reservation")
OTHERS = {"service_account": "workers@my-project.iam.gserviceaccount.com", "tags": ["web"], "scopes": ["https://a/b"]}
BAD_ENDS = ("/../x", "/..", "..", "?x=1", "#x", " x", "\n", "\x00x", "%2e%2e", "\\x", "//x", "/", "é", "x" * 600)
"""Ends that a name in a URL cannot have."""


def with_setting(key: str, value: Any) -> tuple[type[TpuSettings] | type[ComputeSettings], dict[str, Any]]:
    """A group with one more setting, and what that needs beside it."""
    model, given = (TpuSettings, TPU) if key == "runtime_version" else (ComputeSettings, GCE)
    needs = {"capacity": "reserved"} if key == "reservation" else {}
    return model, given | needs | {key: value}


@pytest.mark.parametrize("end", BAD_ENDS)
@pytest.mark.parametrize("key", [*NAMES, *PATHS])
def test_a_name_that_becomes_part_of_a_url_is_refused_with_its_field_and_its_fix(key: str, end: str) -> None:
    model, given = with_setting(key, f"hunter2{end}")
    with pytest.raises(Invalid) as raised:
        read(model, given)
    assert f"provider.{key}: may have only" in str(raised.value)
    assert "; write" in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "end"),
    [(key, end) for key in OTHERS for end in BAD_ENDS if (key, end) != ("scopes", "/")],  # Some of Google's scopes end with it.
)
def test_identities_scopes_and_tags_are_refused_with_their_field_and_their_fix(key: str, end: str) -> None:
    good = OTHERS[key]
    given = f"{good}{end}" if isinstance(good, str) else [f"{good[0]}{end}"]
    with pytest.raises(Invalid, match=rf"provider\.{key}(\.0)?: may have only .*; write"):
        read(ComputeSettings, GCE | {key: given})


@pytest.mark.parametrize("key", ["startup script", "a/b", "a\n", "x" * 129, "x" * 100_000, ""])
def test_keys_of_metadata_are_those_that_google_takes(key: str) -> None:
    with pytest.raises(Invalid) as raised:
        read(ComputeSettings, GCE | {"metadata": {key: "x"}})
    (line,) = str(raised.value).splitlines()
    assert line.startswith("the group's provider cannot be used: provider.metadata.")
    assert ": may have only letters, digits, - and _" in line
    assert len(line) < 300
    assert read(ComputeSettings, GCE | {"metadata": {"serial-port-enable_2": "x"}}).metadata == {"serial-port-enable_2": "x"}


_API = "https://www.googleapis.com/compute/v1/projects"


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (
            "machine_type",
            [*GPU_MACHINES, "n2-custom-4-8192-ext", "custom-4-5120", "e2-small", "ct5lp-hightpu-4t", "x4-megamem-960-metal"],
        ),
        ("disk_type", ["pd-ssd", "pd-balanced", "hyperdisk-balanced"]),
        ("runtime_version", ["v2-alpha-tpuv5-lite", "tpu-ubuntu2204-base", "tpu-vm-tf-2.16.1-pod-pjrt", "my_runtime"]),
        (
            "network",
            [
                "default",
                "global/networks/n",
                "projects/p/global/networks/n",
                f"{_API}/p/global/networks/n",
                "projects/example.com:my-project/global/networks/n",
            ],
        ),
        (
            "subnetwork",
            ["regions/us-west4/subnetworks/s", "projects/p/regions/r/subnetworks/s", f"{_API}/p/regions/r/subnetworks/s"],
        ),
        (
            "image",
            [
                "family/debian-12",
                "global/images/my-image",
                "global/images/family/f",
                "projects/p/global/images/family/debian-12",
                f"{_API}/debian-cloud/global/images/debian-12-bookworm-v20240110",
            ],
        ),
        ("placement_policy", ["projects/p/regions/r/resourcePolicies/compact", "compact"]),
        (
            "reservation",
            [
                "mine",
                "projects/q/reservations/ours",
                "projects/q/locations/us-west4-a/reservations/ours",
                "projects/q/reservations/ours/reservationBlocks/b/reservationSubBlocks/c",
            ],
        ),
        ("service_account", ["default", "123-compute@developer.gserviceaccount.com", "w@p.example.com.iam.gserviceaccount.com"]),
        ("tags", [["web", "allow-health-checks"]]),
        ("scopes", [["https://www.googleapis.com/auth/devstorage.read_only", "https://mail.google.com/", "cloud-platform"]]),
    ],
)
def test_what_google_documents_is_accepted(key: str, values: list[Any]) -> None:
    for value in values:
        model, given = with_setting(key, value)
        found = getattr(read(model, given), key)
        assert (list(found) if isinstance(value, list) else found) == value


@pytest.mark.parametrize(("given", "port"), [({}, "8080"), ({"health_port": 9090}, "9090")])
def test_hosts_receive_the_port_of_their_health_check(given: dict[str, int], port: str) -> None:
    settings = GCE | {"startup_script": "serve"} | given
    connection = connection_of(settings, {"PENSTOCK_GCP_HEALTH_PORT": "8080"})
    metadata = machine_metadata(order(), read(ComputeSettings, settings), connection).metadata
    assert f"export PENSTOCK_HEALTH_PORT={port}\n" in metadata["startup-script"]
    assert str(connection.with_health_settings(metadata.get("penstock-health")).health_port) == port


def test_all_mistakes_are_reported_at_once_and_what_was_given_is_not_repeated() -> None:
    with pytest.raises(Invalid) as raised:
        read(ComputeSettings, {"image": 7, "startup_script": {"secret": "hunter2"}})
    said = str(raised.value)
    assert "provider.project" in said
    assert "provider.image" in said
    assert "hunter2" not in said


def test_a_secret_is_the_place_where_it_is() -> None:
    assert read(TpuSettings, TPU | {"startup_script": {"secret": "file:/run/x"}}).startup_script == Secret(secret="file:/run/x")


def test_groups_that_agree_on_the_connection_share_it() -> None:
    one = read(TpuSettings, TPU | {"health_port": 8080, "runtime_version": "x", "labels": {"team": "a"}})
    other = read(ComputeSettings, GCE | {"health_port": 8080})
    assert one.connection == other.connection == Connection(project="my-project", health_port=8080)


def test_a_resource_says_how_its_hosts_are_asked_if_its_group_does() -> None:
    assert read(TpuSettings, TPU).health_metadata is None
    said = read(TpuSettings, TPU | {"health_port": 8080, "reach": "external", "health_timeout": "1s"}).health_metadata
    asking = read(Connection, TPU).with_health_settings(said)
    assert (asking.health_port, asking.reach, asking.health_timeout_seconds) == (8080, Reach.EXTERNAL, 1.0)
    assert asking.project == "my-project"
    for useless in (None, "", "{}", "[", '{"project": "other"}', '{"health_port": 0}'):
        assert read(Connection, TPU).with_health_settings(useless) == read(Connection, TPU)


def test_preemptible_groups_are_spot_and_others_are_not() -> None:
    settings = read(TpuSettings, TPU)
    assert settings.capacity_of(order(preemptible=True)) is Capacity.SPOT
    assert settings.capacity_of(order()) is Capacity.ON_DEMAND
    reserved = read(TpuSettings, TPU | {"capacity": "reserved", "reservation": "r"})
    assert reserved.capacity_of(order()) is Capacity.RESERVED
    with pytest.raises(Invalid, match="they must agree"):
        reserved.capacity_of(order(preemptible=True))
    with pytest.raises(Invalid, match="preemptible: false"):
        read(TpuSettings, TPU | {"capacity": "spot"}).capacity_of(order())


@pytest.mark.parametrize(
    ("variant", "hosts", "runtime"),
    [
        ("v4-8", 1, "tpu-ubuntu2204-base"),
        ("v4-16", 2, "tpu-ubuntu2204-base"),
        ("v5litepod-8", 1, "v2-alpha-tpuv5-lite"),
        ("v5litepod-16", 4, "v2-alpha-tpuv5-lite"),
        ("v5p-384", 48, "v2-alpha-tpuv5"),
        ("v6e-8", 1, "v2-alpha-tpuv6e"),
        ("v6e-256", 64, "v2-alpha-tpuv6e"),
    ],
)
def test_a_variant_has_its_hosts_and_its_runtime(variant: str, hosts: int, runtime: str) -> None:
    kind = tpu_kind(variant, hosts=hosts)
    assert (kind.accelerator_type, kind.size.hosts, kind.runtime_version) == (variant, hosts, runtime)


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        (None, "needs the group's device.variant"),
        ("v9-8", "is not a TPU variant that Google lists"),
        ("v5litepod-17", "is not a TPU variant"),
        ("tpu7x-64", "only on Compute Engine and GKE"),
        ("v5litepod-16", "has 4 hosts, not 1; set hosts_per_slice to 4"),
    ],
)
def test_a_variant_that_is_not_sold_is_reported(variant: str | None, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        tpu_kind(variant, hosts=1)


def test_a_machine_type_is_chosen_or_follows_from_its_gpus() -> None:
    assert machine_type("n2-standard-8", variant=None) == "n2-standard-8"
    assert machine_type(None, variant="H200") == "a3-ultragpu-8g"
    assert machine_type(None, variant="b200") == "a4-highgpu-8g"
    assert machine_type("a2-ultragpu-4g", variant="A100") == "a2-ultragpu-4g"
    assert machine_type("g2-standard-8", variant="my-own-name") == "g2-standard-8"
    with pytest.raises(Invalid, match="l4 comes with g2-standard-12"):
        machine_type(None, variant="l4")
    with pytest.raises(Invalid, match="such as n2-standard-8"):
        machine_type(None, variant=None)
    with pytest.raises(Invalid, match=re.escape("has 1 × l4, but the group's device.variant is h100")):
        machine_type("g2-standard-8", variant="h100")


def test_every_gpu_that_google_names_has_a_machine() -> None:
    assert {gpus.variant for gpus in GPU_MACHINES.values()} == {"l4", "a100-40gb", "a100-80gb", "h100", "h200", "b200"}


def test_every_setting_is_in_the_docs_and_nothing_else_is() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "gcp.md").read_text()
    section = docs.partition("\n## Settings\n")[2].partition("\n## ")[0]
    documented = {key for row in re.findall(r"^\| (`.+?) \|", section, re.M) for key in re.findall(r"`(\w+)`", row)}
    fields = {**TpuSettings.model_fields, **ComputeSettings.model_fields}
    assert documented == {field.alias or name for name, field in fields.items()}
