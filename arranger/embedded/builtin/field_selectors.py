"""The fields that lists and watches may be selected by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from arranger.embedded import Object
from arranger.embedded.errors import bad_request
from arranger.embedded.registry import Resource
from arranger.embedded.storage import selectors

Predicate = Callable[[Object], bool]

_POD_FIELDS: Final = (
    *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    *("spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName"),
)
_REFERENCE_FIELDS: Final = (
    *("kind", "namespace", "name", "uid"),
    *("apiVersion", "resourceVersion", "fieldPath"),
)
#: By ``apiVersion/plural``: what may be selected, and the stored field that has it. The first of
#: several that is not empty counts.
_SELECTABLE: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "v1/pods": {field: (field,) for field in _POD_FIELDS},
    "v1/nodes": {"spec.unschedulable": ("spec.unschedulable",)},
    "v1/namespaces": {"status.phase": ("status.phase",)},
    "v1/events": {
        **{f"involvedObject.{part}": (f"regarding.{part}",) for part in _REFERENCE_FIELDS},
        "reason": ("reason",),
        "reportingComponent": ("reportingController",),
        "source": ("deprecatedSource.component", "reportingController"),
        "type": ("type",),
    },
    "events.k8s.io/v1/events": {
        **{f"regarding.{part}": (f"regarding.{part}",) for part in _REFERENCE_FIELDS},
        "reason": ("reason",),
        "reportingController": ("reportingController",),
        "type": ("type",),
    },
}
_METADATA_FIELDS: Final = {name: (name,) for name in ("metadata.name", "metadata.namespace")}


def parse_selection(resource: Resource, query: Mapping[str, str]) -> Predicate | None:
    """What ``labelSelector`` and ``fieldSelector`` ask for of stored objects; None for all.

    Raises:
        ApiError: 400 for a selector that makes no sense.
    """
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not labels and not fields:
        return None
    try:
        by_label = selectors.parse_label_selector(labels)
        by_field = selectors.parse_field_selector(fields)
    except selectors.InvalidSelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    own = _SELECTABLE.get(f"{resource.api_version}/{resource.plural}", {})
    known: Mapping[str, tuple[str, ...]] = {**_METADATA_FIELDS, **own}
    for field in by_field.fields:
        if field not in known:
            raise bad_request(f'field label not supported: "{field}"')

    def matches(obj: Object) -> bool:
        if labels and not by_label.matches(obj["metadata"].get("labels") or {}):
            return False
        if not fields:
            return True
        return by_field.matches({field: _first(obj, known[field]) for field in by_field.fields})

    return matches


def _first(obj: Object, places: tuple[str, ...]) -> str:
    return next((value for place in places if (value := _value(obj, place))), "")


def _value(obj: Object, field: str) -> str:
    """A field as selectors see it: text, "" when absent."""
    value: Any = obj
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if field in ("spec.unschedulable", "spec.hostNetwork") else ""
    return str(value).lower() if isinstance(value, bool) else str(value)
