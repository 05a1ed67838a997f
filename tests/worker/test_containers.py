"""The compose file and the image are what they say, as far as it can be told without a container engine."""

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
_PINNED = re.compile(r"^[\w./-]+:\d+\.\d+[\w.-]*$")


def test_the_compose_file_keeps_to_the_specification() -> None:
    pytest.importorskip("check_jsonschema", reason="the package that carries the Compose specification's schema is not installed")
    schema = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"

    jsonschema.validate(COMPOSE, json.loads(schema.read_text()))


def test_every_image_that_is_not_built_here_is_pinned() -> None:
    images = [service["image"] for service in SERVICES.values() if "build" not in service]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE)

    assert [image for image in images if not _PINNED.match(image)] == []


def test_a_service_waits_only_for_services_that_exist_and_for_what_they_can_be() -> None:
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


def test_ports_are_open_to_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_named_volumes_are_declared() -> None:
    named = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}

    assert named == set(COMPOSE["volumes"])


def test_the_image_is_built_in_stages_and_runs_as_nobody_in_particular() -> None:
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
