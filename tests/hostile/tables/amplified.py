"""Small objects of which much is made, or that ask for much: a line that comes into each pod, a
number that is gone through for each member, room that is asked for and never used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.hostile.attack import Attack, Object
from tests.hostile.tables.audit import annotated, job, pod, pod_group, tyjob
from tests.tyjobs import a_template

#: What no node has.
_NOWHERE = {"example.com/absent": "yes"}


def members() -> Iterator[Attack]:
    """PodGroups that say thousands of things, each of which counts for each pod.

    Of ten times as many the server of these tests would be what stands still.
    """
    tasks = {f"task-{n}": 1 for n in range(10_000)}
    yield Attack(
        "a PodGroup has 10,000 tasks, and its pods all say something else",
        [
            pod_group("many-tasks", minMember=50, minTaskMember=tasks),
            *(_member("many-tasks", n, GANG_WAIT=f"{n + 1}s") for n in range(50)),
        ],
    )
    names = {f"example.com/r{n}": "1" for n in range(10_000)}
    yield Attack(
        "a PodGroup asks for 10,000 resources",
        [
            pod_group("many-amounts", minResources=names),
            *(_member("many-amounts", n) for n in range(5)),
        ],
    )
    yield Attack(
        "20 bound pods request 5,000 resources each, and no two the same",
        [
            pod(
                f"own-amounts-{p}",
                requests={f"example.com/p{p}-{n}": "1" for n in range(5_000)},
                nodeName="node-2",
            )
            for p in range(20)
        ],
    )


def promises() -> Iterator[Attack]:
    """PodGroups that want all there is, with a small pod each."""
    amounts = [384, 383, 380, 370, 350, 320, *(300 >> n for n in range(9))]
    yield Attack(
        "small pods whose PodGroups want the whole cluster",
        [
            obj
            for amount in amounts
            for obj in (
                pod_group(f"wants-{amount}", minResources={"cpu": str(amount)}),
                _member(f"wants-{amount}", 0),
            )
        ],
    )


def jobs() -> Iterator[Attack]:
    """Jobs a line of which comes into every pod, or into every container."""
    host = _template(subdomain="s" * 200_000)
    yield Attack(
        "a host name of 200,000 letters in a job of 10,000 pods",
        [job("hosts", task={"replicas": 10_000}, template=host, plugins={"svc": []})],
    )
    many = _template(containers=[{"name": f"c{n}", "image": "i"} for n in range(64)])
    tasks = [{"name": f"t{n}", "replicas": 1, "template": many} for n in range(256)]
    yield Attack(
        "256 tasks of 64 containers that know the names of all pods",
        [job("variables", tasks=tasks, plugins={"svc": []})],
    )
    volumes = [{"mountPath": f"/{n}/{'p' * 15_000}"} for n in range(64)]
    yield Attack(
        "64 volumes at long paths in 64 containers",
        [job("mounts", task={"replicas": 300}, template=many, volumes=volumes)],
    )
    amounts = {f"example.com/r{n}": "1" for n in range(8_000)}
    resources = _template(containers=[{"name": "c", "resources": {"requests": amounts}}])
    yield Attack(
        "8,000 resources in the template of each of five tasks",
        [job("amounts", tasks=[{"name": f"t{n}", "template": resources} for n in range(5)])],
    )
    large = [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"a": "x" * 1_000_000}}}]
    sets = [{"name": f"s{n}", "counts": 1, "template": a_template()} for n in range(256)]
    yield Attack(
        "a TYJob of 256 sets with volumes of a megabyte",
        [tyjob("volumes", workerSets=sets, volumes=large)],
    )
    nowhere = _template(nodeSelector=_NOWHERE)
    at_once = {"event": "PodPending", "action": "RestartJob", "timeout": "1ns"}
    yield Attack(
        "a job that restarts whenever a pod waits, without an end",
        [
            job(
                "storm",
                task={"replicas": 500},
                template=nowhere,
                policies=[at_once],
                maxRetry=2**31 - 1,
            )
        ],
    )
    kept = {**_template(nodeSelector=_NOWHERE), "metadata": {"finalizers": ["example.com/never"]}}
    yield Attack(
        "jobs whose pods have finalizers",
        [
            job("kept", task={"replicas": 20}, template=kept, policies=[at_once]),
            tyjob("kept", worker=kept),
        ],
    )


def _template(**spec: Any) -> Object:
    made = a_template()
    return {**made, "spec": {**made["spec"], **spec}}


def _member(group: str, number: int, **notes: str) -> Object:
    """A pod of a PodGroup of Volcano."""
    return annotated(pod(f"{group}-{number}"), VOLCANO_GROUP=group, **notes)
