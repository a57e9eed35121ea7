"""What the judges of all kinds share: where objects come from, and fields that all kinds have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

Object = dict[str, Any]


class Server(Protocol):
    """Has objects; the embedded server does."""

    def objects(self, plural: str, group: str = "") -> list[Object]:
        """All objects of a resource."""
        ...


def differ(name: str, have: object, must: object) -> Iterator[str]:
    """Complains of a field that is not what it must be."""
    if have != must:
        yield f"{name} is {have!r} and must be {must!r}"


def absent(said: Mapping[str, Any], *names: str) -> Iterator[str]:
    """Complains of fields that nobody writes."""
    for name in names:
        yield from differ(name, said.get(name), None)


def in_order(name: str, times: Iterable[str | None], now: datetime) -> Iterator[str]:
    """Complains of times that do not follow each other, or that are to come; None is skipped."""
    known = [datetime.fromisoformat(time) for time in times if time is not None]
    if sorted(known) != known or any(time > now for time in known):
        yield f"{name}: times out of order: {[time.isoformat() for time in known]}"


def by_type(conditions: Iterable[Object] | None) -> dict[str, Object]:
    """The conditions by their type."""
    return {condition.get("type", ""): condition for condition in conditions or ()}


def condition_faults(
    conditions: Iterable[Object] | None,
    must: Mapping[str, tuple[str, str, Iterable[str]]],
    *,
    since: str,
    now: datetime,
    generation: Mapping[str, int] | None = None,
) -> Iterator[str]:
    """What is untrue in conditions.

    Args:
        must: type → status, reason, and the messages that it may have.
        since: the creation of the object, before which no condition began.
        generation: type → the generation that it must have been worked out from.
    """
    found = by_type(conditions)
    yield from differ("conditions", sorted(found), sorted(must))
    for kind in found.keys() & must.keys():
        said, (status, reason, messages) = found[kind], must[kind]
        yield from differ(f"{kind}.status", said.get("status"), status)
        yield from differ(f"{kind}.reason", said.get("reason") or "", reason)
        if (message := said.get("message") or "") not in messages:
            yield f"{kind} says {message!r} and must say one of {sorted(messages)}"
        yield from differ(
            f"{kind}.observedGeneration",
            said.get("observedGeneration"),
            (generation or {}).get(kind),
        )
        yield from absent(said, "transitionID")
        if "lastTransitionTime" not in said:
            yield f"{kind} does not say since when"
        yield from in_order(kind, [since, said.get("lastTransitionTime")], now)
