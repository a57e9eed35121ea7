"""Edits of what pods say about the gang that their owner makes of them."""

from __future__ import annotations

from typing import Final

from arranger.api import annotations as keys
from tests.builders import a_node
from tests.builders.workloads import kubeflow_pods, replicas
from tests.simulation.edits.edit import Edits, TakesEffect, note, placed
from tests.simulation.edits.fields import Field
from tests.simulation.edits.gangs import DONE
from tests.simulation.harnesses.workloads import WorkloadHarness

_OWNER: Final = replicas("PyTorchJob", Worker=3)
_NAMES: Final = [f"train-worker-{n}" for n in range(3)]


def _three_with_room_for_two(sim: WorkloadHarness) -> None:
    sim.define("PyTorchJob")
    sim.create(a_node("n1").offers(cpu=2))
    sim.submit(_OWNER)
    sim.make(kubeflow_pods(_OWNER, Worker=3))


#: Two of three pods need not wait for the third any more.
_WAITING: Final = TakesEffect(
    given=_three_with_room_for_two,
    edit=note(keys.GANG_BY_OWNER, "false", *_NAMES[:2]),
    look=placed(*_NAMES),
    without=set(),
    seen=set(_NAMES[:2]),
    settles=40.0,
    harness=WorkloadHarness,
)

ROWS: Final[dict[Field, Edits]] = {("pod", keys.GANG_BY_OWNER): Edits(_WAITING, DONE)}
