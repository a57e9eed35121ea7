"""Cuts a world that breaks a rule down to what it takes to break it.

Parts are left out as in Zeller's delta debugging: halves first, then smaller parts, until none can
be left out: faults, events, objects, then fields of what is left. What remains is made simpler to
read: objects that need not come late are there at the start, and times are round::

    python -m tests.swarm --keep build/swarm
    python -m tests.swarm.shrink build/swarm/17.yaml > case.yaml
    python -m tests.swarm.shrink --seconds 600 --to build/swarm/cases build/swarm/*.yaml
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

import msgspec

from tests.swarm.case import write_case
from tests.swarm.judge import Violation
from tests.swarm.play import be_quiet, play
from tests.swarm.world import Event, Object, World, dump, load

T = TypeVar("T")

_SOME: Final = "…"
#: What stands in braces, and words with a number, a slash or a hyphen in them; one after another.
_VARIES: Final = re.compile(r"\{[^{}]*\}|[^\s,:;]*[\d/-][^\s,:;]*")
_SOME_MORE: Final = re.compile(rf"{_SOME}(?:,? (?:and )?{_SOME})+")
#: What an object cannot be without.
_IDENTITY: Final = frozenset(
    {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}
)


class Judge(Protocol):
    """Plays a world."""

    def __call__(self, world: World) -> Collection[str]:
        """What is wrong in it: the same texts whatever else is in it."""


class TriesUsedUpError(Exception):
    """The world is as small as it could be made with so many tries."""


@dataclass(slots=True, eq=False)
class Shrinker:
    """Makes a world smaller; nothing is wrong in it that was not before.

    Args:
        wrong: what has to stay wrong.
        tries: how many worlds may be played.

    Attributes:
        world: the smallest so far.
        minimal: whether nothing can be left out of it.
        played: how many worlds were played.
    """

    world: World
    wrong: str
    judge: Judge
    tries: int = 2000
    minimal: bool = field(default=False, init=False)
    played: int = field(default=0, init=False)
    _wrong_before: frozenset[str] = field(default=frozenset(), init=False)
    #: What is known of worlds, by their texts.
    _known: dict[str, bool] = field(default_factory=dict, init=False)

    def run(self) -> World:
        """The smallest world; :attr:`minimal` tells whether the tries were enough.

        Raises:
            ValueError: it is not wrong in this way.
        """
        self._wrong_before = frozenset(self.judge(self.world))
        if self.wrong not in self._wrong_before:
            raise ValueError(f"it is not so that {self.wrong!r}")
        try:
            before = ""
            while before != (before := dump(self.world)):
                for simplify in (
                    self._shorten_lists,
                    self._create_at_the_start,
                    self._end_earlier,
                    self._drop_settings,
                    self._drop_fields,
                    self._round_times,
                ):
                    simplify()
        except TriesUsedUpError:
            return self.world
        self.minimal = True
        return self.world

    # --- steps -------------------------------------------------------------------------------

    def _shorten_lists(self) -> None:
        for part in ("faults", "events", "objects"):
            kept = ddmin(getattr(self.world, part), lambda some, p=part: self._keep({p: some}))
            assert kept == getattr(self.world, part), "the last that was kept"

    def _create_at_the_start(self) -> None:
        """One at a time: an order of arrival may be what it is all about."""
        for event in [event for event in self.world.events if event.does == "create"]:
            events = tuple(each for each in self.world.events if each is not event)
            if len(events) < len(self.world.events):
                self._keep({"objects": (*self.world.objects, event.object), "events": events})

    def _end_earlier(self) -> None:
        """Nothing happens for long after the last event."""
        last = max((each.at for each in (*self.world.events, *self.world.faults)), default=0.0)
        for seconds in (last, last + 1, last + 30, (last + self.world.seconds) // 2):
            if seconds < self.world.seconds and self._keep({"seconds": float(seconds)}):
                return

    def _drop_settings(self) -> None:
        for path in _paths(self.world.config):
            if (smaller := _without(self.world.config, path)) is not None:
                self._keep({"config": smaller})
        ddmin(self.world.features, lambda some: self._keep({"features": some}))

    def _drop_fields(self) -> None:
        for number in range(len(self.world.objects)):
            self._drop_fields_of(
                lambda n=number: self.world.objects[n],
                lambda smaller, n=number: self._keep(
                    {"objects": _replaced(self.world.objects, n, smaller)}
                ),
            )
        for number, event in enumerate(self.world.events):
            what = "object" if event.does == "create" else "change"
            self._drop_fields_of(
                lambda n=number, w=what: getattr(self.world.events[n], w),
                lambda smaller, n=number, w=what: self._keep_event(n, {w: smaller}),
            )

    def _drop_fields_of(self, now: Callable[[], Object], keep: Callable[[Object], bool]) -> None:
        for path in _paths(now()):
            if path not in _IDENTITY and (smaller := _without(now(), path)) is not None:
                keep(smaller)

    def _round_times(self) -> None:
        for number, event in enumerate(self.world.events):
            if event.at != round(event.at):
                self._keep_event(number, {"at": float(round(event.at))})
        for number, fault in enumerate(self.world.faults):
            if fault.at != round(fault.at):
                rounded = msgspec.structs.replace(fault, at=float(round(fault.at)))
                self._keep({"faults": _replaced(self.world.faults, number, rounded)})

    # --- inside ------------------------------------------------------------------------------

    def _keep_event(self, number: int, change: dict[str, Any]) -> bool:
        event: Event = msgspec.structs.replace(self.world.events[number], **change)
        return self._keep({"events": _replaced(self.world.events, number, event)})

    def _keep(self, change: dict[str, Any]) -> bool:
        """Go on with a changed world if it breaks the rule as well; whether it does."""
        world = msgspec.structs.replace(self.world, **change)
        if not self._breaks(world):
            return False
        self.world = world
        return True

    def _breaks(self, world: World) -> bool:
        text = dump(world)
        known = self._known.get(text)
        if known is None:
            if self.played >= self.tries:
                raise TriesUsedUpError
            self.played += 1
            broken = set(self.judge(world))
            known = self._known[text] = self.wrong in broken and broken <= self._wrong_before
        return known


def ddmin(items: Sequence[T], keep: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """As few of the items as are enough for ``keep``, which is called with fewer and fewer."""
    items = tuple(items)
    if not items or keep(()):
        return ()
    size = len(items)
    while size > 1 or len(items) > 1:
        size = max(1, min(size, len(items)) // 2)
        start, shorter = 0, False
        while start < len(items):
            rest = (*items[:start], *items[start + size :])
            if rest and keep(rest):
                items, shorter = rest, True
            else:
                start += size
        if size == 1 and not shorter:
            break
    return items


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All keys and places within a value, what is above before what is in it; lists backwards."""
    if isinstance(value, dict):
        places: list[Any] = list(value)
    elif isinstance(value, list | tuple):
        places = list(range(len(value)))[::-1]
    else:
        return
    for place in places:
        yield (*path, place)
        yield from _paths(value[place], (*path, place))


def _without(value: Any, path: tuple[Any, ...]) -> Any:
    """The value without what is at a path; None if nothing is there any more."""
    place, *rest = path
    if isinstance(value, dict):
        if place not in value:
            return None
        if not rest:
            return {key: each for key, each in value.items() if key != place}
        inner = _without(value[place], tuple(rest))
        return None if inner is None else {**value, place: inner}
    if not isinstance(value, list | tuple) or place >= len(value):
        return None
    before, after = list(value[:place]), list(value[place + 1 :])
    if not rest:
        return [*before, *after]
    inner = _without(value[place], tuple(rest))
    return None if inner is None else [*before, inner, *after]


def _replaced(items: tuple[T, ...], number: int, item: T) -> tuple[T, ...]:
    return (*items[:number], item, *items[number + 1 :])


def main() -> int:
    """Shrink worlds; 1 if all is well in one of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.swarm.shrink", description=__doc__)
    parser.add_argument("worlds", type=Path, nargs="+", help="files that --keep wrote, or cases")
    parser.add_argument(
        "--rule", help="the rule that it has to go on breaking; default: the first that it does"
    )
    parser.add_argument("--tries", type=int, default=2000, help="how many worlds may be played")
    parser.add_argument("--seconds", type=float, default=math.inf, help="how long for each")
    parser.add_argument("--to", type=Path, help="a folder for the cases; default: they are printed")
    options = parser.parse_args()
    be_quiet()
    well = [path for path in options.worlds if not _shrink(path, options)]
    return int(bool(well))


def _shrink(path: Path, options: argparse.Namespace) -> bool:
    """Shrink one world; whether anything is wrong in it."""
    world = load(path.read_text(encoding="utf-8"))
    violations = play(world).violations
    wrong = next((each for each in violations if options.rule in (None, each.rule)), None)
    if wrong is None:
        sys.stderr.write(f"{path}: nothing is wrong in this world\n")
        return False
    until = perf_counter() + options.seconds

    def judge(smaller: World) -> Collection[str]:
        if perf_counter() > until and smaller is not world:
            raise TriesUsedUpError
        return what_is_wrong(smaller)

    shrinker = Shrinker(world, sentence_of(wrong), judge, options.tries)
    small = shrinker.run()
    found = [str(each) for each in play(small).violations]
    case = write_case(small, found, minimal=shrinker.minimal)
    if options.to is None:
        sys.stdout.write(case)
    else:
        options.to.mkdir(parents=True, exist_ok=True)
        (options.to / path.name).write_text(case, encoding="utf-8")
    sys.stderr.write(f"{path}: {shrinker.played} worlds played\n")
    return True


def what_is_wrong(world: World) -> Collection[str]:
    """The sentences about a world that is played; none where it is not even a world."""
    try:
        return {sentence_of(each) for each in play(world).violations}
    except Exception:  # an object lacks what those need who play the rest of the cluster
        return ()


def sentence_of(violation: Violation) -> str:
    """What is wrong without names, numbers and lists, which differ from world to world.

    One rule may be broken in several ways, and a smaller world is to be wrong in the same one.
    """
    words = _VARIES.sub(_SOME, violation.text)
    return f"{violation.rule}: {_SOME_MORE.sub(_SOME, words)}"


if __name__ == "__main__":
    sys.exit(main())
