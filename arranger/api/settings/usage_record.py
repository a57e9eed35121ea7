"""What queues have used, as it is kept in a ConfigMap of the scheduler's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from operator import itemgetter
from typing import Final, TypeGuard

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
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """What queues had used at a time.

    Attributes:
        at: in seconds since 1970.
        half_life: in seconds.
        sums: queue → resource or card → amount times seconds.
    """

    at: float
    half_life: float
    sums: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def scaled_to(self, half_life: float) -> dict[str, dict[str, float]]:
        """The sums of the same use on average with another half-life."""
        factor = half_life / self.half_life
        return {q: {name: n * factor for name, n in each.items()} for q, each in self.sums.items()}

    def means(self) -> dict[str, dict[str, float]]:
        """Queue → what it had used on average, by resource or card."""
        return self.scaled_to(math.log(2))


def format_usage(record: UsageRecord) -> str:
    """The text of a record, of a bounded length: of too many queues those that used the least are
    left out."""
    at = (_EPOCH + timedelta(seconds=record.at)).isoformat(timespec="milliseconds")
    most = {queue: max(amounts.values(), default=0) for queue, amounts in record.sums.items()}
    queues = nlargest(MAX_QUEUES, most, key=lambda queue: most[queue])
    amounts = {
        queue: dict(nlargest(MAX_AMOUNTS, record.sums[queue].items(), key=itemgetter(1)))
        for queue in queues
    }
    while True:
        body = {
            "at": at.replace("+00:00", "Z"),
            "halfLifeSeconds": record.half_life,
            "queues": amounts,
        }
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
    half_life = body.get("halfLifeSeconds")
    if not _is_number(half_life) or not 1 <= half_life <= _LARGEST:
        raise ParseError("halfLifeSeconds: it is not a number of seconds")
    queues = body.get("queues")
    if not isinstance(queues, dict):
        raise ParseError("queues: it is not an object from queue to amounts")
    for queue, amounts in queues.items():
        if not isinstance(amounts, dict):
            raise ParseError(f"queues: {shown(queue)}: it is not an object from resource to amount")
        for name, n in amounts.items():
            if not _is_number(n) or not 0 <= n <= _LARGEST:
                raise ParseError(f"queues: {shown(queue)}: {shown(name)} is not an amount")
    return UsageRecord(parse_time(body["at"]).timestamp(), half_life, queues)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
