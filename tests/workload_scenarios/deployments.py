"""Deployments, ReplicaSets and ReplicationControllers."""

from __future__ import annotations

from tests.workload_scenarios.scenario import (
    Object,
    Scenario,
    a_container,
    a_workload,
    an_image,
    annotate,
    create,
    delete,
    delete_workload,
    edit,
    end,
    evict,
    relabel,
    remove,
    run,
    settle,
    started,
    wait,
)

D, RS, RC = "Deployment", "ReplicaSet", "ReplicationController"


def rolling(surge: object, unavailable: object) -> Object:
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": limits}


def an_orphan(name: str, app: str = "w") -> Object:
    spec = {"containers": [a_container("i0")]}
    meta = {"name": name, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


DEPLOYMENTS = {
    "a Deployment starts, grows, shrinks and goes": Scenario(
        [
            ("made", [create(a_workload(D, replicas=2))]),
            ("one runs", [run(count=1)]),
            ("both run", [run()]),
            ("four are wanted", [edit(D, replicas=4)]),
            ("one is wanted", [edit(D, replicas=1)]),
            ("kubelets have removed the others", [remove()]),
            ("none is wanted", [edit(D, replicas=0), settle(), remove()]),
            ("it goes", [delete_workload(D)]),
        ]
    ),
    "a Deployment by default is rolled a quarter at a time": Scenario(
        [
            started(create(a_workload(D, replicas=4))),
            ("changed", [edit(D, **an_image("i2"))]),
            ("a new one runs", [run(count=1)]),
            ("the old one is gone", [remove()]),
            ("all new ones run", [run()]),
            ("removed", [remove()]),
            ("the next run", [run()]),
            ("all is new", [remove(), wait(1), run(), wait(1), remove()]),
        ]
    ),
    "a Deployment without surge makes room first": Scenario(
        [
            started(create(a_workload(D, replicas=3, strategy=rolling(0, 1)))),
            ("changed", [edit(D, **an_image("i2"))]),
            ("removed", [remove()]),
            ("the new one runs", [run()]),
            ("again", [remove(), wait(2), run()]),
            ("and again", [remove(), wait(2), run()]),
            ("done", [remove()]),
        ]
    ),
    "a Deployment that is recreated has no two revisions at once": Scenario(
        [
            started(create(a_workload(D, replicas=2, strategy={"type": "Recreate"}))),
            ("changed", [edit(D, **an_image("i2"))]),
            ("the old ones are gone", [remove()]),
            ("the new ones run", [run()]),
        ]
    ),
    "a Deployment is rolled back to a revision that it had": Scenario(
        [
            started(create(a_workload(D, replicas=1))),
            ("changed", [edit(D, **an_image("i2")), wait(2), run(), wait(2), remove()]),
            ("changed back", [edit(D, **an_image("i1")), wait(2), run(), wait(2), remove()]),
        ]
    ),
    "a Deployment keeps no more revisions than it says": Scenario(
        [
            started(create(a_workload(D, replicas=1, revisionHistoryLimit=1))),
            ("changed", [edit(D, **an_image("i2")), wait(2), run(), wait(2), remove()]),
            ("again", [edit(D, **an_image("i3")), wait(2), run(), wait(2), remove()]),
        ]
    ),
    "a Deployment that is paused changes its size and not its pods": Scenario(
        [
            started(create(a_workload(D, replicas=1))),
            ("paused and changed", [edit(D, paused=True, replicas=2, **an_image("i2"))]),
            ("resumed", [edit(D, paused=False)]),
        ]
    ),
    "a roll-out that is stuck keeps the old pods": Scenario(
        [
            started(create(a_workload(D, replicas=3, progressDeadlineSeconds=5))),
            ("changed", [edit(D, **an_image("i2"))]),
            ("the new one never starts", [wait(8)]),
            ("changed once more", [edit(D, **an_image("i3"))]),
        ]
    ),
    "a Deployment is scaled while it is rolled": Scenario(
        [
            started(create(a_workload(D, replicas=4, strategy=rolling(1, 1)))),
            ("changed", [edit(D, **an_image("i2"))]),
            ("grown", [edit(D, replicas=8)]),
            ("shrunk", [edit(D, replicas=2)]),
        ]
    ),
    "pods of a Deployment come back": Scenario(
        [
            started(create(a_workload(D, replicas=2))),
            ("one is evicted", [evict(count=1)]),
            ("it is gone", [remove()]),
            ("one is deleted", [run(), wait(1), delete(count=1), remove()]),
            ("one fails", [run(), wait(1), end(1, count=1), wait(12)]),
        ]
    ),
}

REPLICA_SETS = {
    "a ReplicaSet": Scenario(
        [
            ("made", [create(a_workload(RS, replicas=3))]),
            ("two run", [run(count=2)]),
            ("the one that does not run goes first", [edit(RS, replicas=2)]),
            ("none", [edit(RS, replicas=0)]),
        ]
    ),
    "a ReplicaSet adopts pods that nobody owns": Scenario(
        [
            ("orphans", [create(an_orphan("a")), create(an_orphan("b"))]),
            ("made", [create(a_workload(RS, replicas=3))]),
            ("another orphan is one too many", [create(an_orphan("c"))]),
        ]
    ),
    "a ReplicaSet lets go of a pod that no longer matches": Scenario(
        [
            started(create(a_workload(RS, replicas=1))),
            ("relabelled", [relabel({"app": "other"})]),
        ]
    ),
    "a ReplicaSet deletes the pod that costs least": Scenario(
        [
            started(create(a_workload(RS, replicas=2))),
            (
                "one costs little and is ready all the same",
                [
                    relabel({"cheap": "yes"}, count=1),
                    annotate({"controller.kubernetes.io/pod-deletion-cost": "-5"}, count=1),
                    wait(1),
                    edit(RS, replicas=1),
                ],
            ),
            ("gone", [remove()]),
        ]
    ),
    "pods of a ReplicaSet that have ended are made again and kept": Scenario(
        [
            started(create(a_workload(RS, replicas=1))),
            ("it fails", [end(1), wait(12)]),
            ("the next succeeds", [run(), wait(1), end(0), wait(22)]),
        ]
    ),
    "pods wait for some seconds before they are available": Scenario(
        [
            started(create(a_workload(RS, replicas=1, minReadySeconds=12))),
            ("later", [wait(12)]),
        ]
    ),
    "a ReplicaSet orphans its pods": Scenario(
        [
            started(create(a_workload(RS, replicas=2))),
            ("it goes and they stay", [delete_workload(RS, policy="Orphan"), wait(2)]),
            ("the next adopts them", [create(a_workload(RS, "v", replicas=1)), wait(2)]),
        ]
    ),
    "a ReplicationController": Scenario(
        [
            ("made", [create(a_workload(RC, replicas=2))]),
            ("they run", [run()]),
            ("one is evicted", [evict(count=1), wait(1), remove()]),
            ("shrunk", [edit(RC, replicas=1)]),
        ]
    ),
}
