"""Attacks that an audit has found, one by one, and their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from arranger.api import annotations as known
from tests.controlplane.harness import a_node, a_pod
from tests.hostile.attack import CULPRIT, Attack, Object
from tests.hostile.expansion import deep_list, deep_object, digit_text, digits
from tests.tyjobs import a_template, a_tyjob


def pod(name: str, *, requests: Object | None = None, **spec: Any) -> Object:
    """A pod of the culprit."""
    made = a_pod(name, namespace=CULPRIT, cpu="10m", memory="10Mi")
    if requests is not None:
        made["spec"]["containers"][0]["resources"] = {"requests": requests}
    made["spec"].update(spec)
    return made


def annotated(obj: Object, **notes: Any) -> Object:
    """An object with these annotations; keys are names of constants of the module they are in."""
    values = {getattr(known, key): value for key, value in notes.items()}
    obj["metadata"].setdefault("annotations", {}).update(values)
    return obj


def job(
    name: str, *, task: Object | None = None, template: Object | None = None, **spec: Any
) -> Object:
    """A Volcano Job of the culprit."""
    one = {"name": "w", "replicas": 1, "template": template or a_template(), **(task or {})}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": CULPRIT},
        "spec": {"schedulerName": "arranger", "minAvailable": 1, "tasks": [one], **spec},
    }


def tyjob(name: str, **more: Any) -> Object:
    """A TYJob of the culprit."""
    made = a_tyjob(name, workers=1, **more)
    made["metadata"]["namespace"] = CULPRIT
    return made


def claim(name: str, *, requests: list[Object], config: list[Object] | None = None) -> Object:
    """A ResourceClaim of the culprit."""
    devices = {"requests": requests, **({"config": config} if config else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": CULPRIT},
        "spec": {"devices": devices},
    }


def pod_group(name: str, group: str = "scheduling.volcano.sh/v1beta1", **spec: Any) -> Object:
    """A PodGroup of the culprit."""
    return {
        "apiVersion": group,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": CULPRIT},
        "spec": {"minMember": 1, **spec},
    }


AMOUNTS = {
    "an exponent of a million": "1e1000000",
    "the same as the server stores it": "10e999999",
    "a small exponent of a million": "1e-1000000",
    "4,000 digits": "9" * 4_000,
    "a million digits": digit_text(1_000_000),
    "nine exabytes": "9E",
    "less than nothing": "-1",
    "an unknown suffix": "5XiB",
    "nothing": "",
}


def amounts() -> Iterator[Attack]:
    for number, (what, amount) in enumerate(AMOUNTS.items()):
        name = f"amount-{number}"
        asked = {"cpu": "1", "memory": amount, "example.com/thing": amount}
        yield Attack(f"a pod requests {what}", [pod(name, requests=asked)])
        yield Attack(
            f"a bound pod requests {what}, twice",
            [
                pod(f"{name}-bound-{n}", requests={"memory": amount}, nodeName="node-0")
                for n in range(2)
            ],
        )
        two = pod(f"{name}-two", requests={"memory": amount}, nodeName="node-0")
        two["spec"]["containers"].append({**two["spec"]["containers"][0], "name": "other"})
        yield Attack(f"both containers of a bound pod request {what}", [two])
        template = a_template()
        template["spec"]["containers"][0]["resources"]["requests"]["memory"] = amount
        yield Attack(
            f"a Volcano Job's pods request {what}", [job(f"{name}-job", template=template)]
        )
        yield Attack(f"a TYJob's workers request {what}", [tyjob(f"{name}-tyjob", worker=template)])
        yield Attack(
            f"a PodGroup's minimum resources are {what}",
            [pod_group(f"{name}-group", minResources={"memory": amount, "cpu": amount})],
        )
        yield Attack(
            f"a pod's limits, overhead and its own resources are {what}",
            [
                pod(
                    f"{name}-overhead",
                    overhead={"memory": amount},
                    resources={"requests": {"memory": amount}, "limits": {"cpu": amount}},
                )
            ],
        )
        resized = pod(f"{name}-resized", nodeName="node-1")
        resized["status"] = {
            "phase": "Running",
            "allocatedResources": {"memory": amount},
            "resources": {"requests": {"memory": amount}},
            "containerStatuses": [
                {
                    "name": "main",
                    "allocatedResources": {"memory": amount},
                    "resources": {"requests": {"memory": amount}},
                }
            ],
        }
        yield Attack(f"a resized pod's status says {what}", [resized])
        bad = a_node(f"odd-node-{number}", memory=amount)
        # The judge of the trace sees the mark of a long text, and could not tell what fits.
        bad["spec"] = {"unschedulable": amount.startswith("@@")}
        yield Attack(f"a node offers {what}", [bad])


#: Whatever an annotation is read as.
TEXTS = {
    "5,000 digits": "9" * 5_000,
    "4,298 digits": "9" * 4_298,
    "minus 5,000 digits": "-" + "9" * 5_000,
    "100,000 brackets": "[" * 100_000,
    "20,000 braces": '{"a":' * 20_000,
    "a card with 4,298 digits": '{"card": ' + "9" * 4_298 + "}",
    "a card with an exponent": '{"card": 1e400}',
    "a card that is a list": '{"card": [[1]]}',
    "a card that is negative": '{"card": -1}',
    "NaN": '{"card": NaN}',
    "a null": "null",
    "a number": "17",
    "a duration of centuries": "9999999999999999h",
    "a negative duration": "-1s",
    "an infinite duration": "inf",
    "not a number": "nan",
    "other digits": "١٢٣",
    "a superscript": "²",
    "nothing": "",
    "blanks": "   ",
    "5,000 names": ",".join(f"n{n}" for n in range(5_000)),
    "a JSON list of 12,000 names": "[" + ",".join(f'"other/g{n}"' for n in range(12_000)) + "]",
    "a JSON list of odd things": '[1, null, {"a": []}, "x/y/z", ""]',
    "5,000 alternatives": "|".join(f"card-{n}" for n in range(5_000)),
    "control characters": "\x1b]0;owned\x07\x00\n\r\u202e[/bold][link=x]y",
    "a name of somebody else's": "neighbour/pod-1",
    "a path": "../../../nodes",
    "an expression": "required=" + "a" * 70_000,
    "200,000 letters": "x" * 200_000,
}


def annotations() -> Iterator[Attack]:
    keys = {
        name: value
        for name, value in vars(known).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }
    for number, (what, text) in enumerate(TEXTS.items()):
        name = f"note-{number}"
        for place, key in enumerate(keys):
            if place % 3 == number % 3:
                yield Attack(
                    f"{key} of a pod says {what}",
                    [annotated(pod(f"{name}-{place}"), **{key: text})],
                )
        both = annotated(pod(name), **dict.fromkeys(keys, text))
        both["metadata"]["labels"] = both["metadata"]["annotations"]
        yield Attack(f"all annotations and labels of a pod say {what}", [both])
        for kind, make in (("PodGroup", pod_group), ("Volcano Job", job), ("TYJob", tyjob)):
            name = f"notes-{number}-{kind.lower().replace(' ', '-')}"
            notes = dict.fromkeys(keys, text)
            yield Attack(
                f"all annotations of a {kind} say {what}", [annotated(make(name), **notes)]
            )


def deep() -> Iterator[Attack]:
    for levels in (400, 2_000, 4_900, 100_000):
        for shape, value in (("lists", deep_list(levels)), ("objects", deep_object(levels))):
            name = f"deep-{levels}-{shape}"
            config = [{"opaque": {"driver": "d.example.com", "parameters": {"a": value}}}]
            asked = [{"name": "r", "exactly": {"deviceClassName": "c"}}]
            text = f"{levels:,} {shape} deep"
            yield Attack(
                f"a claim's parameters are {text}", [claim(name, requests=asked, config=config)]
            )
            template = a_template()
            template["spec"]["anything"] = value
            yield Attack(f"a Volcano Job's template is {text}", [job(name, template=template)])
            yield Attack(f"a TYJob's template is {text}", [tyjob(name, worker=template)])
            yield Attack(f"a pod's affinity is {text}", [pod(name, affinity=value)])
            yield Attack(f"a PodGroup's spec is {text}", [pod_group(name, spoiled=value)])
    for count in (5_000, 1_000_000):
        name = f"digits-{count}"
        text = f"a number of {count:,} digits"
        yield Attack(f"a pod's priority is {text}", [pod(name, priority=digits(count))])
        yield Attack(f"a TYJob's counts are {text}", [tyjob(name, priority=digits(count))])
        yield Attack(f"a Volcano Job's minimum is {text}", [job(name, minAvailable=digits(count))])


#: Templates that the definitions let pass.
TEMPLATES: dict[str, Object] = {
    "a port without a number": {"containers": [{"name": "c", "ports": [{"name": "master"}]}]},
    "a port whose number is a word": {
        "containers": [{"name": "c", "ports": [{"name": "master", "containerPort": "x"}]}]
    },
    "ports that are null": {"containers": [{"name": "c", "ports": None}]},
    "a port that is null": {"containers": [{"name": "c", "ports": [None]}]},
    "initContainers that are null": {"containers": [{"name": "c"}], "initContainers": None},
    "containers that are null": {"containers": None},
    "containers that are an object": {"containers": {"a": 1}},
    "a container that is null": {"containers": [None]},
    "an empty variable": {"containers": [{"name": "c", "env": [{}]}]},
    "variables that are an object": {"containers": [{"name": "c", "env": {"a": 1}}]},
    "a name that is a number": {"containers": [{"name": 5}]},
    "volumes that are a word": {"containers": [{"name": "c"}], "volumes": "x"},
    "a volume that is null": {"containers": [{"name": "c"}], "volumes": [None]},
    "mounts that are an object": {"containers": [{"name": "c", "volumeMounts": {}}]},
    "requests that are a list": {"containers": [{"name": "c", "resources": {"requests": []}}]},
    "resources that are null": {"containers": [{"name": "c", "resources": None}]},
    "no containers": {},
}


def templates() -> Iterator[Attack]:
    for number, (what, spec) in enumerate(TEMPLATES.items()):
        template = {"spec": spec}
        name = f"template-{number}"
        yield Attack(f"a TYJob's leader has {what}", [tyjob(name, leader=template)])
        yield Attack(f"a TYJob's worker has {what}", [tyjob(f"{name}-w", worker=template)])
        yield Attack(
            f"a Volcano Job's template has {what}",
            [job(name, template=template, plugins={"env": [], "svc": [], "pytorch": []})],
        )
    for number, odd in enumerate((None, 5, "x", [], [None], {"a": None})):
        template = {"metadata": odd, "spec": {"containers": [{"name": "c"}]}}
        yield Attack(
            f"a TYJob's template has the metadata {odd!r}",
            [tyjob(f"meta-{number}", worker=template)],
        )
        yield Attack(
            f"a Volcano Job's template has the metadata {odd!r}",
            [job(f"meta-{number}", template=template)],
        )
        yield Attack(
            f"a TYJob's template is {odd!r}",
            [tyjob(f"odd-{number}", worker={"": odd} if odd is None else odd)],
        )
        yield Attack(
            f"a Volcano Job's task is {odd!r}", [{**job(f"odd-{number}"), "spec": {"tasks": [odd]}}]
        )


COUNTS = (-(2**63), -1, 0, 10_000, 10**6, 2 * 10**9, 2**31 - 1, 2**31, 2**63 - 1, 2**63)


def counts() -> Iterator[Attack]:
    for count in COUNTS:
        name = f"count-{count}"
        made = tyjob(name.replace("--", "-m"))
        made["spec"]["workerSets"][0]["counts"] = count
        yield Attack(f"a TYJob wants {count:,} workers", [made])
        made = tyjob(f"least-{abs(count)}-{count < 0}".lower())
        made["spec"]["minWorkersNum"] = count
        yield Attack(f"a TYJob wants {count:,} workers at least", [made])
        made = job(f"replicas-{abs(count)}-{count < 0}".lower(), task={"replicas": count})
        yield Attack(f"a Volcano Job wants {count:,} pods", [made])
        made = job(f"min-{abs(count)}-{count < 0}".lower(), minAvailable=count)
        yield Attack(f"a Volcano Job's minimum is {count:,}", [made])
    sets = [{"name": f"s{n}", "counts": 1000, "template": a_template()} for n in range(1000)]
    yield Attack("a TYJob has 1,000 sets of 1,000 workers", [tyjob("sets", workerSets=sets)])
    tasks = [{"name": f"t{n}", "replicas": 1000, "template": a_template()} for n in range(1000)]
    yield Attack("a Volcano Job has 1,000 tasks of 1,000 pods", [job("tasks", tasks=tasks)])
