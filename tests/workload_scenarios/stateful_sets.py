"""StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import Any

from tests.workload_scenarios.scenario import (
    Scenario,
    a_workload,
    an_image,
    create,
    delete,
    delete_workload,
    edit,
    end,
    evict,
    remove,
    run,
    started,
    wait,
)

S, DS = "StatefulSet", "DaemonSet"
PARALLEL = "Parallel"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def a_set(**spec: Any) -> Any:
    return create(a_workload(S, serviceName="peers", **spec))


def partition(number: int) -> Any:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}


STATEFUL_SETS = {
    "a StatefulSet starts one after the other and goes backwards": Scenario(
        [
            ("made", [a_set(replicas=3)]),
            ("the first runs", [run()]),
            ("the second runs unready", [run(ready=False)]),
            ("shrunk", [edit(S, replicas=0)]),
            ("one is gone", [remove()]),
            ("the next", [remove()]),
        ]
    ),
    "a StatefulSet that is parallel does all at once": Scenario(
        [
            ("made", [a_set(replicas=3, podManagementPolicy=PARALLEL)]),
            ("they run", [run()]),
            ("shrunk", [edit(S, replicas=1)]),
            ("gone", [remove()]),
            ("grown", [edit(S, replicas=2)]),
        ]
    ),
    "a StatefulSet is rolled from the last to the first": Scenario(
        [
            started(a_set(replicas=2, podManagementPolicy=PARALLEL)),
            ("changed", [edit(S, **an_image("i2"))]),
            ("the last is gone", [remove()]),
            ("it is new and runs", [run()]),
            ("the first is gone", [remove()]),
            ("all is new", [run()]),
        ]
    ),
    "a StatefulSet with a partition changes only what is above": Scenario(
        [
            started(a_set(replicas=3, podManagementPolicy=PARALLEL, updateStrategy=partition(2))),
            ("changed", [edit(S, **an_image("i2")), wait(1), remove(), wait(1), run()]),
            ("an old one comes back old", [delete(name="w-0"), remove(), wait(1), run()]),
            ("the partition goes down", [edit(S, updateStrategy=partition(0))]),
            ("one by one", [remove(), wait(1), run(), wait(1), remove(), wait(1), run()]),
        ]
    ),
    "a StatefulSet that is changed on deletion": Scenario(
        [
            started(
                a_set(
                    replicas=2,
                    podManagementPolicy=PARALLEL,
                    updateStrategy={"type": "OnDelete"},
                )
            ),
            ("changed", [edit(S, **an_image("i2"))]),
            ("one is deleted", [delete(name="w-0"), remove(), wait(1), run()]),
        ]
    ),
    "pods of a StatefulSet come back under their names": Scenario(
        [
            started(a_set(replicas=2, podManagementPolicy=PARALLEL)),
            ("one is evicted", [evict(name="w-1")]),
            ("it is gone", [remove()]),
            ("one fails", [run(), wait(1), end(1, name="w-0"), wait(12)]),
        ]
    ),
    "a StatefulSet with claims": Scenario(
        [
            (
                "made",
                [a_set(replicas=2, volumeClaimTemplates=[CLAIM], podManagementPolicy=PARALLEL)],
            ),
            ("shrunk, claims stay", [run(), wait(1), edit(S, replicas=1), wait(1), remove()]),
            ("gone, claims stay", [delete_workload(S), wait(1), remove()]),
        ]
    ),
    "a StatefulSet that takes its claims with it": Scenario(
        [
            started(
                a_set(
                    replicas=2,
                    volumeClaimTemplates=[CLAIM],
                    podManagementPolicy=PARALLEL,
                    persistentVolumeClaimRetentionPolicy={
                        "whenScaled": "Delete",
                        "whenDeleted": "Delete",
                    },
                )
            ),
            ("shrunk", [edit(S, replicas=1), wait(1), remove()]),
            ("gone", [delete_workload(S), wait(1), remove()]),
        ]
    ),
    "ordinals start where they are told": Scenario(
        [("made", [a_set(replicas=2, podManagementPolicy=PARALLEL, ordinals={"start": 5})])]
    ),
}

DAEMON_SETS = {
    "a DaemonSet runs everywhere": Scenario(
        [
            ("made", [create(a_workload(DS))]),
            ("they run", [run()]),
            ("one is evicted", [evict(count=1)]),
            ("it is gone", [remove()]),
        ]
    ),
    "a DaemonSet is rolled node by node": Scenario(
        [
            started(create(a_workload(DS))),
            ("changed", [edit(DS, **an_image("i2"))]),
            ("the first is gone", [remove()]),
            ("the new one runs", [run()]),
            ("all are new", [remove(), wait(1), run()]),
        ]
    ),
    "a DaemonSet that is changed on deletion": Scenario(
        [
            started(create(a_workload(DS, updateStrategy={"type": "OnDelete"}))),
            ("changed", [edit(DS, **an_image("i2"))]),
            ("one is deleted", [delete(count=1), remove()]),
        ]
    ),
    "a DaemonSet with surge starts the new pod first": Scenario(
        [
            started(
                create(
                    a_workload(
                        DS,
                        updateStrategy={
                            "type": "RollingUpdate",
                            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
                        },
                    )
                )
            ),
            ("changed", [edit(DS, **an_image("i2"))]),
            ("the new one runs", [run()]),
            ("the old one is gone", [remove()]),
            ("all are new", [run(), wait(1), remove()]),
        ]
    ),
    "a DaemonSet may run on none": Scenario(
        [("made", [create(a_workload(DS, pod={"nodeSelector": {"no": "where"}}))])]
    ),
}
