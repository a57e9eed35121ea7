"""Small clusters, and what a shadow of them answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from arranger.daemon.config.schema import Config
from arranger.shadow import Shadow, Why
from arranger.shadow.answers.why import Answer
from tests.builders import Manifest, a_node, a_pod
from tests.builders.base import ManifestBuilder

NOW = datetime(2026, 1, 2, tzinfo=UTC)
Given = ManifestBuilder | Manifest


def manifests(given: Sequence[Given]) -> list[Manifest]:
    return [each.manifest() if isinstance(each, ManifestBuilder) else each for each in given]


def a_shadow(given: Sequence[Given]) -> Shadow:
    return Shadow.from_manifests(manifests(given), Config(), calendar=lambda: NOW)


def why(what: str, *given: Given) -> list[Answer]:
    """The answers of a cluster of these objects."""
    return a_shadow(given).ask_now(Why(what, thorough=True))


def node(name: str = "n1", cpu: int = 4) -> ManifestBuilder:
    return a_node(name).offers(cpu=cpu, memory="8Gi", pods=20)


def busy(name: str, cpu: int, on: str = "n1") -> ManifestBuilder:
    return a_pod(name).needs(cpu=cpu).on(on).in_phase("Running")
