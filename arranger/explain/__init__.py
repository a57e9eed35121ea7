"""Judges the pending pods of a snapshot without changing anything.

::

    for snapshot in load([Path("cluster.yaml")]):
        verdicts = judge(snapshot)
        console.print(render(snapshot, verdicts))
"""

from arranger.explain.evaluate import Verdict, judge
from arranger.explain.reader import load
from arranger.explain.report import render
from arranger.explain.snapshot import Snapshot, SnapshotError

__all__ = ["Snapshot", "SnapshotError", "Verdict", "judge", "load", "render"]
