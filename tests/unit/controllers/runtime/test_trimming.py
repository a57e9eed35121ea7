"""What a tenant writes into fields that nobody reads is not kept by the controllers."""

from __future__ import annotations

import asyncio
import gc
import random
from copy import deepcopy
from types import FunctionType, MethodType, ModuleType
from typing import Any

import msgspec
import pytest

from arranger.api.annotations import GANG_GROUPS, JOB_NAME, SPEC_HASH, TASK_INDEX, TASK_SPEC
from arranger.api.types.core import ObjectMeta, Pod
from arranger.api.types.tyjob import TYJobPod
from arranger.controllers.assembly import Controllers
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.trimming import decode_owned_object, shortened
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from tests.builders import a_pod
from tests.tyjobs import a_template, a_tyjob

pytestmark = pytest.mark.looptime(noop_cycles=0)

Object = dict[str, Any]
#: What is looked for: no short text, since these are kept where a configured rule may read them.
FAT = "fat" * 20_000
_PASSED_OVER = (type, ModuleType, asyncio.AbstractEventLoop)
OWNER = {"controller": True, "uid": "u-job", "name": "job"}


def fat(manifest: Object, key: str = "example.com/notes") -> Object:
    """The object with an annotation of 60 kB."""
    meta = manifest["metadata"]
    meta["annotations"] = {**meta.get("annotations", {}), key: FAT}
    meta.setdefault("namespace", "default")
    meta.pop("uid", None)
    return manifest


def controlled(by: Object, **labels: str) -> Object:
    manifest = a_pod("owned").manifest()
    manifest["metadata"] |= {"labels": labels, "ownerReferences": [{**OWNER, **by}]}
    return manifest


def _pod_group(group: str) -> Object:
    head = {"apiVersion": group, "kind": "PodGroup", "metadata": {"name": "g"}}
    return {**head, "spec": {"minMember": 2}}


_JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
_TASK = {"name": "w", "replicas": 1, "template": a_template()}
_OWNERS: dict[str, Object] = {
    "Job": {
        **_JOB,
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"minAvailable": 1, "schedulerName": "arranger", "tasks": [_TASK]},
    },
}
#: What carries the annotation.
OBJECTS: dict[str, Object] = {
    "a pod": fat(a_pod("p").manifest()),
    "a member of a gang": fat(a_pod("p").in_gang("g").manifest()),
    "a pod of a Volcano Job": fat(
        controlled(
            _JOB,
            **{
                JOB_NAME: "job",
                TASK_SPEC: "w",
                TASK_INDEX: "0",
            },
        )
    ),
    "a TYJob": fat(a_tyjob("job", workers=1)),
    "a PodGroup of the community": fat(_pod_group("scheduling.x-k8s.io/v1alpha1")),
    "a PodGroup of Volcano": fat(_pod_group("scheduling.volcano.sh/v1beta1")),
    "a namespace": fat(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "namespace": ""}}
    ),
}


@pytest.mark.parametrize("manifest", OBJECTS.values(), ids=OBJECTS)
async def test_nothing_of_it_is_kept(manifest: Object) -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    for definition in bundled_crds():
        cluster.create(definition)
    manifest = deepcopy(manifest)
    for owner in manifest["metadata"].get("ownerReferences", ()):
        cluster.create(_OWNERS[owner["kind"]])
        plural = f"{owner['apiVersion'].partition('/')[0]}/{owner['kind'].lower()}s"
        owner["uid"] = cluster.store.get(plural, ("default", "job"))["metadata"]["uid"]
    cluster.create(manifest)
    transport = InProcessTransport(cluster)
    controllers = Controllers(transport, ControllerOptions(rng=random.Random(1)))
    tasks = [asyncio.create_task(task) for task in controllers.tasks()]
    await asyncio.gather(*(event.wait() for event in controllers.synced))
    await asyncio.sleep(60)
    gc.collect()
    assert holders(controllers, transport) == []
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def holders(root: object, *but: object) -> list[str]:
    """The types of what holds a text like :data:`FAT`, reached from ``root`` and not by ``but``."""
    seen, waiting, found = {id(each) for each in but}, [root], []
    while waiting:
        each = waiting.pop()
        for inner in _parts(each):
            if id(inner) in seen or isinstance(inner, _PASSED_OVER):
                continue
            seen.add(id(inner))
            if isinstance(inner, str):
                found += [type(each).__name__] * (len(inner) > 10_000 and "fatfat" in inner)
            elif isinstance(inner, FunctionType):
                waiting += [inner.__closure__, inner.__defaults__]
            elif isinstance(inner, MethodType):
                waiting.append(inner.__self__)
            else:
                waiting.append(inner)
    return found


def _parts(of: object) -> list[object]:
    if isinstance(of, msgspec.Struct):  # the collector does not look into some of them
        return [getattr(of, name) for name in of.__struct_fields__]
    return gc.get_referents(of)


def test_the_search_finds_what_is_kept() -> None:
    kept = {"a": [lambda: None, {"b": FAT}], "c": Pod(ObjectMeta(annotations={"d": FAT + "."}))}
    assert holders(kept) == ["dict", "dict"]


def test_long_texts_are_compared_by_their_digests() -> None:
    assert shortened("x" * 1024) == "x" * 1024
    first, second = shortened("x" * 1025), shortened("x" * 1024 + "y")
    assert first != second
    assert len(first) < 100


def test_of_a_pod_of_a_job_known_annotations_stay_as_texts_or_digests() -> None:
    given = {SPEC_HASH: "abc", GANG_GROUPS: FAT, "example.com/notes": "short"}
    manifest = {**a_pod("p").manifest(), "metadata": {"name": "p", "annotations": given}}
    pod = decode_owned_object(msgspec.json.encode(manifest), TYJobPod)
    assert pod.metadata.annotations == {SPEC_HASH: "abc", GANG_GROUPS: shortened(FAT)}
