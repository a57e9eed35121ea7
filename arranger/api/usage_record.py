"""What queues have used, as it is kept in a ConfigMap of the scheduler's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import nlargest
from operator import itemgetter
from typing import Final

import msgspec

from arranger.api.parsing.errors import ParseError, shown
from arranger.api.parsing.json_text import parse_json
from arranger.api.parsing.timestamps import parse_time

#: The entry of the ConfigMap.
USAGE_KEY: Final = "usage.json"
#: Queues and amounts that are kept: the largest. A ConfigMap holds a megabyte.
MAX_QUEUES: Final = 2000
MAX_AMOUNTS: Final = 64
_MAX_ELEMENTS: Final = 2 * MAX_QUEUES * (MAX_AMOUNTS + 2)
_LARGEST: Final = 1e30
_MAX_TEXT: Final = 900_000
_MAX_LENGTH: Final = 2**20


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """What queues had used at a time.

    Attributes:
        at: in seconds since 1970.
        sums: queue → resource or card → amount times seconds.
    """

    at: float
    sums: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def format_usage(record: UsageRecord) -> str:
    """The text of a record, of a bounded length: of too many queues those that used the least are
    left out."""
    at = datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds")
    queues = nlargest(
        MAX_QUEUES, record.sums, key=lambda q: max(record.sums[q].values(), default=0)
    )
    amounts = {
        queue: dict(nlargest(MAX_AMOUNTS, record.sums[queue].items(), key=itemgetter(1)))
        for queue in queues
    }
    while True:
        body = {"at": at.replace("+00:00", "Z"), "queues": amounts}
        text = msgspec.json.encode(body, order="sorted").decode()
        if len(text) <= _MAX_TEXT:
            return text
        for queue in queues[len(queues) // 2 :]:
            del amounts[queue]
        queues = queues[: len(queues) // 2]


def parse_usage(text: str) -> UsageRecord:
    """The record of a text.

    Raises:
        ParseError: it is no such record, be it in part.
    """
    body = parse_json(text, max_length=_MAX_LENGTH, max_elements=_MAX_ELEMENTS)
    if not isinstance(body, dict) or not isinstance(body.get("at"), str):
        raise ParseError(f"{shown(text)} is no record of what queues have used")
    queues = body.get("queues")
    if not isinstance(queues, dict):
        raise ParseError("queues: it is not an object from queue to amounts")
    for queue, amounts in queues.items():
        if not isinstance(amounts, dict):
            raise ParseError(f"queues: {shown(queue)}: it is not an object from resource to amount")
        for name, n in amounts.items():
            number = isinstance(n, int | float) and not isinstance(n, bool)
            if not number or not 0 <= n <= _LARGEST:
                raise ParseError(f"queues: {shown(queue)}: {shown(name)} is not an amount")
    return UsageRecord(parse_time(body["at"]).timestamp(), queues)
