"""Sizes of Google's TPU variants."""

import pytest

from penstock.model.cluster import ScaleGroup
from penstock.model.tpu import tpu_variant


@pytest.mark.parametrize(
    ("name", "hosts", "chips"),
    [
        ("v4-8", 1, 4),
        ("v4-64", 8, 4),
        ("v4-2048", 256, 4),
        ("v4-4096", 512, 4),
        ("v5litepod-1", 1, 1),
        ("v5litepod-8", 1, 8),
        ("v5litepod-16", 4, 4),
        ("v5litepod-256", 64, 4),
        ("v5p-8", 1, 4),
        ("v5p-16", 2, 4),
        ("v5p-32", 4, 4),
        ("v5p-64", 8, 4),
        ("v5p-128", 16, 4),
        ("v5p-384", 48, 4),
        ("v5p-12288", 1536, 4),
        ("v6e-4", 1, 4),
        ("v6e-8", 1, 8),
        ("v6e-32", 8, 4),
    ],
)
def test_a_known_variant_has_hosts_and_chips(name: str, hosts: int, chips: int) -> None:
    variant = tpu_variant(name)
    assert variant == (hosts, chips)
    assert variant is not None
    assert variant.chips == hosts * chips


@pytest.mark.parametrize(
    "name",
    [
        "v4-7",
        "v4-24",
        "v4-40",
        "v4-8192",
        "v5p-4",
        "v5p-48",
        "v5p-200",
        "v5p-192",
        "v5p-12416",
        "v5litepod-3",
        "v6e-512",
        "v7x-8",
        "",
        "a100",
    ],
)
def test_a_variant_that_google_does_not_offer_is_unknown(name: str) -> None:
    assert tpu_variant(name) is None


def test_a_group_of_a_known_variant_derives_its_size() -> None:
    group = ScaleGroup.model_validate(
        {"name": "g", "device": {"type": "tpu", "variant": "v5p-32"}, "host": {"cpu": 200, "memory": "400GiB"}, "max_slices": 1}
    )
    assert (group.hosts_per_slice, group.host.tpu_chips, group.chips_per_slice) == (4, 4, 16)
