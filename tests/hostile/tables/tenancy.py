"""What one tenant asks of the scheduler that would cost the others much."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.hostile.attack import CULPRIT, Attack, Object
from tests.hostile.tables.audit import annotated, claim, job, pod, pod_group, tyjob


def costly() -> Iterator[Attack]:
    """Objects that take long to judge, or much memory to keep."""
    for count in (5_000, 15_000):
        names = {f"example.com/r{n}": "1" for n in range(count)}
        yield Attack(f"a pod requests {count:,} resources", [pod(f"many-{count}", requests=names)])
        yield Attack(
            f"a bound pod requests {count:,} resources",
            [pod(f"many-bound-{count}", requests=names, nodeName="node-1")],
        )
        selector = {f"example.com/l{n}": "v" for n in range(count)}
        yield Attack(
            f"a pod selects nodes by {count:,} labels",
            [pod(f"selects-{count}", nodeSelector=selector)],
        )
        labelled = pod(f"labels-{count}")
        labelled["metadata"]["labels"] = selector
        yield Attack(f"a pod has {count:,} labels", [labelled])
    anti = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [
        {"topologyKey": f"example.com/k{n}", "labelSelector": {"matchLabels": {"a": f"b{n}"}}}
        for n in range(500)
    ]
    yield Attack(
        "20 bound pods have 500 anti-affinity terms each",
        [
            pod(f"anti-{n}", nodeName="node-2", affinity={"podAntiAffinity": {anti: terms}})
            for n in range(20)
        ],
    )
    spread = [{**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for term in terms] * 4
    yield Attack("a pod has 2,000 spread constraints", [pod("s", topologySpreadConstraints=spread)])
    tolerations = [{"key": f"k{n}", "operator": "Exists"} for n in range(10_000)]
    yield Attack("a pod has 10,000 tolerations", [pod("t", tolerations=tolerations)])
    gates = [{"name": f"example.com/g{n}"} for n in range(5_000)]
    yield Attack("a pod has 5,000 gates", [pod("gates", schedulingGates=gates)])
    owners = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"r{n}", "uid": f"u{n}"}
        for n in range(5_000)
    ]
    owned = pod("owned")
    owned["metadata"]["ownerReferences"] = owners
    yield Attack("a pod has 5,000 owners", [owned])
    claims: list[Object] = []
    requests: list[Object] = [
        {"name": f"r{n}", "exactly": {"deviceClassName": "c", "count": 2**31}} for n in range(5_000)
    ]
    yield Attack("a claim has 5,000 requests", [claim("many", requests=requests), *_users("many")])
    yield _many_volumes()
    for n in range(40):
        model = {"cel": {"expression": f"device.attributes['d.example.com'].model != 'm{n}'"}}
        each = {"deviceClassName": "gpu", "selectors": [model]}
        requests = [{"name": f"r{n}", "exactly": each} for n in range(32)]
        claims.append(claim(f"wide-{n}", requests=requests))
    used = [{"name": f"c{n}", "resourceClaimName": f"wide-{n}"} for n in range(len(claims))]
    yield Attack("a pod has 40 claims of 32 requests", [*claims, pod("wide", resourceClaims=used)])
    yield from _expressions()


def _many_volumes() -> Attack:
    """Each of the claims may get each of the volumes."""
    local = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    objects: list[Object] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    ]
    for n in range(500):
        host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node-{n % 4}"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [host]}]}
        spec = {**local, "capacity": {"storage": "1Gi"}, "nodeAffinity": {"required": terms}}
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"local-{n}"},
                "spec": spec,
                "status": {"phase": "Available"},
            }
        )
    names = [f"volume-{n}" for n in range(200)]
    for name in names:
        # One is for a larger volume than there is: nobody binds volumes here, so that a pod with
        # room would wait for that, and be told nothing meanwhile.
        size = "2Gi" if name == "volume-29" else "1Gi"
        spec = {**local, "resources": {"requests": {"storage": size}}}
        meta = {"name": name, "namespace": CULPRIT}
        claim_of = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        objects.append({**claim_of, "metadata": meta, "spec": spec})
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    pods = [pod(f"volumes-{count}", volumes=volumes[:count]) for count in (30, 200)]
    return Attack("pods have up to 200 claims for 500 volumes", [*objects, *pods])


def _users(name: str) -> list[Object]:
    used = [{"name": "c", "resourceClaimName": name}]
    return [pod(f"uses-{name}", resourceClaims=used)]


#: An attribute that no device has.
_ABSENT: Final = "device.attributes['d.example.com'].absent"
#: In the Common Expression Language.
EXPRESSIONS = {
    "27,000 turns": "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,"
    "28,29].all(a, [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,"
    "29].all(b, [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29]"
    ".all(c, a + b + c >= 0)))",
    "2,000 brackets": "(" * 2_000 + "true" + ")" * 2_000,
    "5,000 operators": "!" * 5_000 + "true",
    "100,000 letters": "true || '" + "x" * 100_000 + "' == ''",
    "a number too large": "9223372036854775807 + 1 > 0",
    "a text that doubles": "'x'.replace('x', 'xx').replace('x', 'xx').size() > 0",
    "an expression of an expression": "'aaaaaaaaaaaaaaaaaaaaaaaa!'.matches('(a+)+$')",
    "no expression": ")(",
    "40 errors, each with the one before": f"{list(range(40))}.all(a, {_ABSENT} == a)",
    "40 errors in a row": " && ".join([f"{_ABSENT} == 1"] * 40),
    "a quantity": "device.capacity['d.example.com'].m.compareTo(quantity('1e1000000')) > 0",
}


def _expressions() -> Iterator[Attack]:
    for number, (what, expression) in enumerate(EXPRESSIONS.items()):
        name = f"cel-{number}"
        selectors = [{"cel": {"expression": expression}}]
        asked = [{"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}]
        yield Attack(
            f"a claim selects devices by {what}", [claim(name, requests=asked), *_users(name)]
        )


def devices() -> list[Object]:
    """What those claims are about: ten devices on each node, each unlike the others."""
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'd.example.com'"}}]},
        },
        *(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"slice-{node}"},
                "spec": {
                    "driver": "d.example.com",
                    "nodeName": f"node-{node}",
                    "pool": {"name": f"node-{node}", "generation": 1, "resourceSliceCount": 1},
                    "devices": [
                        {
                            "name": f"d{n}",
                            "attributes": {"model": {"string": f"m{node}-{n}"}},
                            "capacity": {"m": {"value": "1Gi"}},
                        }
                        for n in range(10)
                    ],
                },
            }
            for node in range(4)
        ),
    ]


def groups() -> Iterator[Attack]:
    """Gangs and jobs that name each other, or what there is not."""
    key = "GANG_NAME"

    def member(name: str, gang: str, least: str = "2", groups: str = "[]") -> Object:
        return annotated(pod(name), **{key: gang, "GANG_MIN": least, "GANG_GROUPS": groups})

    yield Attack(
        "two gangs name each other",
        [
            member("a-0", "a", groups='["culprit/a", "culprit/b"]'),
            member("b-0", "b", groups='["culprit/b", "culprit/a"]'),
        ],
    )
    yield Attack("a gang names itself alone", [member("c-0", "c", groups='["culprit/c"]')])
    ring = [member(f"ring-{n}", f"g{n}", "1", f'["culprit/g{n + 1}"]') for n in range(300)]
    yield Attack("300 gangs are a chain", ring)
    names = ", ".join(f'"neighbour/g{n}"' for n in range(12_000))
    yield Attack("a gang names 12,000 others", [member("named", "d", "1", f"[{names}]")])
    yield Attack("a gang needs 10^9 members", [member("e-0", "e", str(10**9))])
    yield Attack(
        "a hundred gangs need more than there is",
        [
            annotated(
                pod(f"big-{n}-{m}", requests={"cpu": "60"}), GANG_NAME=f"big-{n}", GANG_MIN="5"
            )
            for n in range(20)
            for m in range(5)
        ],
    )
    yield Attack(
        "a pod is in gangs of all dialects",
        [
            annotated(
                pod("all"),
                GANG_NAME="x",
                BUNDLE_GANG="y",
                BUNDLE_NAME="\u202e\x1b[31m",
                BUNDLE_MIN="7",
                VOLCANO_GROUP="z",
                POD_GROUP="w",
            )
        ],
    )
    task = {"dependsOn": {"name": ["w"]}}
    yield Attack("a task waits for itself", [job("self", task=task)])
    two = [
        {"name": a, "replicas": 1, "template": {"spec": {}}, "dependsOn": {"name": [b]}}
        for a, b in (("x", "y"), ("y", "x"))
    ]
    yield Attack("two tasks wait for each other", [job("ring", tasks=two)])
    owned = tyjob("own")
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "arranger.io/v1alpha1", "kind": "TYJob", "name": "own", "uid": "own"}
    ]
    yield Attack("a TYJob owns itself", [owned])
    yield Attack(
        "a job and a TYJob have one name",
        [job("same"), tyjob("same"), pod_group("same"), pod("same-w-0")],
    )
    foreign = pod("foreign")
    foreign["metadata"]["labels"] = {
        "volcano.sh/job-name": "job-1",
        "volcano.sh/job-namespace": "neighbour",
        "arranger.io/tyjob": "job-1",
    }
    yield Attack("a pod says that it is of another tenant's job", [foreign])
    for number, queue in enumerate(("", "no-such-queue", "x" * 5_000, "../default", "root")):
        yield Attack(
            f"a pod and a job are of the queue {queue[:20]!r}",
            [
                annotated(pod(f"queue-{number}"), QUEUE_NAME=queue),
                job(f"queue-{number}", queue=queue),
                tyjob(f"queue-{number}", queue=queue),
                pod_group(f"queue-{number}", queue=queue),
            ],
        )


def edited() -> Iterator[Attack]:
    """Objects that are sound at first and then are not, and the other way round."""
    for number, amount in enumerate(("1e1000000", "9E", "-1", "x", "")):
        good = pod(f"edit-{number}", requests={"cpu": "1"}, nodeName="node-3")
        bad = pod(f"edit-{number}", requests={"cpu": amount, "memory": amount}, nodeName="node-3")
        bad["status"] = good["status"] = {"phase": "Running"}
        yield Attack(f"a sound bound pod comes to request {amount!r}", [good], [bad])
        yield Attack(
            f"a bound pod's request {amount!r} becomes sound",
            [{**bad, "metadata": {**bad["metadata"], "name": f"mend-{number}"}}],
            [{**good, "metadata": {**good["metadata"], "name": f"mend-{number}"}}],
        )
    for number, spec in enumerate(({}, {"tasks": None}, {"tasks": [{"template": 5}]}, None)):
        good, name = job(f"edit-{number}"), f"edit-{number}"
        yield Attack(f"a sound Volcano Job's spec becomes {spec}", [good], [{**good, "spec": spec}])
        right = tyjob(name)
        yield Attack(f"a sound TYJob's spec becomes {spec}", [right], [{**right, "spec": spec}])
        wrong = {**job(f"mend-{number}"), "spec": spec}
        yield Attack(f"a Volcano Job's spec {spec} becomes sound", [wrong], [job(f"mend-{number}")])
        wrong = {**tyjob(f"mend-{number}"), "spec": spec}
        yield Attack(f"a TYJob's spec {spec} becomes sound", [wrong], [tyjob(f"mend-{number}")])
    for number, status in enumerate((5, [], "x", {"state": 5}, {"stage": []}, {"conditions": [1]})):
        for make, kind in ((job, "Volcano Job"), (tyjob, "TYJob"), (pod_group, "PodGroup")):
            good = make(f"status-{number}")
            yield Attack(
                f"somebody writes the status {status} of a {kind}",
                [good],
                [{**good, "status": status}],
            )
