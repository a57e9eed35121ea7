"""What the core does for a pod, in instructions: ``python -m tests.benchmarks.bench_instructions``.

    python -m tests.benchmarks.bench_instructions [--nodes N] [CHECKOUT …]

Times differ by a third on a machine that others use, and these hardly: valgrind counts the
instructions of a process that takes nodes and pods in, decides, and hears that they are bound, once
with 200 pods and once with 700. What is between the two is what 500 pods cost, but for the garbage
collector, which does not run: when it comes is chance. Prints thousands of instructions a pod of
each shape. With checkouts, each is measured with its own code, and compared with the first. Needs
``valgrind``, and is fifty times as slow as what it counts.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import click

from tests.paths import REPO

#: Runs in a process of its own with the code of a checkout, which may be older than this file.
WORK: Final = """
import gc, sys
from msgspec import structs
from arranger.api.effects import Applied, Bind
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod

gc.disable()  # when it comes is chance, and one pass costs as much as some pods
shape, nodes, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    from arranger.engine.assembly.settings import EngineSettings
except ImportError:
    engine = Engine([default_profile()])
else:
    engine = Engine(EngineSettings([default_profile()]))
ZONE, HOST, APP = "topology.kubernetes.io/zone", "kubernetes.io/hostname", {"app": "bench"}

def pod(n):
    made = a_pod(f"p{n}").needs(cpu="100m", memory="500Mi").labelled(**APP)
    match shape.split():
        case ["gangs", "of", size]:
            return made.in_gang(f"g{n // int(size)}", int(size))
        case ["zone", "spread"]:
            return made.spreads(ZONE, over=APP)
        case ["hostname", "anti-affinity"]:
            return made.apart(HOST, APP)
        case ["zone", "affinity"]:
            return made.near(ZONE, APP)
        case ["preferred", "zone", "affinity"]:
            return made.near(ZONE, APP, weight=10)
    return made

waiting = [pod(n).build() for n in range(count)]
for n in range(nodes):
    engine.handlers.on_node_updated(a_node(f"n{n}").in_zone(f"z{n % 10}").build(), 0.0)
engine.run(0.0)
for each in waiting:
    engine.handlers.on_pod_updated(each, 0.0)
bindings = []
while len(bindings) < count:
    bindings += [e for e in engine.run(0.0, limit=64) if isinstance(e, Bind)]
pods = {each.metadata.uid: each for each in waiting}
for binding in bindings:
    engine.on_outcome(binding, Applied(), 0.0)
    bound = pods[binding.pod.uid]
    spec = structs.replace(bound.spec, node_name=binding.node)
    engine.handlers.on_pod_updated(structs.replace(bound, spec=spec), 0.0)
"""
SHAPES: Final = (
    "lone pods",
    "gangs of 10",
    "gangs of 100",
    "zone spread",
    "hostname anti-affinity",
    "zone affinity",
    "preferred zone affinity",
)
#: Pods that are placed by the two processes.
FEW: Final = 200
MANY: Final = 700
_COUNTED: Final = re.compile(r"I +refs: +([\d,]+)")


def instructions(checkout: Path, shape: str, nodes: int, pods: int) -> int:
    """How many one process takes.

    Raises:
        RuntimeError: it has failed.
    """
    counted = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    work = (sys.executable, "-c", WORK, shape, str(nodes), str(pods))
    # Equal hashes: what is in a set is gone through in the same order each time.
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [*counted, *work], cwd=checkout, env=env, capture_output=True, text=True, check=False
    )
    found = _COUNTED.search(done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(done.stderr[-2000:])
    return int(found[1].replace(",", ""))


def main() -> None:
    """Measure every shape with every checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="*", default=[REPO])
    parser.add_argument("--nodes", type=int, default=1000)
    args = parser.parse_args()
    click.echo("thousands of instructions a pod")
    for shape in SHAPES:
        spent = []
        for checkout in args.checkouts:
            few, many = (instructions(checkout, shape, args.nodes, n) for n in (FEW, MANY))
            spent.append((many - few) / (MANY - FEW) / 1000)
        columns = "".join(f"{each:9.0f}  {each / spent[0]:5.3f}" for each in spent)
        click.echo(f"{shape:24} {columns}")


if __name__ == "__main__":
    main()
