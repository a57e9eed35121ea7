"""Pods that look at other pods: ``python -m tests.benchmarks.bench_affinity``, ours and theirs.

Each row is a class of pods, all alike, on nodes over ten zones. Every contender gets a control
plane of its own. Compare the ratios within one run only.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from typing import Any, Final

from tests.benchmarks.comparison import CONTENDERS, HEADING, PODS, compare, measure
from tests.controlplane.harness import a_node, a_pod

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
ZONES: Final = 10
LABELS: Final = {"app": "bench"}
SELECTOR: Final = {"matchLabels": LABELS}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def term(key: str) -> dict[str, Any]:
    """Pods like these, in the same domain."""
    return {"topologyKey": key, "labelSelector": SELECTOR}


#: Row → what its pods' spec says.
ROWS: Final[dict[str, dict[str, Any]]] = {
    "zone spread, DoNotSchedule, maxSkew 5": {
        "topologySpreadConstraints": [
            {"maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule", **term(ZONE)}
        ]
    },
    "required hostname anti-affinity": {
        "affinity": {"podAntiAffinity": {REQUIRED: [term(HOST)]}},
    },
    "required zone affinity": {
        "affinity": {"podAffinity": {REQUIRED: [term(ZONE)]}},
    },
    "preferred zone affinity": {
        "affinity": {"podAffinity": {PREFERRED: [{"weight": 10, "podAffinityTerm": term(ZONE)}]}},
    },
}


def nodes(count: int) -> Iterator[dict[str, Any]]:
    """Nodes over the zones."""
    for n in range(count):
        node = a_node(f"n{n}")
        node["metadata"]["labels"][ZONE] = f"z{n % ZONES}"
        yield node


def pods(count: int, scheduler: str, spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Pending pods of one class."""
    for n in range(count):
        pod = a_pod(f"p{n}", scheduler=scheduler)
        pod["metadata"]["labels"] = LABELS
        pod["spec"] |= spec
        yield pod


async def main() -> None:
    """Run both contenders for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--rows", nargs="*", default=[], help="what the rows' names contain")
    parser.add_argument("--only", choices=list(CONTENDERS))
    args = parser.parse_args()
    print(f"{args.nodes} nodes, {args.pods} pods\n{HEADING}")
    for row, spec in ROWS.items():
        if args.rows and not any(word in row for word in args.rows):
            continue
        print(row)
        results = {}
        for name, (start, scheduler) in CONTENDERS.items():
            if args.only not in (None, name):
                continue
            results[name] = await measure(
                name,
                start,
                nodes=nodes(args.nodes),
                pods={PODS: pods(args.pods, scheduler, spec)},
                seen="p",
                count=args.pods,
            )
            print(results[name].row(), flush=True)
        print(compare(results), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
