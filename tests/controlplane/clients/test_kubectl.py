"""kubectl reads, edits, watches and deletes objects of every kind that ``crds/`` defines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.api_conformance.objects import crd_path
from tests.controlplane.clients.edits import EDITS, a_sample
from tests.controlplane.clients.emptying import make_empty
from tests.controlplane.clients.kubectl import WITHIN, Kubectl
from tests.controlplane.clients.terminal import kubectl_path
from tests.controlplane.harness import ControlPlane
from tests.project.crds.samples import Sample, definitions, expected_spec

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("controlplane"),
]

Object = dict[str, Any]

DEFINITIONS: Final = definitions()


@dataclass
class Kind:
    """One of our kinds, a sample of it, and a kubectl.

    Attributes:
        resource: as kubectl takes it without a doubt, since several dialects have PodGroups.
    """

    kubectl: Kubectl
    sample: Sample

    @property
    def resource(self) -> str:
        return self.sample.crd

    @property
    def edit(self) -> tuple[str, int]:
        """A field of the spec and its new value."""
        return EDITS[self.resource]

    @property
    def version(self) -> Object:
        """What the definition says of the version."""
        version: Object = DEFINITIONS[self.resource]["spec"]["versions"][0]
        return version

    @property
    def collection(self) -> str:
        return crd_path(self.resource, "default")

    @property
    def api_version(self) -> str:
        return f"{DEFINITIONS[self.resource]['spec']['group']}/{self.version['name']}"

    def edited(self, value: int) -> Object:
        """The sample's manifest with a value in the field of the edit."""
        return self.sample.manifest({**self.sample.spec, self.edit[0]: value})

    async def create(self) -> None:
        await self.kubectl("create", "-f", "-", given=self.sample.manifest())

    async def patch(self, change: Object, *words: str) -> None:
        merge = ("--type=merge", "-p", json.dumps(change))
        await self.kubectl("patch", self.resource, "sample", *merge, *words)

    async def read(self) -> Object:
        return await self.kubectl.plane.get(f"{self.collection}/sample")

    async def has(self) -> int | None:
        """What the field of the edit has now."""
        value: int | None = (await self.read())["spec"].get(self.edit[0])
        return value


@pytest_asyncio.fixture(loop_scope="session", params=EDITS)
async def kind(serving_plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[Kind]:
    """A kind without objects."""
    kubectl_path()
    kind = Kind(Kubectl(serving_plane), a_sample(request.param))
    await make_empty(serving_plane, kind.collection)
    yield kind
    await make_empty(serving_plane, kind.collection)


async def test_get_prints_the_columns_of_the_definition(kind: Kind) -> None:
    await kind.create()
    await kind.patch({"status": kind.sample.status}, "--subresource=status")
    for words in ((), ("-o", "wide")):
        columns = kind.version["additionalPrinterColumns"]
        columns = [column for column in columns if words or not column.get("priority")]
        head, row = (await kind.kubectl("get", kind.resource, *words)).splitlines()
        assert head.split() == ["NAME", *(column["name"].upper() for column in columns)]
    cells = [str(cell) for cell in kind.sample.cells if cell is not None]
    assert [cell for cell in cells if cell.lower() not in row.lower()] == []


async def test_explain_describes_every_field(kind: Kind) -> None:
    schema = kind.version["schema"]["openAPIV3Schema"]["properties"]
    plural = kind.resource.partition(".")[0]
    for part in ("spec", "status"):
        path = (f"{plural}.{part}", "--api-version", kind.api_version)
        told = await kind.kubectl("explain", *path)
        assert "<no description>" not in told
        assert [name for name in schema[part]["properties"] if f"  {name}\t" not in told] == []


async def test_apply_changes_what_was_edited_and_leaves_what_others_wrote(kind: Kind) -> None:
    field, value = kind.edit
    apply = ("apply", "-f", "-")
    assert "created" in await kind.kubectl(*apply, given=kind.sample.manifest())
    await kind.kubectl("annotate", kind.resource, "sample", "of=somebody else")
    before = await kind.read()
    await kind.kubectl(*apply, given=kind.sample.manifest())
    assert await kind.read() == before
    status, told = await kind.kubectl.run("diff", "-f", "-", given=kind.edited(value))
    assert (status, f"+  {field}: {value}" in told) == (1, True), told
    assert "configured" in await kind.kubectl(*apply, given=kind.edited(value))
    found = await kind.read()
    assert found["metadata"]["annotations"]["of"] == "somebody else"
    assert found["spec"] == {**expected_spec(kind.sample), field: value}


async def test_server_side_apply_knows_whose_field_it_is(kind: Kind) -> None:
    field, value = kind.edit
    apply = ("apply", "--server-side", "-f", "-")
    await kind.kubectl(*apply, "--field-manager=one", given=kind.edited(value))
    two = (*apply, "--field-manager=two")
    refused = await kind.kubectl.refused(*two, given=kind.edited(9))
    assert 'with "one"' in refused
    assert f".spec.{field}" in refused
    assert await kind.has() == value
    await kind.kubectl(*two, "--force-conflicts", given=kind.edited(9))
    assert await kind.has() == 9


async def test_patches_that_a_definition_takes(kind: Kind) -> None:
    await kind.create()
    field, value = kind.edit
    await kind.patch({"spec": {field: value}})
    assert await kind.has() == value
    patch = ("patch", kind.resource, "sample")
    operation = {"op": "replace", "path": f"/spec/{field}", "value": 9}
    await kind.kubectl(*patch, "--type=json", "-p", json.dumps([operation]))
    assert await kind.has() == 9
    # Strategic patches are for the kinds of Kubernetes itself.
    strategic = ("--type=strategic", "-p", json.dumps({"spec": {field: value}}))
    assert "is not supported by" in await kind.kubectl.refused(*patch, *strategic)


async def test_a_status_is_edited_apart_from_the_rest(kind: Kind) -> None:
    await kind.create()
    field, value = kind.edit
    status = kind.sample.status
    await kind.patch({"spec": {field: value}, "status": status})
    found = await kind.read()
    assert (found["spec"][field], "status" in found) == (value, False)
    await kind.patch({"spec": {field: 9}, "status": status}, "--subresource=status")
    found = await kind.read()
    assert (found["spec"][field], found["status"]) == (value, status)


async def test_an_editor_changes_an_object(kind: Kind) -> None:
    await kind.create()
    field, value = kind.edit
    script = f"sed -i -e '/^  {field}:/d' -e 's/^spec:$/&\\n  {field}: {value}/'"
    editing = Kubectl(kind.kubectl.plane, {"KUBE_EDITOR": script})
    assert "edited" in await editing("edit", kind.resource, "sample")
    assert await kind.has() == value


async def test_a_watch_tells_of_every_change(kind: Kind) -> None:
    field, value = kind.edit
    watch = ("get", kind.resource, "--watch", "--output-watch-events")
    shown = 'jsonpath={.type} {.object.metadata.name}{"\\n"}'
    await kind.create()
    async with kind.kubectl.watching(*watch, "-o", shown) as lines:
        assert await lines.readline() == b"ADDED sample\n"
        await kind.patch({"spec": {field: value}})
        assert await lines.readline() == b"MODIFIED sample\n"
        await kind.kubectl("delete", kind.resource, "sample")
        assert await lines.readline() == b"DELETED sample\n"


async def test_waiting_for_a_field_and_for_the_end(kind: Kind) -> None:
    await kind.create()
    field, value = kind.edit
    wait = ("wait", kind.resource, "sample")
    reached = f"--for=jsonpath={{.spec.{field}}}={value}"
    assert "condition not met" in await kind.kubectl.refused(*wait, reached, "--timeout=0s")
    await kind.patch({"spec": {field: value}})
    assert "condition met" in await kind.kubectl(*wait, reached, WITHIN)
    await kind.kubectl("delete", kind.resource, "sample", "--wait=false")
    await kind.kubectl(*wait, "--for=delete", WITHIN)


async def test_no_kind_of_ours_is_scaled_by_a_number(kind: Kind) -> None:
    await kind.create()
    scale = ("scale", kind.resource, "sample", "--replicas=2")
    assert "NotFound" in await kind.kubectl.refused(*scale)
