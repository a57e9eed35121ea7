"""Gangs: who is in which, what each needs, and since when it is in pieces.

A gang is read from its pods and its PodGroup in every dialect but that of owners. Where its pods
disagree on a minimum the least counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tests.specification.premises import Premises
from tests.specification.trace import PODS, Step, World
from tests.specification.vocabulary.manifests import (
    Object,
    is_leaving,
    is_told_its_time_is_over,
    labels_of,
    name_of,
    node_of,
    notes_of,
)

_GANG, _BUNDLE = "gang.scheduling.koordinator.sh/", "gang.koordinater.io/"
_SIGS, _X = "pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group"
_VOLCANO = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_TASK = "volcano.sh/task-spec"
#: Of gangs that start together; see the guide to gangs.
_MOST_NAMES = 1000
_MINIMUMS = (_GANG + "min-available", _SIGS + "/min-available")

#: Dialect → the resource of its PodGroups.
POD_GROUPS = {
    "native": "scheduling.k8s.io/podgroups",
    "sigs": "scheduling.sigs.k8s.io/podgroups",
    "x": "scheduling.x-k8s.io/podgroups",
    "volcano": "scheduling.volcano.sh/podgroups",
}
_RESOURCES = frozenset(POD_GROUPS.values())


def gang_of(pod: Object) -> tuple[str, str]:
    """(``namespace/name`` of the gang that a pod says it is in or "", the dialect)."""
    labels, notes = labels_of(pod), notes_of(pod)
    native = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    if not (labels or notes or native):
        return "", ""
    found = (
        ("native", native),
        ("sigs", labels.get(_SIGS) or labels.get(_SIGS + "/name")),
        ("x", labels.get(_X)),
        *(("", notes.get(key)) for key in (_GANG + "name", _SIGS, _SIGS + "/name")),
        ("", notes.get(_BUNDLE + "name")),
        *(("volcano", notes.get(key)) for key in _VOLCANO),
    )
    for dialect, name in found:
        if name:
            return f"{pod['metadata']['namespace']}/{name}", dialect
    return "", ""


def role_of(pod: Object, dialect: str) -> str:
    """Its bundle, or its task of a Volcano Job."""
    if _BUNDLE + "name" in notes_of(pod):
        return notes_of(pod).get(_BUNDLE + "bundleName", "")
    task = notes_of(pod).get(_TASK) or labels_of(pod).get(_TASK, "")
    return task if dialect == "volcano" else ""


def group_of(world: World, pod: Object) -> Object | None:
    """The PodGroup of a pod, if there is one."""
    gang, dialect = gang_of(pod)
    return world.get(POD_GROUPS[dialect], gang) if dialect else None


def stands(pod: Object) -> bool:
    """Whether a member counts as bound: it has a node or has succeeded, and is not leaving."""
    phase = (pod.get("status") or {}).get("phase")
    has_node = phase == "Succeeded" or (bool(node_of(pod)) and phase != "Failed")
    return has_node and not is_leaving(pod)


def lives(pod: Object) -> bool:
    """Whether a member that counts as bound has not ended: who has ended cannot leave any more."""
    return stands(pod) and (pod.get("status") or {}).get("phase") != "Succeeded"


def _is_the_same_member(before: Object, after: Object) -> bool:
    """Whether nothing has changed of what a gang is made up of."""
    return bool(
        labels_of(before) == labels_of(after)
        and notes_of(before) == notes_of(after)
        and before["spec"].get("schedulingGroup") == after["spec"].get("schedulingGroup")
        and (stands(before), lives(before)) == (stands(after), lives(after))
    )


@dataclass(frozen=True, slots=True)
class Member:
    """What a pod says of its gang, and whether it is bound.

    Attributes:
        minimums: (role, how many of it must be bound).
        groups: texts that list the gangs that start together.
    """

    dialect: str
    role: str
    stands: bool
    lives: bool
    minimums: tuple[tuple[str, int], ...]
    groups: tuple[str, ...]


def member(pod: Object, dialect: str) -> Member:
    """A pod as a member of its gang."""
    notes, role = notes_of(pod), role_of(pod, dialect)
    asked = [("", notes.get(key)) for key in _MINIMUMS]
    asked.append((role, notes.get(_BUNDLE + "minRequiredNumber")))
    minimums = tuple((role, n) for role, text in asked if (n := count_in(text)) is not None)
    return Member(dialect, role, stands(pod), lives(pod), minimums, _groups_of(pod))


def _groups_of(obj: Object) -> tuple[str, ...]:
    texts = (notes_of(obj).get(_GANG + key) for key in ("groups", "gang-groups"))
    return tuple(text for text in texts if text)


def count_in(said: object) -> int | None:
    """A number of pods, in ASCII digits; none that is beyond 64 bits is one."""
    text = str(said)
    try:
        number = max(0, int(text if text.isascii() else ""))
    except ValueError:
        return None
    return number if number < 1 << 63 else None


@lru_cache(maxsize=1024)
def names_in(text: str) -> frozenset[str]:
    """The gangs in the value of an annotation; none where it is no list of them, or too long."""
    try:
        names = json.loads(text)
        is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
        return frozenset(names) if is_list and len(names) <= _MOST_NAMES else frozenset()
    except (ValueError, RecursionError):
        return frozenset()


@dataclass(slots=True)
class Gang:
    """What is known of a gang.

    Attributes:
        members: by uid; what they say is counted, as a gang may be large.
        begun: since when some are bound and too few, by our own Bindings or evictions alone.
        whole: whether it has had its minimum since none was bound.
        torn: whether somebody else has bound, taken or edited members of it since.
        needed: what it needed, and with which gangs, when it was looked at last.
        had_all_until: when it came to need more than had arrived, or minus infinity: who had been
            given a node before is bound without the others.
    """

    name: str
    members: dict[str, Member] = field(default_factory=dict)
    begun: float | None = None
    whole: bool = False
    torn: bool = False
    needed: tuple[dict[str, int], set[str]] = field(default_factory=lambda: ({}, set()))
    had_all_until: float = float("-inf")
    said: Counter[tuple[str, object]] = field(default_factory=Counter)

    def put(self, uid: str, now: Member | None) -> bool:
        """A member is so from now on, or is gone; returns whether it was bound before."""
        was = self.members.pop(uid, None)
        for each, sign in ((was, -1), (now, 1)):
            if each is None:
                continue
            facts: list[tuple[str, object]] = [("dialect", each.dialect)]
            facts += [("bound", each.role), ("bound all", "")] if each.stands else []
            facts += [("lives", "")] if each.lives else []
            facts += [("minimum", least) for least in each.minimums]
            facts += [("groups", text) for text in each.groups]
            for fact in facts:
                self.said[fact] += sign
                if not self.said[fact]:
                    del self.said[fact]
        if now is not None:
            self.members[uid] = now
        return was is not None and was.stands

    def _all_said(self, what: str) -> list[Any]:
        return [value for kind, value in self.said if kind == what]

    def pod_group(self, world: World) -> Object | None:
        """Its PodGroup, if there is one."""
        dialects = self._all_said("dialect")
        found = (world.get(POD_GROUPS[d], self.name) for d in sorted(dialects) if d)
        return next((group for group in found if group is not None), None)

    def needs(self, world: World) -> dict[str, int]:
        """Role → how many of it must be bound; "" stands for all."""
        least: dict[str, int] = {}
        for role, n in self._all_said("minimum"):
            least[role] = min(n, least.get(role, n))
        group = self.pod_group(world)
        if group is None:
            return least
        notes, spec = notes_of(group), group["spec"]
        policy = (spec.get("schedulingPolicy") or {}).get("gang") or {}
        stated = [n for key in _MINIMUMS if (n := count_in(notes.get(key))) is not None]
        of_all = min(stated) if stated else count_in(policy.get("minCount", spec.get("minMember")))
        own = {} if of_all is None else {"": of_all}
        roles = {role: count_in(n) or 0 for role, n in (spec.get("minTaskMember") or {}).items()}
        return {**own, **roles, **least}

    def partners(self, world: World) -> set[str]:
        """The gangs that its pods, or its PodGroup, name as those that start with it."""
        group = self.pod_group(world)
        texts = [*self._all_said("groups"), *(() if group is None else _groups_of(group))]
        return set().union(*map(names_in, texts)) - {self.name}

    def bound(self) -> Counter[str]:
        """Role → how many of it are bound, "" for all."""
        have = Counter({role: n for (kind, role), n in self.said.items() if kind == "bound"})
        have[""] = self.said["bound all", ""]
        return +have

    @property
    def lives(self) -> bool:
        """Whether any of those that are bound has not ended."""
        return bool(self.said["lives", ""])

    def has_its_minimum(self, world: World) -> bool:
        """Whether enough of each role are bound."""
        have = self.bound()
        return all(have[role] >= n for role, n in self.needs(world).items())

    def has_all(self, needs: dict[str, int]) -> bool:
        """Whether as many have arrived as these needs say, of which there are some."""
        there = Counter(each.role for each in self.members.values())
        there[""] = len(self.members)
        return bool(needs) and all(there[role] >= n for role, n in needs.items())

    def describe(self, world: World) -> str:
        """For a sentence about it."""
        return f"{dict(self.bound())} of {self.needs(world)}"


@dataclass(frozen=True, slots=True)
class Parts:
    """Gangs that start together, as they were until a moment; they need not have been in pieces.

    Attributes:
        until: when they came to be whole, or to be bound not at all; infinite for those at rest.
    """

    world: World
    premises: Premises
    gangs: list[Gang]
    until: float

    def in_pieces(self) -> Iterator[tuple[Gang, float, str]]:
        """Those that were, for how long, and how they are now."""
        for gang in self.gangs:
            if gang.begun is not None:
                yield gang, self.until - gang.begun, gang.describe(self.world)


@dataclass(slots=True)
class GangBook:
    """All gangs, step by step."""

    premises: Premises
    gangs: dict[str, Gang] = field(default_factory=dict)
    _of: dict[str, str] = field(default_factory=dict)
    #: uid → the pod as it was the last time.
    _seen: dict[str, Object] = field(default_factory=dict)

    def take(self, world: World, step: Step, *, ours: bool) -> Iterator[list[Gang]]:
        """A step that the world has taken; yields what comes to be whole or gone, as it was.

        That one of a gang may run no longer is not our doing: its owner has said so.
        """
        ours = ours and not is_told_its_time_is_over(step.after)
        if step.resource in _RESOURCES and name_of(step.after) in self.gangs:
            yield from self._look(world, self.gangs[name_of(step.after)], step.at, ours=False)
        if step.resource != PODS:
            return
        uid, there = step.after["metadata"]["uid"], step.kind != "DELETED"
        seen = self._seen.pop(uid, None)
        if there:
            self._seen[uid] = step.after
            if seen is not None and _is_the_same_member(seen, step.after):
                return
        name, dialect = gang_of(step.after)
        if (old := self._of.get(uid, "")) and (old != name or not there):
            gang = self.gangs[old]
            was = gang.put(uid, None)
            del self._of[uid]
            yield from self._look(world, gang, step.at, ours=ours and not there, moved=was)
            if not gang.members:
                del self.gangs[old]
        if name and there:
            gang = self.gangs.setdefault(name, Gang(name))
            now = member(step.after, dialect)
            if gang.members.get(uid) == now:
                return
            self._of[uid] = name
            moved = gang.put(uid, now) != now.stands
            if not moved and not gang.lives:
                yield from self._end(gang)  # the last of those that were left has ended by itself
            yield from self._look(world, gang, step.at, ours=ours, moved=moved)

    def _together(self, world: World, gang: Gang) -> list[Gang]:
        """The gang and those that start with it, as far as they are there."""
        names = sorted({gang.name, *gang.partners(world)})
        return [self.gangs[name] for name in names if name in self.gangs]

    def _look(
        self, world: World, changed: Gang, at: float, *, ours: bool, moved: bool = False
    ) -> Iterator[list[Gang]]:
        needs = changed.needs(world), changed.partners(world)
        edited = needs != changed.needed
        if edited and changed.has_all(changed.needed[0]):
            changed.had_all_until = at
        changed.needed = needs
        if not (moved or edited):
            return
        group = self._together(world, changed)
        complete = len(group) == len(needs[1]) + 1 and all(g.has_its_minimum(world) for g in group)
        some_are_bound = any(gang.lives for gang in group)
        if complete or not some_are_bound:
            yield group
        for gang in group:
            if complete or not some_are_bound:
                # Whoever is bound before anybody has said how many are needed is a part.
                gang.whole = complete and (gang.whole or bool(gang.needs(world)))
                gang.begun, gang.torn = None, False
            elif moved and ours and at - changed.had_all_until > self.premises.bind_seconds:
                gang.begun = at if gang.begun is None else gang.begun
            else:
                gang.torn = True

    def _end(self, gang: Gang) -> Iterator[list[Gang]]:
        """Nobody of it can leave any more; of gangs that start together the others may."""
        if gang.begun is not None:
            yield [gang]
            gang.begun = None

    def is_in_part(self, pod: Object) -> bool:
        """Whether a pod's gang has never been bound whole, so that its pods may be taken back."""
        gang = self.gangs.get(self._of.get(pod["metadata"]["uid"], ""))
        return gang is not None and not gang.whole
