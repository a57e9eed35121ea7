"""Fields of the built-in kinds: each kind has them, and values are decoded as by the server."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.embedded.builtin.field_types import prune
from arranger.embedded.crd.schema import WrongTypeError
from arranger.embedded.registry import Registry

Object = dict[str, Any]


@pytest.mark.parametrize("resource", list(Registry()), ids=lambda r: f"{r.api_version}-{r.kind}")
def test_every_kind_that_is_served_has_its_fields(resource: Any) -> None:
    body = {"kind": resource.kind, "metadata": {"name": "x", "nonsense": 1}, "rubbish": 1}
    fitted = prune(body, resource.api_version, resource.kind)
    assert fitted.obj == {"kind": resource.kind, "metadata": {"name": "x"}}
    assert fitted.unknown == ["metadata.nonsense", "rubbish"]


def test_a_kind_that_does_not_exist_has_none() -> None:
    with pytest.raises(KeyError):
        prune({}, "v1", "Nonsense")


def a_pod(**spec: Any) -> Object:
    return {"spec": spec}


# sentence: the pod, its spec as it is decoded
DECODED: dict[str, tuple[Object, Object]] = {
    "nulls are not there": (a_pod(nodeName=None, nodeSelector={"a": None}), {"nodeSelector": {}}),
    "a number or text": (
        a_pod(containers=[{"livenessProbe": {"httpGet": {"port": "http"}}}]),
        {"containers": [{"livenessProbe": {"httpGet": {"port": "http"}}}]},
    ),
    "an amount that is a number becomes text": (
        a_pod(containers=[{"resources": {"limits": {"cpu": 0.5}}}]),
        {"containers": [{"resources": {"limits": {"cpu": "0.5"}}}]},
    ),
    "an amount of a resource whose name has dots": (
        a_pod(containers=[{"resources": {"limits": {"nvidia.com/gpu": 4}}}]),
        {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}]},
    ),
    "an amount that is a field of its own": (
        a_pod(volumes=[{"emptyDir": {"sizeLimit": 5}}]),
        {"volumes": [{"emptyDir": {"sizeLimit": "5"}}]},
    ),
}


@pytest.mark.parametrize(("pod", "spec"), DECODED.values(), ids=DECODED)
def test_decoded(pod: Object, spec: Object) -> None:
    assert prune(pod, "v1", "Pod").obj["spec"] == spec


# sentence: the pod, the field at fault
WRONG: dict[str, tuple[Object, str]] = {
    "a truth for a number": (a_pod(priority=True), "spec.priority"),
    "a truth for an amount": (
        a_pod(containers=[{"resources": {"limits": {"cpu": True}}}]),
        "spec.containers[0].resources.limits.cpu",
    ),
    "a number for text in a map": (a_pod(nodeSelector={"a": 1}), "spec.nodeSelector.a"),
    "text for an object": (a_pod(affinity="x"), "spec.affinity"),
    "an item that is null": (a_pod(containers=[None]), "spec.containers[0]"),
    "a list for an object": (a_pod(containers=[[]]), "spec.containers[0]"),
}


@pytest.mark.parametrize(("pod", "field"), WRONG.values(), ids=WRONG)
def test_wrong(pod: Object, field: str) -> None:
    with pytest.raises(WrongTypeError, match="json: cannot unmarshal") as wrong:
        prune(pod, "v1", "Pod")
    assert f"field {field} of type" in str(wrong.value)
