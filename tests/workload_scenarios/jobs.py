"""Jobs of ``batch/v1``."""

from __future__ import annotations

from typing import Any

from tests.workload_scenarios.scenario import (
    Action,
    Scenario,
    a_workload,
    create,
    delete,
    edit,
    end,
    evict,
    remove,
    run,
    started,
    wait,
)

IGNORED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


def a_job(**spec: Any) -> Action:
    return create(a_workload("Job", **spec))


def codes(action: str, *values: int, operator: str = "In") -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values)}}


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"rules": list(rules)}


JOBS = {
    "a Job of one pod": Scenario([("made", [a_job()]), ("it runs", [run()]), ("it ends", [end()])]),
    "a Job runs two at a time until three have succeeded": Scenario(
        [
            ("made", [a_job(completions=3, parallelism=2)]),
            ("they run", [run()]),
            ("one ends", [end(count=1)]),
            ("all end", [run(), wait(1), end()]),
        ]
    ),
    "a work queue makes no new pods once one has succeeded": Scenario(
        [
            started(a_job(parallelism=3)),
            ("one ends", [end(count=1)]),
            ("the others", [end()]),
        ]
    ),
    "a Job whose pod fails is tried again after a back-off": Scenario(
        [
            started(a_job()),
            ("it fails", [end(1)]),
            ("ten seconds later", [wait(12)]),
            ("again", [run(), wait(1), end(1)]),
            ("still waiting", [wait(8)]),
            ("twenty seconds later", [wait(10)]),
            ("it succeeds", [run(), wait(1), end()]),
        ]
    ),
    "a Job gives up": Scenario(
        [
            started(a_job(backoffLimit=1, parallelism=2, completions=2)),
            ("one fails", [end(1, count=1)]),
            ("ten seconds later", [wait(12), run()]),
            ("another fails", [end(1, count=1)]),
            ("the others are removed", [remove()]),
        ]
    ),
    "a Job without a second try": Scenario(
        [started(a_job(backoffLimit=0)), ("it fails", [end(1)])]
    ),
    "an Indexed Job": Scenario(
        [
            ("made", [a_job(completions=4, parallelism=2, completionMode="Indexed")]),
            ("the second ends first", [run(), wait(1), end(index=1)]),
            ("then the first", [end(index=0)]),
            ("the third fails", [run(), wait(1), end(1, index=2)]),
            ("it comes back", [wait(12)]),
            ("the rest end", [run(), wait(1), end()]),
        ]
    ),
    "an elastic Indexed Job shrinks and grows": Scenario(
        [
            started(a_job(completions=3, parallelism=3, completionMode="Indexed")),
            ("shrunk", [edit("Job", completions=2, parallelism=2), wait(1), remove()]),
            ("grown", [edit("Job", completions=4, parallelism=4)]),
            ("all end", [run(), wait(1), end()]),
        ]
    ),
    "indexes fail one by one": Scenario(
        [
            started(
                a_job(
                    completions=3,
                    parallelism=3,
                    completionMode="Indexed",
                    backoffLimitPerIndex=1,
                )
            ),
            ("the first fails", [end(1, index=0)]),
            ("it is tried again", [wait(12)]),
            ("it fails for good", [run(), wait(1), end(1, index=0)]),
            ("the others succeed", [end()]),
        ]
    ),
    "too many indexes fail": Scenario(
        [
            started(
                a_job(
                    completions=3,
                    parallelism=3,
                    completionMode="Indexed",
                    backoffLimitPerIndex=0,
                    maxFailedIndexes=1,
                )
            ),
            ("the first fails", [end(1, index=0)]),
            ("the second fails", [end(1, index=1)]),
            ("removed", [remove()]),
        ]
    ),
    "a rule fails an index": Scenario(
        [
            started(
                a_job(
                    completions=2,
                    parallelism=2,
                    completionMode="Indexed",
                    backoffLimitPerIndex=3,
                    podFailurePolicy=policy(codes("FailIndex", 42)),
                )
            ),
            ("the first fails", [end(42, index=0)]),
            ("the other succeeds", [end()]),
        ]
    ),
    "a rule fails the Job": Scenario(
        [
            started(
                a_job(completions=2, parallelism=2, podFailurePolicy=policy(codes("FailJob", 42)))
            ),
            ("one fails so", [end(42, count=1)]),
            ("removed", [remove()]),
        ]
    ),
    "a rule ignores an exit code": Scenario(
        [
            started(a_job(backoffLimit=0, podFailurePolicy=policy(codes("Ignore", 42)))),
            ("it fails so", [end(42)]),
            ("later", [wait(12)]),
        ]
    ),
    "a rule counts what others would not": Scenario(
        [
            started(
                a_job(
                    backoffLimit=0,
                    podFailurePolicy=policy(
                        codes("Count", 42), codes("Ignore", 1, operator="NotIn")
                    ),
                )
            ),
            ("it fails so", [end(42)]),
        ]
    ),
    "an eviction counts as a failure": Scenario(
        [
            started(a_job()),
            ("evicted", [evict()]),
            ("gone", [remove(), wait(12)]),
            ("it ends", [run(), wait(1), end()]),
        ]
    ),
    "an eviction is ignored by a rule": Scenario(
        [
            started(a_job(backoffLimit=0, podFailurePolicy=policy(IGNORED))),
            ("evicted", [evict()]),
            ("gone", [remove(), wait(12)]),
            ("it ends", [run(), wait(1), end()]),
        ]
    ),
    "a pod is replaced only when it has ended": Scenario(
        [
            started(a_job(podReplacementPolicy="Failed")),
            ("deleted", [delete()]),
            ("gone", [remove(), wait(12)]),
        ]
    ),
    "a pod that never started is deleted": Scenario(
        [("made", [a_job()]), ("deleted", [delete(), wait(12)])]
    ),
    "a suspended Job has no pods": Scenario(
        [
            ("made", [a_job(suspend=True, parallelism=2, completions=2)]),
            ("resumed", [edit("Job", suspend=False)]),
            ("one ends", [run(), wait(1), end(count=1)]),
            ("suspended", [edit("Job", suspend=True)]),
            ("removed", [remove()]),
            ("resumed again", [edit("Job", suspend=False)]),
            ("it ends", [run(), wait(1), end()]),
        ]
    ),
    "a Job that takes too long": Scenario(
        [
            started(a_job(activeDeadlineSeconds=25)),
            ("over", [wait(22)]),
            ("removed", [remove()]),
        ]
    ),
    "one index makes a success": Scenario(
        [
            started(
                a_job(
                    completions=3,
                    parallelism=3,
                    completionMode="Indexed",
                    successPolicy={"rules": [{"succeededIndexes": "0"}]},
                )
            ),
            ("the second ends", [end(index=1)]),
            ("the leader ends", [end(index=0)]),
            ("removed", [remove()]),
        ]
    ),
    "so many of some indexes make a success": Scenario(
        [
            started(
                a_job(
                    completions=4,
                    parallelism=4,
                    completionMode="Indexed",
                    successPolicy={"rules": [{"succeededIndexes": "1-3", "succeededCount": 2}]},
                )
            ),
            ("the first does not count", [end(index=0)]),
            ("one of them", [end(index=3)]),
            ("two of them", [end(index=1)]),
            ("removed", [remove()]),
        ]
    ),
    "a Job is gone when its time is over": Scenario(
        [
            started(a_job(ttlSecondsAfterFinished=6)),
            ("it ends", [end()]),
            ("gone", [wait(8)]),
        ]
    ),
    "a Job that another controller looks after": Scenario(
        [("made", [a_job(managedBy="example.com/kueue")])]
    ),
    "parallelism is changed": Scenario(
        [
            started(a_job(completions=5, parallelism=1)),
            ("three", [edit("Job", parallelism=3)]),
            ("two, the one that runs stays", [edit("Job", parallelism=2)]),
            ("none", [edit("Job", parallelism=0), wait(1), remove()]),
        ]
    ),
    "no completions": Scenario([("made", [a_job(completions=0)])]),
}
