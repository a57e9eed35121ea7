"""Rows to print, for ``kubectl get`` and ``kubectl get --watch``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from arranger.embedded import Object
from arranger.embedded.kubectl.columns import columns_of
from arranger.embedded.kubectl.content_negotiation import prefers
from arranger.embedded.registry import Resource


def wants_table(accept: str) -> bool:
    """Whether the client prefers rows to objects."""
    return prefers(accept, "Table", "meta.k8s.io", "v1")


class TablePrinter:
    """Makes ``meta.k8s.io/v1`` Tables of objects, lists and events of one kind.

    Args:
        now: the calendar clock, for ages.
        query: of the request; ``includeObject`` says how much of an object its row brings along.
    """

    def __init__(
        self, resource: Resource, now: Callable[[], datetime], query: Mapping[str, str]
    ) -> None:
        self._resource = resource
        self._now = now
        self._include = query.get("includeObject", "Metadata")
        self._columns = columns_of(resource)
        self._header_sent = False

    def table_of(self, found: Object) -> Object:
        """An object or a list, as the resource shows them, as a table."""
        is_list = found["kind"] == f"{self._resource.kind}List" and "items" in found
        return self._table(found, found["items"] if is_list else [found], headed=True)

    def event_table(self, obj: Object) -> Object:
        """The object of a watch event; only the first event carries the column definitions."""
        headed, self._header_sent = not self._header_sent, True
        shown = self._resource.from_storage(obj)
        return self._table(shown, [shown], headed=headed)

    def _table(self, found: Object, objects: list[Object], *, headed: bool) -> Object:
        meta = found["metadata"]
        kept = ("resourceVersion", "continue", "remainingItemCount")
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {name: meta[name] for name in kept if name in meta},
            "columnDefinitions": self._column_definitions() if headed else None,
            "rows": [{"cells": self._cells(o), "object": self._row_object(o)} for o in objects],
        }

    def _column_definitions(self) -> list[Object]:
        return [
            {
                "name": column.name,
                "type": column.type,
                "format": "name" if column.name == "Name" else "",
                "description": "",
                "priority": column.priority,
            }
            for column in self._columns
        ]

    def _cells(self, obj: Object) -> list[Any]:
        if "name" not in obj["metadata"]:
            return [""] * len(self._columns)  # a bookmark
        now = self._now()
        return [column.cell(obj, now) for column in self._columns]

    def _row_object(self, obj: Object) -> Object | None:
        if self._include == "None":
            return None
        if self._include == "Object":
            return obj
        head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        return {**head, "metadata": obj["metadata"]}
