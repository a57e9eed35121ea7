"""What an update does not change is not judged again, as if it had been read from the store."""

from __future__ import annotations

from typing import Any

from arranger.embedded.crd.schema import CustomSchema

Object = dict[str, Any]
SCHEMA = CustomSchema.parse(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "count": {"type": "integer"},
                    "kept": {"type": "boolean", "default": True},
                },
                "x-kubernetes-validations": [{"rule": "self.count > 0"}],
            },
            "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
        },
    }
)


def an_object(spec: Object, **more: Any) -> Object:
    return {"apiVersion": "a.io/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec, **more}


def test_a_default_that_came_later_is_no_change() -> None:
    old = an_object({"count": -1})
    new = an_object({"count": -1, "kept": True}, status={"seen": 1})
    assert SCHEMA.validate(new, old) == []
    assert old == an_object({"count": -1}), "it is the store's"


def test_a_change_is_judged() -> None:
    old = an_object({"count": -1})
    assert SCHEMA.validate(an_object({"count": -2, "kept": True}), old) != []
    assert SCHEMA.validate(an_object({"count": -1, "kept": False}), old) != []
