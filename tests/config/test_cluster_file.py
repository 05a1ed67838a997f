"""cluster.yaml: every problem of a file is reported at once, each with its line, value and fix."""

from pathlib import Path

import pytest

from penstock.config.cluster import load_cluster
from penstock.config.problems import BadInput
from penstock.model.cluster import Placement

GROUP = "  - {name: a, host: {cpu: 4, memory: 8GiB}, max_slices: 2"


def write(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


def problems(folder: Path, text: str) -> list[str]:
    path = write(folder, text)
    with pytest.raises(BadInput) as bad:
        load_cluster(path)
    return [str(problem).removeprefix(f"{path}:") for problem in bad.value.problems]


def test_the_example_is_valid() -> None:
    loaded = load_cluster(Path("examples/cluster.yaml"))
    assert loaded.warnings == ()
    west = loaded.config.group("v5e-16-west")
    assert west is not None
    assert (west.hosts_per_slice, west.host.tpu_chips, west.region) == (4, 4, "us-west4")


def test_all_problems_are_reported_at_once_with_their_lines(tmp_path: Path) -> None:
    text = """\
cluster: demo
placment: cost
pools: [{name: p, chips: 4, system: 8}]
groups:
  - name: a
    host: {cpu: 16, memory: 64Gib}
    max_slices: 4
  - name: a
    host: {cpu: 4}
    min_slices: 3
    max_slices: 2
  - name: b
    host: {cpu: 4}
    pool: q
"""
    assert problems(tmp_path, text) == [
        "2: placment: unknown key; did you mean placement?",
        "3: pools[0].system: 8 is more than the pool's 4 chips; lower it",
        "6: groups[0].host.memory: '64Gib' is not a size; write it like 192GiB or 100GB, or as a number of bytes",
        "8: groups[1]: min_slices 3 is above max_slices 2; lower one or raise the other",
        "8: groups[1].name: 'a' is already in use; choose another name",
        "12: groups[2].max_slices: is missing; add it",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("colour: red", "groups[0].colour: unknown key; known keys: attributes, cancel_after, degraded_after, device"),
        ("prioritie: 1", "did you mean priority?"),
        ("watermark: 101", "groups[0].watermark: should be 100 or less, not 101"),
        ("priority: -1", "-1 must be a finite number, 0 or more"),
        ("device: {type: tpu}", "device.type is tpu, but host.tpu is 0; set how many one host has"),
        ("device: {type: npu}", "groups[0].device.type: should be 'cpu', 'gpu' or 'tpu', not 'npu'"),
        ("quota_tier: 2", "quota_tier 2 needs a quota_pool; add one, or remove quota_tier"),
        ("tier: 2", "groups[0].tier: unknown key; did you mean quota_tier?"),
        ("attributes: {zone: x}", "zone is already an attribute"),
        ("limits: {growth: 0}", "groups[0].limits.growth: should be more than 0, not 0"),
        ("limits: {growth: .inf}", "groups[0].limits.growth"),
        ("price_per_hour: .inf", "groups[0].price_per_hour"),
        ("patience: 99999999999d", "longer than ten years"),
        ("provider: {kind: gpc-tpu}", "groups[0].provider.kind: there is no provider 'gpc-tpu'; did you mean gcp-tpu?"),
        ("provider: {kind: aws}", "groups[0].provider.kind: there is no provider 'aws'; known: gce, gcp-tpu, local, sim"),
        ("patience: soon", "'soon' is not a duration; write it like 90s, 10m or 1h30m"),
    ],
)
def test_a_problem_names_its_path_its_value_and_its_fix(tmp_path: Path, fields: str, message: str) -> None:
    found = problems(tmp_path, f"cluster: demo\ngroups:\n{GROUP}, {fields}}}\n")
    assert len(found) == 1
    assert message in found[0]


def test_a_problem_of_a_name_lists_the_characters_that_names_may_have(tmp_path: Path) -> None:
    text = "cluster: Demo Cluster!\ngroups:\n  - {name: A.b_, host: {cpu: 4}, max_slices: 2}\n"
    made_of, ends = "may have only lower-case letters, digits and", "with a letter or digit first and last"
    assert problems(tmp_path, text) == [
        f"1: cluster: 'Demo Cluster!' {made_of} - _, {ends}; write it like demo-cluster",
        f"3: groups[0].name: 'A.b_' {made_of} - _ ., {ends}; write it like a.b",
    ]
    assert "write it like" not in problems(tmp_path, 'cluster: "!"\ngroups: []\n')[0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "zone: us/west4-a",
            "groups[0].zone: 'us/west4-a' may have only lower-case letters, digits and - _ ., with a letter or digit",
        ),
        ("zone: 'us-west4-a?x=1'", "write it like us-west4-a-x-1"),
        (f"zone: {'z' * 64}", "groups[0].zone: should be at most 63 characters long"),
        ("zone: ''", "groups[0].zone: is empty; write a text"),
        ("provider: {kind: gce, project: my/project}", "project 'my/project' may have only letters, digits and - _ . :"),
        (f"provider: {{kind: gce, project: {'p' * 101}}}", "at most 100 characters; write the id of the account"),
        ("provider: {kind: gce, project: [a]}", "write the id of the account, such as my-project"),
        (f"provider: {{kind: {'k' * 64}}}", "groups[0].provider.kind: should be at most 63 characters long"),
        (f"device: {{type: gpu, variant: {'h' * 64}}}", "groups[0].device.variant: 'hhhh"),
        (f"device: {{type: gpu, variant: {'h' * 100_000}}}", "and at most 63 characters; write it like v5litepod-16 or h100"),
        (f"device: {{type: tpu, variant: v4-{'8' * 5_000}}}", "groups[0].device.variant: 'v4-8888"),
        (
            "device: {type: gpu, variant: nvidia/l4}",
            "groups[0].device.variant: 'nvidia/l4' may have only letters, digits and - _ . +, with a letter or digit first",
        ),
        ("device: {type: gpu, variant: H100 80GB}", "'H100 80GB' may have only"),
        ('device: {type: gpu, variant: "h100\\n"}', "'h100\\n' may have only"),
        ("device: {type: gpu, variant: v5litepod-..-16?}", "'v5litepod-..-16?' may have only"),
        ("device: {type: gpu, variant: ''}", "groups[0].device.variant: is empty; write it like v5litepod-16 or h100, or leave"),
    ],
)
def test_names_that_become_part_of_an_id_or_url_are_checked_with_the_fix(tmp_path: Path, fields: str, message: str) -> None:
    found = problems(tmp_path, f"cluster: demo\ngroups:\n{GROUP}, {fields}}}\n")
    assert any(message in problem for problem in found), found


@pytest.mark.parametrize(
    "variant",
    [
        "v5litepod-16",
        "v6e-256",
        "tpu7x-64",
        "nvidia-l4",
        "nvidia-tesla-v100",
        "nvidia-h100-mega-80gb",
        "H100",
        "A100-80GB",
        "NVIDIA-H100-80GB-HBM3",
        "ct5lp-hightpu-4t",
        "gb200.nvl72",
        "rtx_6000",
        "mi300x",
        "l40s+",
        "4090",
    ],
)
def test_the_names_that_clouds_and_tools_give_to_accelerators_are_variants(tmp_path: Path, variant: str) -> None:
    group = f"{{name: a, device: {{type: gpu, variant: '{variant}'}}, host: {{cpu: 4, gpu: 8}}, max_slices: 1}}"
    path = write(tmp_path, f"cluster: demo\ngroups:\n  - {group}\n")
    assert load_cluster(path).config.groups[0].device.variant == variant


def test_an_attribute_is_a_finite_number_or_a_word(tmp_path: Path) -> None:
    assert "nan is not a finite number" in str(
        problems(tmp_path, f"cluster: demo\ngroups:\n{GROUP}, attributes: {{x: .nan}}}}\n")
    )


def test_minimums_must_fit_the_cluster(tmp_path: Path) -> None:
    text = f"cluster: demo\nmax_slices: 1\ngroups:\n{GROUP}, min_slices: 2}}\n"
    assert problems(tmp_path, text) == ["2: max_slices: 1 is less than 2, the sum of all min_slices; raise it"]


def test_placement_cost_needs_prices_also_when_given_on_the_command_line(tmp_path: Path) -> None:
    path = write(tmp_path, f"cluster: demo\ngroups:\n{GROUP}}}\n")
    with pytest.raises(BadInput, match="placement cost needs the price of group a; add it"):
        load_cluster(path, placement=Placement.COST)


@pytest.mark.parametrize("kind", ["gcp-tpu", "sim"])
def test_a_size_that_contradicts_the_variant_table_is_an_error_for_google_and_a_warning_elsewhere(
    tmp_path: Path, kind: str
) -> None:
    group = f"{{name: a, device: {{type: tpu, variant: v5p-8}}, host: {{tpu: 8}}, max_slices: 1, provider: {{kind: {kind}}}}}"
    path = write(tmp_path, f"cluster: demo\ngroups:\n  - {group}\n")
    message = "groups[0].host.tpu: 8 contradicts v5p-8, whose hosts have 4 chips"
    if kind == "sim":
        assert [message in str(warning) for warning in load_cluster(path).warnings] == [True]
    else:
        with pytest.raises(BadInput) as bad:
            load_cluster(path)
        assert [message in str(problem) for problem in bad.value.problems] == [True]


GPUS = "device: {type: gpu, variant: h100}, host: {cpu: 26, gpu: 8}, max_slices: 1"


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (
            f"{GPUS}, provider: {{kind: gce, machine_type: a3-highgpu-1g}}",
            "8 contradicts a3-highgpu-1g, which has 1 h100; set it to 1",
        ),
        (
            "host: {cpu: 4}, max_slices: 1, provider: {kind: gce, machine_type: g2-standard-24}",
            "0 contradicts g2-standard-24, which has 2 l4; set it to 2",
        ),
        (
            f"{GPUS.replace('8', '4').replace('h100', 'b200')}, provider: {{kind: gce}}",
            "4 contradicts a4-highgpu-8g, which has 8 b200; set it to 8",
        ),
    ],
)
def test_gpus_that_the_machine_type_does_not_have_are_a_problem(tmp_path: Path, group: str, message: str) -> None:
    assert problems(tmp_path, f"cluster: demo\ngroups:\n  - {{name: a, {group}}}\n") == [f"3: groups[0].host.gpu: {message}"]


@pytest.mark.parametrize(
    "provider",
    [
        "{kind: gce, machine_type: a3-highgpu-8g}",
        "{kind: gce, machine_type: x9-new-4g}",
        "{kind: gce}",
        "{kind: sim, machine_type: a3-highgpu-1g}",
        "{kind: gce, machine_type: [a3-highgpu-1g]}",
    ],
)
def test_gpus_of_an_unknown_machine_type_are_not_checked(tmp_path: Path, provider: str) -> None:
    path = write(tmp_path, f"cluster: demo\ngroups:\n  - {{name: a, {GPUS}, provider: {provider}}}\n")
    assert load_cluster(path).warnings == ()


def test_the_wrong_kind_of_host_is_a_problem_for_a_known_variant_too(tmp_path: Path) -> None:
    text = "cluster: demo\ngroups:\n  - {name: a, device: {type: tpu, variant: v4-8}, host: big, max_slices: 1}\n"
    assert "groups[0].host" in problems(tmp_path, text)[0]


def test_numbers_may_be_quoted_and_are_compared_as_numbers(tmp_path: Path) -> None:
    text = f'cluster: demo\nmax_slices: "1"\ngroups:\n{GROUP}, min_slices: 2}}\n'
    assert problems(tmp_path, text) == ["2: max_slices: 1 is less than 2, the sum of all min_slices; raise it"]


def test_a_key_that_appears_twice_is_a_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, "cluster: a\ncluster: b\ngroups: []\n") == ["2: cluster: appears twice; remove one"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [", "is not YAML"),
        ("- a\n- b\n", "must be a mapping that begins"),
        ("", "cluster: is missing"),
    ],
)
def test_a_file_without_a_configuration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert message in problems(tmp_path, text)[0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.yaml: no such file"):
        load_cluster(tmp_path / "nowhere.yaml")


def test_two_groups_of_one_location_need_the_same_connection(tmp_path: Path) -> None:
    text = """\
cluster: demo
groups:
  - {name: a, host: {cpu: 4}, max_slices: 2, provider: {kind: local, url: "http://127.0.0.1:1"}}
  - {name: b, host: {cpu: 4}, max_slices: 2, provider: {kind: local, url: "http://127.0.0.1:2"}}
"""
    message = "differs from that of group a in the same location; make them equal, or use another zone"
    assert problems(tmp_path, text) == [f"4: groups[1].provider.url: {message}"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("drive: pressure", "drive: pressure needs slots_per_slice, the tasks that one slice runs at a time; add it"),
        ("slots_per_slice: 2", "slots_per_slice needs drive: pressure; set drive, or remove slots_per_slice"),
        ("drive: pressure, slots_per_slice: 2, warm_slices: 1", "warm_slices needs drive: entries, and drive is pressure"),
        ("drive: pressure, slots_per_slice: 2, watermark: 80", "watermark needs drive: entries, and drive is pressure"),
        ("drive: queue", "groups[0].drive: should be 'entries' or 'pressure'"),
        ("max_unavailable: 120%", "groups[0].max_unavailable: '120%' is not a percentage between 0% and 100%"),
        ("window: {hours: 9-17}", "groups[0].window.hours: '9-17' is not a part of a day; write it like 22:00-06:00"),
        ("max_age: soon", "groups[0].max_age: 'soon' is not a duration"),
    ],
)
def test_what_makes_slices_come_and_go_is_checked_with_the_fix(tmp_path: Path, fields: str, message: str) -> None:
    found = problems(tmp_path, f"cluster: demo\ngroups:\n{GROUP}, {fields}}}\n")
    assert any(message in problem for problem in found), found


@pytest.mark.parametrize("part", ["max_cost_per_hour: 5", "consolidation: {}"])
def test_a_limit_in_money_and_consolidation_need_every_price(tmp_path: Path, part: str) -> None:
    name = part.split(":")[0]
    assert problems(tmp_path, f"cluster: demo\n{part}\ngroups:\n{GROUP}}}\n") == [
        f"4: groups[0].price_per_hour: {name} needs the price of group a; add it"
    ]


def test_return_home_with_a_placement_that_has_no_order_of_preference_is_a_warning(tmp_path: Path) -> None:
    text = f"cluster: demo\nplacement: packing\nreturn_home: {{}}\ngroups:\n{GROUP}, price_per_hour: 1}}\n"
    (warning,) = load_cluster(write(tmp_path, text)).warnings
    message = "has no effect with placement packing: only priority has an order of preference; remove it"
    assert (warning.line, warning.path, warning.message) == (3, "return_home", message)


def test_a_group_without_a_price_that_slices_cannot_return_to_is_a_warning(tmp_path: Path) -> None:
    loaded = load_cluster(write(tmp_path, f"cluster: demo\nreturn_home: {{}}\ngroups:\n{GROUP}}}\n"))
    assert [problem.message for problem in loaded.warnings] == [
        "is unknown, so slices never return to this group or from it; add it",
    ]


@pytest.mark.parametrize(
    ("stale", "message"),
    [
        ("20m", None),
        ("8m", "8m does not exceed the longest timeouts.drain, 10m; raise it"),
        ("4m", "4m does not exceed the longest idle timeout, 5m; raise it"),
    ],
)
def test_the_word_of_a_source_outlasts_the_timeouts_that_end_on_it(tmp_path: Path, stale: str, message: str | None) -> None:
    text = f"cluster: demo\nusage_stale_after: {stale}\ngroups:\n{GROUP}, idle_timeout: 5m}}\n"
    if message is None:
        assert load_cluster(write(tmp_path, text)).config.stale_after_seconds == 1200
    else:
        assert f"2: usage_stale_after: {message}" in problems(tmp_path, text)
