"""Which gangs are placed together.

Gangs, also of several namespaces, form a group when each names the others. Both must do so: a gang
cannot make another wait by naming it. See ``docs/design/gang-scheduling.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Final

from arranger.gangs.gang import Gang
from arranger.gangs.group import GangGroup

_NOBODY: Final[Set[str]] = frozenset()


class GroupIndex:
    """The groups of all gangs, formed when they are asked for.

    Methods that take events return the names of the gangs whose group may be another now.

    Args:
        gangs: every gang by name; the registry keeps it current.
    """

    def __init__(self, gangs: Mapping[str, Gang]) -> None:
        self._gangs = gangs
        #: Gang → its group, for those that were asked for since it last changed.
        self._groups: dict[str, GangGroup] = {}
        #: Gang → the gangs it names, and the other way round, whether or not these exist.
        self._names: dict[str, frozenset[str]] = {}
        self._named_by: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._groups) + len(self._names) + len(self._named_by)

    def group_of(self, gang: Gang) -> GangGroup:
        """The group a gang is placed with."""
        group = self._groups.get(gang.name)
        if group is None:
            group = self._form(gang)
            for member in group.gangs:
                self._groups[member.name] = group
        return group

    def on_gang_created(self, name: str) -> None:
        """There is a gang of that name now, for which others may have waited."""
        self._invalidate({name, *self._named_by.get(name, ())})

    def on_settings_changed(self, gang: Gang) -> set[str]:
        """A gang may name others than before: its group, and those it leaves or joins, change."""
        names = {gang.name, *(gang.settings.groups or ()), *self._named_by.get(gang.name, ())}
        known = self._groups.get(gang.name)
        if known is not None:
            names |= known.gang_names
        self._index(gang)
        self._invalidate(names)
        return names & self._gangs.keys()

    def on_gang_deleted(self, gang: Gang) -> set[str]:
        """A gang has lost its last pod; it and the gangs that were grouped with it."""
        self._unindex(gang)
        partners = self._groups.get(gang.name, GangGroup(())).gang_names
        partners |= self._named_by.get(gang.name, set()) | {gang.name}
        self._invalidate(partners)
        return partners

    def check_consistent(self) -> None:
        """Check that every group is one of gangs that exist.

        Raises:
            AssertionError: one is not.
        """
        for name, group in self._groups.items():
            assert any(gang.name == name for gang in group.gangs), f"{name} is not in its group"
            exist = all(self._gangs.get(gang.name) is gang for gang in group.gangs)
            assert exist, f"{name}: grouped with a gang that is gone"

    # --- inside ----------------------------------------------------------------------------

    def _index(self, gang: Gang) -> None:
        now = frozenset(gang.settings.groups or ())
        if now != self._names.get(gang.name, frozenset()):
            self._unindex(gang)
            self._names[gang.name] = now
            for name in now:
                self._named_by.setdefault(name, set()).add(gang.name)

    def _unindex(self, gang: Gang) -> None:
        for name in self._names.pop(gang.name, ()):
            self._named_by[name].discard(gang.name)
            if not self._named_by[name]:
                del self._named_by[name]

    def _invalidate(self, names: Iterable[str]) -> None:
        for name in names:
            group = self._groups.pop(name, None)
            for member in group.gangs if group is not None else ():
                self._groups.pop(member.name, None)

    def _form(self, gang: Gang) -> GangGroup:
        members: dict[str, Gang] = {}
        missing: set[str] = set()
        todo = [gang]
        while todo:
            one = todo.pop()
            if one.name in members:
                continue
            members[one.name] = one
            named = self._names.get(one.name, _NOBODY)
            if named:
                # Of hundreds that name each other nothing is done for each pair.
                partners = named & self._named_by.get(one.name, _NOBODY)
                missing |= named - partners - {one.name}
                todo += (self._gangs[name] for name in partners - members.keys())
        gangs = tuple(members[name] for name in sorted(members))
        return GangGroup(gangs, tuple(sorted(missing)))
