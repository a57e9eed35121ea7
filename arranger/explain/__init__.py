"""Evaluates the pending pods of a snapshot without changing anything.

::

    for snapshot in read_snapshots([Path("cluster.yaml")]):
        verdicts = evaluate(snapshot)
        console.print(render(snapshot, verdicts))
"""

from arranger.explain.evaluate import Verdict, evaluate
from arranger.explain.reader import read_snapshots
from arranger.explain.report import render
from arranger.explain.snapshot import Snapshot, SnapshotError

__all__ = ["Snapshot", "SnapshotError", "Verdict", "evaluate", "read_snapshots", "render"]
