"""What stands for the content of an object, of whatever kind and shape."""

from __future__ import annotations

import json
import random
from typing import Any, Final

import msgspec
import pytest

from arranger.api.types.workloads import Owner, Workload
from arranger.daemon.informers import COLLECTION_PATHS
from arranger.engine.faults.states import content_of
from tests.builders import a_pod
from tests.builders.workloads import an_owner
from tests.fuzz.choices import Choices
from tests.fuzz.objects import an_object

_KINDS: Final = {each.__name__: each for each in (*COLLECTION_PATHS, Owner, Workload)}


def _decoded(kind: type[Any], rng: random.Random) -> Any:
    """A random object, as far as it can be decoded."""
    manifest = an_object(Choices(rng.randbytes(400)), kind)
    try:
        return msgspec.json.decode(json.dumps(manifest), type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


@pytest.mark.parametrize("kind", _KINDS.values(), ids=_KINDS)
def test_every_object_that_can_be_decoded_has_a_content(kind: type[Any]) -> None:
    rng = random.Random(kind.__name__)
    objects = [obj for _ in range(60) if (obj := _decoded(kind, rng)) is not None]
    assert len(objects) > 5
    for obj in objects:
        again = msgspec.structs.replace(obj)
        again.metadata = msgspec.structs.replace(obj.metadata, resource_version="8")
        assert content_of(obj) == content_of(again)
        again.metadata = msgspec.structs.replace(obj.metadata, labels={"another": "label"})
        assert content_of(obj) != content_of(again)


def test_what_an_owner_says_is_its_content_and_its_status_is_not() -> None:
    job = an_owner("Job", parallelism=2)
    assert content_of(job.build()) != content_of(an_owner("Job", parallelism=3).build())
    assert content_of(job.build()) == content_of(job.with_status(active=1).build())


def test_a_pod_that_has_ended_is_another() -> None:
    pod = a_pod()
    ended = pod.with_status(phase="Failed").build()
    assert content_of(pod.build()) != content_of(ended)


def test_nothing_is_kept_of_a_large_object() -> None:
    content = content_of(a_pod().annotated({"a": "x" * 100_000}).build())
    assert isinstance(content, bytes)
    assert len(content) < 100
