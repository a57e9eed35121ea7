"""What is shipped about TYJobs: the examples can be run, and its page has every field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from arranger.api.types.tyjob import PLACEMENT_POLICIES, parse_tyjob, validate_tyjob
from arranger.controllers.tyjob import manifests
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.server import EmbeddedCluster
from tests.paths import REPO
from tests.unit.controllers.tyjob.observed import a_replica_pod

EXAMPLES = sorted((REPO / "examples/tyjobs").iterdir())
PAGE = (REPO / "docs/guide/tyjob.md").read_text()
WORDS = set(re.findall(r"[A-Za-z_]+", " ".join(re.findall(r"`([^`]+)`", PAGE))))

Object = dict[str, Any]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_accepted_and_so_are_its_pods(file: Path) -> None:
    cluster = EmbeddedCluster()
    for definition in bundled_crds():
        cluster.create(definition)
    job = parse_tyjob(cluster.create(yaml.safe_load(file.read_text())))
    assert not validate_tyjob(job)
    for place in job.replicas:
        cluster.create(a_replica_pod(job, place, leader="uid"))
    cluster.create(manifests.service(job, manifests.master_port(job, None)))
    cluster.create(manifests.leader_config_map(job, {"uid": "10.0.0.1"}))


def test_there_is_an_example_of_every_placement_policy() -> None:
    shown = {p for file in EXAMPLES for p in parse_tyjob(yaml.safe_load(file.read_text())).policies}
    assert shown == {"Gang", *PLACEMENT_POLICIES}


def _definition() -> Object:
    content = yaml.safe_load((REPO / "crds/tyjobs.arranger.io.yaml").read_text())
    (version,) = content["spec"]["versions"]
    properties: Object = version["schema"]["openAPIV3Schema"]["properties"]
    return properties


def _fields(schema: Object) -> Iterator[str]:
    """The names of all fields, but for those of Kubernetes' own objects and of list entries."""
    for name, field in schema.get("properties", {}).items():
        yield name
        if name not in ("template", "volumes", "conditions", "allocations"):
            yield from _fields(field)
            yield from _fields(field.get("items", {}))


@pytest.mark.parametrize("part", ["spec", "status"])
def test_the_page_has_every_field(part: str) -> None:
    assert set(_fields(_definition()[part])) <= WORDS


def test_the_page_has_every_stage_and_every_variable() -> None:
    status = _definition()["status"]["properties"]
    assert {*status["stage"]["enum"], *status["scheduleState"]["enum"]} <= WORDS
    body = yaml.safe_load((REPO / "examples/tyjobs/bin-pack.yaml").read_text())
    job = parse_tyjob(body)
    assert {
        variable["name"] for variable in manifests.environment(job, job.replicas[1], port=1)
    } <= WORDS
