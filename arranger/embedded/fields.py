"""The fields that lists and watches may be selected by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from arranger.embedded.errors import bad_request
from arranger.embedded.resources import Resource
from arranger.embedded.selectors import (
    FieldSelector,
    LabelSelector,
    SelectorError,
    parse_field_selector,
    parse_label_selector,
)

Object = dict[str, Any]
Selection = Callable[[Object], bool]

_OF_PODS: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_OF_EVENTS: Final = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "reason",
    "reportingController",
    "type",
)
_SELECTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "/pods": _OF_PODS,
    "/nodes": ("spec.unschedulable",),
    "/namespaces": ("status.phase",),
    "/events": _OF_EVENTS,
    "events.k8s.io/events": (
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "reason",
        "reportingController",
        "type",
    ),
}


def selection(resource: Resource, query: Mapping[str, str]) -> Selection | None:
    """What ``labelSelector`` and ``fieldSelector`` ask for; None for everything.

    Raises:
        ApiError: 400 for a selector that makes no sense.
    """
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not labels and not fields:
        return None
    try:
        by_label: LabelSelector = parse_label_selector(labels)
        by_field: FieldSelector = parse_field_selector(fields)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    known = {"metadata.name", "metadata.namespace", *_SELECTABLE.get(resource.key, ())}
    for field in by_field.fields:
        if field not in known:
            raise bad_request(f'field label not supported: "{field}"')

    def selected(obj: Object) -> bool:
        if labels and not by_label.matches(obj["metadata"].get("labels") or {}):
            return False
        if not fields:
            return True
        return by_field.matches({field: value_of(obj, field) for field in by_field.fields})

    return selected


def value_of(obj: Object, field: str) -> str:
    """A field as selectors see it: text, "" when absent."""
    value: Any = obj
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if field in ("spec.unschedulable", "spec.hostNetwork") else ""
    return str(value).lower() if isinstance(value, bool) else str(value)
