"""A timeline on a terminal: alike happenings of one moment in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.table import Column, Table

from arranger.api.listing import first_names
from arranger.cli.simulation.timeline import Happening

#: Lines that a terminal shows; who wants all of them asks for JSON.
_MOST: Final = 200
#: What follows from what is shown: a pod that is bound starts, one that is to go is gone, a gang
#: whose pods come is about to be looked at.
_IMPLIED: Final = frozenset({"Started", "Gone", "PreScheduling"})


@dataclass(slots=True)
class Moment:
    """Happenings of one kind, at one time, to objects of one owner, or of none."""

    at: float
    what: str
    owner: str
    kind: str
    names: list[str] = field(default_factory=list)
    nodes: Counter[str] = field(default_factory=Counter)
    note: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether it says more than others do: a gang that waits does if it is known why."""
        return self.what not in _IMPLIED and bool(self.what != "Scheduling" or self.note)

    def told(self) -> str:
        """Whom it happened to."""
        if self.kind == "Pod" and self.owner and len(self.names) > 1:
            return f"{len(self.names)} pods of {self.owner}"
        return f"{self.kind} {first_names(self.names, 4)}"

    def details(self) -> str:
        """Where, and why."""
        places = [f"{node} ({count})" if count > 1 else node for node, count in self.nodes.items()]
        where = first_names(places, 4)
        return f"{where}: {self.note}" if where and self.note else where or self.note


def moments(happenings: Sequence[Happening]) -> Iterator[Moment]:
    """The happenings in their order, those of one second and owner that are alike together."""
    found: dict[tuple[int, str, str, str], Moment] = {}
    for each in happenings:
        owner = "" if each.owner == f"{each.kind} {each.name}" else each.owner
        key = (int(each.at), owner, each.kind, each.what)
        moment = found.setdefault(key, Moment(each.at, each.what, owner, each.kind))
        moment.names.append(each.name)
        if each.node:
            moment.nodes[each.node] += 1
        moment.note = moment.note or each.note
    yield from found.values()


def timeline_table(happenings: Sequence[Happening]) -> tuple[Table, int]:
    """The table, and how many lines it leaves out."""
    shown = [m for m in moments(happenings) if m.is_shown]
    table = Table("time", "what", Column("who", overflow="fold"), Column("", overflow="fold"))
    for each in shown[:_MOST]:
        table.add_row(clock(each.at), each.what, each.told(), each.details())
    return table, max(0, len(shown) - _MOST)


def timeline_lines(happenings: Sequence[Happening]) -> Iterator[str]:
    """The same a line each, to follow it."""
    for each in moments(happenings):
        if each.is_shown:
            details = f"  {each.details()}" if each.details() else ""
            yield f"{clock(each.at)}  {each.what:<13}  {each.told()}{details}"


def clock(seconds: float) -> str:
    """``0:00:07``, ``2d 03:00:00``."""
    days, rest = divmod(int(seconds), 86_400)
    hours, minutes, left = rest // 3600, rest // 60 % 60, rest % 60
    return (
        f"{days}d {hours:02}:{minutes:02}:{left:02}" if days else f"{hours}:{minutes:02}:{left:02}"
    )
