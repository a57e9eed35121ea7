"""The ``kubernetes`` package of Python reads, edits, watches and deletes objects of our kinds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

import pytest
import pytest_asyncio
from kubernetes import watch
from kubernetes.dynamic import DynamicClient, Resource
from kubernetes.dynamic.exceptions import ConflictError, DynamicApiError, NotFoundError

from tests.api_conformance.objects import crd_path
from tests.controlplane.admin import PATIENCE
from tests.controlplane.clients.edits import EDITS, a_sample
from tests.controlplane.clients.emptying import make_empty
from tests.controlplane.clients.python import connect
from tests.controlplane.harness import ControlPlane
from tests.project.crds.samples import Sample, definitions, expected_spec

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("controlplane"),
]

Object = dict[str, Any]
JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass
class Objects:
    """The objects of one kind, and a sample of them."""

    resource: Resource
    sample: Sample

    @property
    def field(self) -> str:
        return EDITS[self.sample.crd][0]

    @property
    def value(self) -> int:
        return EDITS[self.sample.crd][1]

    @property
    def where(self) -> Object:
        return {"namespace": "default"} if self.resource.namespaced else {}

    def edited(self, value: int) -> Object:
        return self.sample.manifest({**self.sample.spec, self.field: value})

    def create(self) -> Object:
        return self.resource.create(body=self.sample.manifest(), **self.where).to_dict()

    def read(self) -> Object:
        return self.resource.get(name="sample", **self.where).to_dict()

    def patch(self, body: Any, content_type: str = MERGE, **more: Any) -> Object:
        given = {"name": "sample", "body": body, "content_type": content_type, **self.where}
        return self.resource.patch(**given, **more).to_dict()


@pytest_asyncio.fixture(loop_scope="session", params=EDITS)
async def objects(
    serving_plane: ControlPlane, request: pytest.FixtureRequest
) -> AsyncIterator[Objects]:
    """No object of a kind."""

    def begin() -> Objects:
        definition = definitions()[request.param]["spec"]
        version = f"{definition['group']}/{definition['versions'][0]['name']}"
        resources = DynamicClient(api).resources
        plural = definition["names"]["plural"]
        found = resources.get(api_version=version, name=plural)
        return Objects(found, a_sample(request.param))

    await make_empty(serving_plane, crd_path(request.param, "default"))
    api = connect(serving_plane)
    yield await asyncio.to_thread(begin)
    await make_empty(serving_plane, crd_path(request.param, "default"))
    api.close()


def in_a_thread(story: Callable[[Objects], None]) -> Callable[[Objects], Any]:
    """The client blocks; the loop of the tests goes on."""

    @wraps(story)
    async def test(objects: Objects) -> None:
        await asyncio.to_thread(story, objects)

    return test


@in_a_thread
def test_an_object_is_created_read_and_listed(objects: Objects) -> None:
    made = objects.create()
    assert made["spec"] == expected_spec(objects.sample)
    assert objects.read() == made
    listed = objects.resource.get(**objects.where).to_dict()["items"]
    assert [each["metadata"]["uid"] for each in listed] == [made["metadata"]["uid"]]


@in_a_thread
def test_an_object_is_replaced_unless_another_was_faster(objects: Objects) -> None:
    old = objects.create()
    new = {**old, "spec": {**old["spec"], objects.field: objects.value}}
    assert objects.resource.replace(body=new, **objects.where).to_dict()["spec"] == new["spec"]
    with pytest.raises(ConflictError):
        objects.resource.replace(body=old, **objects.where)


@in_a_thread
def test_an_object_is_patched(objects: Objects) -> None:
    objects.create()
    field = objects.field
    assert objects.patch({"spec": {field: 9}})["spec"][field] == 9
    operation = {"op": "replace", "path": f"/spec/{field}", "value": objects.value}
    assert objects.patch([operation], JSON)["spec"][field] == objects.value
    with pytest.raises(DynamicApiError, match="415"):
        objects.patch({"spec": {field: 9}}, STRATEGIC)


@in_a_thread
def test_an_object_is_applied_by_two_managers(objects: Objects) -> None:
    def apply(manager: str, value: int, **more: bool) -> int:
        body, where = objects.edited(value), objects.where
        options = {"name": "sample", "field_manager": manager, **more}
        made = objects.resource.server_side_apply(body=body, **options, **where)
        return int(made.to_dict()["spec"][objects.field])

    assert apply("one", objects.value) == objects.value
    with pytest.raises(ConflictError) as conflict:
        apply("two", 9)
    assert f".spec.{objects.field}" in conflict.value.body
    assert apply("two", 9, force_conflicts=True) == 9
    managers = objects.read()["metadata"]["managedFields"]
    assert [(each["manager"], each["operation"]) for each in managers] == [
        ("one", "Apply"),
        ("two", "Apply"),
    ]


@in_a_thread
def test_the_status_of_an_object_is_apart(objects: Objects) -> None:
    objects.create()
    change = {"spec": {objects.field: 9}, "status": objects.sample.status}
    status = objects.resource.subresources["status"]
    given = {"name": "sample", "body": change, "content_type": MERGE, **objects.where}
    after = status.patch(**given).to_dict()
    assert after["status"] == objects.sample.status
    assert after["spec"] == expected_spec(objects.sample)
    assert objects.patch({"status": None})["status"] == objects.sample.status


@in_a_thread
def test_an_object_is_watched_until_it_is_deleted(objects: Objects) -> None:
    def follow() -> Iterator[tuple[str, int]]:
        watcher = watch.Watch()
        given, last = {"timeout": int(PATIENCE), **objects.where}, None
        for event in objects.resource.watch(watcher=watcher, **given):
            told = event["type"], event["raw_object"]["spec"].get(objects.field)
            # A server that has stored the definition anew ends its watches; the next says it again.
            if told != last:
                yield told
            last = told

    objects.create()
    before = objects.read()["spec"].get(objects.field)
    changes = follow()
    assert next(changes) == ("ADDED", before)
    objects.patch({"spec": {objects.field: objects.value}})
    assert next(changes) == ("MODIFIED", objects.value)
    objects.resource.delete(name="sample", **objects.where)
    assert next(changes) == ("DELETED", objects.value)
    changes.close()
    with pytest.raises(NotFoundError):
        objects.read()
