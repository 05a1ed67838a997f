"""What an embedded service says once it runs."""

from pathlib import Path

from worker.guidance import guidance
from worker.home import Home


def told(changed: Path | None) -> list[str]:
    return guidance(Home(Path(".penstock")), address="a:1", ui="http://a:2", demand=None, changed=changed).splitlines()


def test_a_file_that_the_cluster_does_not_run_with_is_told_after_what_to_type_next() -> None:
    lines = told(Path("my.yaml"))
    begin = lines.index(
        "my.yaml differs from what the cluster runs with, which stays as it was. What differs, and how to apply it:"
    )
    assert lines[begin - 2].endswith("penstock verify")
    assert [line.partition("penstock ")[2] for line in lines[begin + 1 : begin + 3]] == [
        "config diff my.yaml",
        "config apply my.yaml",
    ]
    assert lines[:begin] + lines[begin + 4 :] == told(None)
