"""The compose file and the image keep their promises, as far as a test can check without a container engine."""

import json
import re
import tomllib
from collections.abc import Iterable
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
_PINNED = re.compile(r"^[\w./-]+:\d+\.\d+[\w.-]*$")


def test_the_compose_file_keeps_to_the_specification() -> None:
    schema = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"

    jsonschema.validate(COMPOSE, json.loads(schema.read_text()))


def test_every_image_that_is_not_built_here_is_pinned() -> None:
    images = [service["image"] for service in SERVICES.values() if "build" not in service]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE)

    assert [image for image in images if not _PINNED.match(image)] == []


def test_a_service_waits_only_for_services_that_exist_and_for_states_they_can_reach() -> None:
    for service in SERVICES.values():
        for other, terms in service.get("depends_on", {}).items():
            if terms["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other]
            else:
                assert terms["condition"] == "service_completed_successfully"
                assert SERVICES[other]["restart"].startswith("on-failure")


def test_any_number_of_workers_can_run_beside_each_other() -> None:
    worker = SERVICES["worker"]

    assert not {"container_name", "ports", "volumes"} & worker.keys()


def test_a_worker_that_ends_by_itself_is_started_again() -> None:
    """As one that is stuck in a workflow does. A service that runs for good is started again too."""
    lasting = {name for name, service in SERVICES.items() if service.get("restart") == "unless-stopped"}

    assert lasting == {"postgresql", "temporal", "ui", "worker"}


def test_ports_are_open_to_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_named_volumes_are_declared() -> None:
    named = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}

    assert named == set(COMPOSE["volumes"])


def test_the_image_is_built_in_stages_and_runs_as_an_unprivileged_user() -> None:
    last = DOCKERFILE[DOCKERFILE.rindex("FROM ") :]

    assert DOCKERFILE.count("FROM ") > 1
    assert re.search(r"^USER \d+$", last, flags=re.MULTILINE)
    assert "pip install" not in last
    assert "--require-hashes" in DOCKERFILE


def test_everything_the_image_copies_exists_and_is_sent_to_the_builder() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {path for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE) for path in line.split()}

    assert copied == sent
    assert all((ROOT / path).exists() for path in copied)


def test_the_image_has_all_that_a_worker_needs_and_no_build_tools() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    needed = _installed_with([*project["project"]["dependencies"], *groups["http"], *groups["google"], *groups["traces"]])
    removed = {
        name for line in re.findall(r"pip uninstall ((?:.|\\\n)+?)&&", DOCKERFILE) for name in re.findall(r" ([a-z][\w-]+)", line)
    }

    assert "requirements-worker.lock" in DOCKERFILE
    assert removed == _installed_with(groups["build"]) - needed


def _installed_with(requirements: Iterable[str]) -> set[str]:
    """The packages that these requirements install, directly or indirectly."""
    todo = [Requirement(text) for text in requirements]
    done: set[tuple[str, str]] = set()
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        for extra in {"", *wanted.extras} - {extra for found, extra in done if found == name}:
            done.add((name, extra))
            inner = [Requirement(text) for text in metadata.requires(name) or []]
            todo += [each for each in inner if each.marker is None or each.marker.evaluate({"extra": extra})]
    return {name for name, _ in done}
