"""Manifests of gang preemption, run as ``arranger simulate -f FILE --seed 1`` runs them.

What each demands stands at its top, and is looked up in what is written to the API server.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from arranger.cli.simulation import simulate as simulation
from arranger.cli.simulation.manifests import read_manifests
from arranger.daemon.config.schema import Config
from arranger.embedded.storage.store import Change
from tests.simulation.harnesses.judged_command import judged_simulations

HERE = Path(__file__).parent
Manifests = list[tuple[str, dict[str, Any]]]

#: File → whom each set of victims that will do is made of, by regular expressions.
LEAVE = {
    "a-gang-of-one": ["v-0", "v-1", "v-2"],
    "a-group-that-needs-nobody": ["low-0", "low-1"],
    "no-minima-of-roles": ["(ps|worker)-."],
    "one-of-each-gang": ["a-.", "b-."],
    "roles-and-a-gang": ["worker-."],
    "roles-and-a-lone-pod": ["worker-."],
    "two-that-must-be-apart": ["plain", "v-0", "v-1", "v-2"],
}


class Writes:
    """Who was evicted and who was bound, by the writes to an API server."""

    def __init__(self) -> None:
        self.evicted: list[str] = []
        self.bound: list[str] = []

    def note(self, change: Change) -> None:
        """One write."""
        if change.resource != "/pods" or change.before is None:
            return
        name, spec = change.after["metadata"]["name"], change.after["spec"]
        if spec.get("nodeName") and not change.before["spec"].get("nodeName"):
            self.bound.append(name)
        if _is_leaving(change) and name not in self.evicted:
            self.evicted.append(name)


def _is_leaving(change: Change) -> bool:
    return "deletionTimestamp" in change.after["metadata"] or change.type == "DELETED"


def play(manifests: Manifests, monkeypatch: pytest.MonkeyPatch) -> Writes:
    """What is written while manifests are scheduled."""
    writes = Writes()
    with judged_simulations(monkeypatch, writes.note) as traces:
        simulation.simulate(manifests, Config(), seed=1)
    assert any(trace.specification.world.objects for trace in traces), "it was watched"
    return writes


def test_every_manifest_is_listed() -> None:
    assert {file.stem for file in HERE.glob("*.yaml")} == LEAVE.keys()


@pytest.mark.parametrize("name", LEAVE)
def test_who_leaves_and_that_it_was_not_in_vain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = read_manifests([HERE / f"{name}.yaml"])
    pods = [manifest for _, manifest in manifests if manifest["kind"] == "Pod"]
    takers = [pod["metadata"]["name"] for pod in pods if "nodeName" not in pod["spec"]]
    writes = play(manifests, monkeypatch)
    assert len(writes.evicted) == len(LEAVE[name]), writes.evicted
    for pattern, victim in zip(LEAVE[name], sorted(writes.evicted), strict=True):
        assert re.fullmatch(pattern, victim)
    assert sorted(writes.bound) == takers
