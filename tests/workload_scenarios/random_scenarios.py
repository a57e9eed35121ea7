"""Random scenarios on the real control plane and in an embedded cluster, and where they differ.

``python -m tests.workload_scenarios.random_scenarios FIRST_SEED COUNT [--record]``; the fast tiers
compare what is recorded.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.controlplane.harness import ControlPlane
from tests.workload_scenarios.play import Seen, play_for_real, play_hollow, recorded
from tests.workload_scenarios.scenario import (
    Action,
    Scenario,
    Step,
    a_workload,
    an_image,
    create,
    delete,
    edit,
    end,
    evict,
    remove,
    run,
    settle,
    wait,
)

RECORDED = Path(__file__).with_name("recorded_random.json")
#: Seeds after which the two may differ, and why.
OTHERWISE = {
    2: "finalizers keep a Job's pod that never started until PodGC fails it, some 20 seconds later",
    26: "as of 2",
    55: "which of two syncs of the Deployment told of its progress first",
    57: "which pods of the old revision had started when they were deleted",
    1000: "as of 2",
    1001: "as of 2",
    1008: "as of 2",
    1031: "how much of a back-off of ten seconds was over",
}
KINDS = ("Deployment", "Deployment", "StatefulSet", "DaemonSet", "Job", "Job", "Job")
STEPS = 6


def a_scenario(seed: int) -> Scenario:
    """A workload, and some steps of its life."""
    rng = random.Random(seed)
    kind = rng.choice(KINDS)
    spec = _job_spec(rng) if kind == "Job" else _spec(rng, kind)
    steps: list[Step] = [("made", [create(a_workload(kind, **spec))])]
    for number in range(STEPS):
        name, actions = _step(rng, kind, spec)
        steps.append((f"{number}: {name}", actions))
    return Scenario(steps)


def _spec(rng: random.Random, kind: str) -> dict[str, Any]:
    limits = {
        "maxSurge": rng.choice([1, "25%", "50%"]),
        "maxUnavailable": rng.choice([0, 1, "34%"]),
    }
    spec: dict[str, Any] = {}
    if kind != "DaemonSet":
        spec["replicas"] = rng.randint(0, 5)
    if kind == "Deployment":
        roll = {"type": "RollingUpdate", "rollingUpdate": limits}
        spec["strategy"] = rng.choice([roll, roll, {"type": "Recreate"}])
    if kind == "StatefulSet":
        policy = rng.choice(["Parallel", "Parallel", "OrderedReady"])
        spec |= {"serviceName": "s", "podManagementPolicy": policy}
        roll = {"type": "RollingUpdate", "rollingUpdate": {"partition": rng.randint(0, 2)}}
        spec["updateStrategy"] = rng.choice([roll, {"type": "OnDelete"}])
    return spec


def _job_spec(rng: random.Random) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "completions": rng.randint(1, 4),
        "parallelism": rng.randint(1, 4),
        "backoffLimit": rng.randint(0, 3),
        "suspend": rng.random() < 0.15,
    }
    if rng.random() < 0.5:
        spec["completionMode"] = "Indexed"
        if rng.random() < 0.5:
            spec["backoffLimitPerIndex"] = rng.randint(0, 1)
            spec["maxFailedIndexes"] = rng.randint(0, spec["completions"])
        if rng.random() < 0.3:
            spec["successPolicy"] = {"rules": [{"succeededCount": 1}]}
    if rng.random() < 0.4:
        action = rng.choice(["FailJob", "Ignore", "Count"])
        codes = {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}
        evicted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
        spec["podFailurePolicy"] = {"rules": [codes, evicted]}
    elif rng.random() < 0.3:
        spec["podReplacementPolicy"] = rng.choice(["Failed", "TerminatingOrFailed"])
    return spec


def _step(rng: random.Random, kind: str, spec: dict[str, Any]) -> tuple[str, list[Action]]:
    image = rng.choice(["i1", "i2"])
    choices: list[tuple[str, list[Action]]] = [
        ("all run", [run()]),
        ("all run", [run()]),
        ("kubelets remove", [remove()]),
        ("all are evicted", [evict()]),
        ("time passes", [wait(14)]),
    ]
    if kind == "Job":
        code = rng.choice([0, 0, 1, 42])
        which: dict[str, Any] = {"index": rng.randint(0, 2)} if "completionMode" in spec else {}
        choices += [
            (f"all end with {code}", [run(), settle(), end(code)]),
            (f"{which} ends with {code}", [run(), settle(), end(code, count=1, **which)]),
            (f"{which} ends with {code}", [run(), settle(), end(code, count=1, **which)]),
            ("suspended", [edit(kind, suspend=True)]),
            ("resumed", [edit(kind, suspend=False)]),
            (f"parallelism {(p := rng.randint(0, 4))}", [edit(kind, parallelism=p)]),
            ("deleted", [delete()]),
        ]
        return rng.choice(choices)
    choices += [
        (f"changed to {image}", [edit(kind, **an_image(image))]),
        (f"changed to {image}", [edit(kind, **an_image(image))]),
        ("removed and run", [remove(), settle(), run(), settle(), remove(), settle(), run()]),
        (f"{image} is deleted", [delete(image=image)]),
    ]
    if kind != "DaemonSet":
        replicas = rng.randint(0, 6)
        choices.append((f"{replicas} are wanted", [edit(kind, replicas=replicas)]))
    if kind == "Deployment":
        paused = rng.random() < 0.5
        choices.append((f"paused {paused}", [edit(kind, paused=paused)]))
    return rng.choice(choices)


async def _play_for_real(scenarios: Mapping[str, Scenario]) -> dict[str, Seen]:
    async with ControlPlane(controllers=True) as plane:
        return await play_for_real(plane, scenarios, at_once=16)


def compare(scenarios: Mapping[str, Scenario], real: Mapping[str, Seen]) -> int:
    """How many scenarios end otherwise in an embedded cluster; the first difference of each."""
    different = 0
    for seed, steps in real.items():
        hollow = play_hollow(scenarios[seed])
        step = next((step for step, lines in steps.items() if lines != hollow[step]), None)
        if step is not None:
            different += 1
            names = [name for name, _ in scenarios[seed].steps]
            _say(f"## seed {seed}: {names}", f"-- {step}")
            _say(*(f"   real   {line}" for line in steps[step] if line not in hollow[step]))
            _say(*(f"   hollow {line}" for line in hollow[step] if line not in steps[step]))
    _say(f"{different} of {len(scenarios)} differ")
    return different


def main(first: int, count: int, *, record: bool) -> int:
    scenarios = {str(seed): a_scenario(seed) for seed in range(first, first + count)}
    real = asyncio.run(_play_for_real(scenarios))
    if record:
        RECORDED.write_text(json.dumps(recorded(RECORDED) | real, indent=1) + "\n")
    return min(1, compare(scenarios, real))


def _say(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    first, count, *options = sys.argv[1:]
    sys.exit(main(int(first), int(count), record="--record" in options))
