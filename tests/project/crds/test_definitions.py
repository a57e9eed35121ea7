"""The definitions we ship: well formed, and taking and refusing what they should."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from arranger.embedded.errors import ApiError
from arranger.embedded.server import EmbeddedCluster
from tests.project.crds.refusals import REFUSED, UNRULY, Refusal
from tests.project.crds.samples import SAMPLES, Object, Sample, definitions, expected_spec

DEFINITIONS = definitions()
#: Rules are not all asked about what the schema refuses already, which is told beside it.
UNASKED = ("FieldValueInvalid", "<nil>")
COLUMNS = {
    f"{name} {column['name']}": (definition, column)
    for name, definition in DEFINITIONS.items()
    for column in definition["spec"]["versions"][0]["additionalPrinterColumns"]
}
#: A kind that is done and gone: all it says is beside its metadata, and nobody writes its status.
PLAIN = "commands.bus.volcano.sh"
OURS = ["commands", "gangs", "jobs", "podgroups", "queues", "reservations", "tyjobs"]


@pytest.fixture
def cluster() -> EmbeddedCluster:
    """A cluster with all our kinds."""
    cluster = EmbeddedCluster()
    for definition in DEFINITIONS.values():
        cluster.create(definition)
    return cluster


def test_all_kinds_are_there() -> None:
    assert sorted({name.split(".")[0] for name in DEFINITIONS}) == OURS
    assert len(DEFINITIONS) == 9


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_says_what_it_must(name: str) -> None:
    definition = DEFINITIONS[name]
    spec = definition["spec"]
    (version,) = spec["versions"]
    assert definition["metadata"]["name"] == name == f"{spec['names']['plural']}.{spec['group']}"
    assert (version["served"], version["storage"]) == (True, True)
    assert version.get("subresources") == (None if name == PLAIN else {"status": {}})
    if spec["group"].endswith("k8s.io"):
        assert "api-approved.kubernetes.io" in definition["metadata"]["annotations"]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_field_is_described_so_that_kubectl_explain_answers(name: str) -> None:
    root = DEFINITIONS[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert root["description"]
    fields = dict(_fields(root))
    # The API server describes the metadata itself, and refuses a description of ours.
    assert "description" not in fields.pop("metadata")
    assert ({"action", "target"} if name == PLAIN else {"spec", "status"}) < fields.keys()
    bare = [
        path for path, field in fields.items() if not _is_sentence(field.get("description", ""))
    ]
    assert bare == []


@pytest.mark.parametrize("name", [name for name in DEFINITIONS if name != PLAIN])
def test_every_count_in_a_status_starts_at_zero(name: str) -> None:
    root = DEFINITIONS[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    counts = [s for s in _schemas(root["properties"]["status"]) if s.get("type") == "integer"]
    assert counts
    assert all(schema["minimum"] == 0 for schema in counts)


@pytest.mark.parametrize(("definition", "column"), COLUMNS.values(), ids=COLUMNS)
def test_a_column_shows_a_field_of_its_type(definition: Object, column: Object) -> None:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    # A filter takes one out of a list.
    plain = re.sub(r'\[\?\(@\.\w+=="\w+"\)\]', ".items", column["jsonPath"])
    assert re.fullmatch(r"(?:\.\w+)+", plain), column["jsonPath"]
    path = plain.split(".")[1:]
    if path[0] == "metadata":
        assert (path[1:], column["type"]) == (["creationTimestamp"], "date")
        return
    for step in path:
        schema = schema["items"] if step == "items" else schema["properties"][step]
    assert schema["type"] == column["type"]


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_a_good_object_is_kept_whole_and_completed(
    cluster: EmbeddedCluster, sample: Sample
) -> None:
    made = cluster.create(sample.manifest())
    assert made["spec"] == expected_spec(sample)


@pytest.mark.parametrize("refusal", (REFUSED | UNRULY).values(), ids=REFUSED | UNRULY)
def test_a_bad_object_is_refused_where_it_is_bad(
    cluster: EmbeddedCluster, refusal: Refusal
) -> None:
    with pytest.raises(ApiError) as caught:
        cluster.create(refusal.manifest())
    error = caught.value
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.details is not None
    causes = {(c["reason"], c["field"]) for c in error.details["causes"]}
    assert causes - {UNASKED} <= {refusal.cause} <= causes
    assert refusal.cause[1] in error.message


def _schemas(schema: Object) -> Iterator[Object]:
    yield schema
    children: list[Any] = list((schema.get("properties") or {}).values())
    children += [schema[part] for part in ("items", "additionalProperties") if part in schema]
    for child in children:
        yield from _schemas(child)


def _fields(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """The path and the schema of every field, however deep."""
    for name, field in (schema.get("properties") or {}).items():
        yield f"{path}{name}", field
        yield from _fields(field, f"{path}{name}.")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            yield from _fields(schema[part], f"{path}[].")


def _is_sentence(text: str) -> bool:
    return text.endswith(".") and " " in text
