"""Gangs: who is in which, what each needs, and that none is left in pieces.

A gang is read from its pods and its PodGroup in every dialect but that of owners. Where its pods
disagree on a minimum the least counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.specification.manifests import (
    Object,
    is_leaving,
    labels_of,
    name_of,
    node_of,
    notes_of,
)
from tests.specification.premises import Premises
from tests.specification.trace import PODS, Step, World

_GANG, _BUNDLE = "gang.scheduling.koordinator.sh/", "gang.koordinater.io/"
_SIGS, _X = "pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group"
_VOLCANO = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_TASK = "volcano.sh/task-spec"
_MINIMUMS = (_GANG + "min-available", _SIGS + "/min-available")

#: Dialect → the resource of its PodGroups.
POD_GROUPS = {
    "native": "scheduling.k8s.io/podgroups",
    "sigs": "scheduling.sigs.k8s.io/podgroups",
    "x": "scheduling.x-k8s.io/podgroups",
    "volcano": "scheduling.volcano.sh/podgroups",
}


def gang_of(pod: Object) -> tuple[str, str]:
    """(``namespace/name`` of the gang that a pod says it is in or "", the dialect)."""
    labels, notes = labels_of(pod), notes_of(pod)
    native = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    found = [
        ("native", native),
        ("sigs", labels.get(_SIGS) or labels.get(_SIGS + "/name")),
        ("x", labels.get(_X)),
        *(("", notes.get(key)) for key in (_GANG + "name", _SIGS, _SIGS + "/name")),
        ("", notes.get(_BUNDLE + "name")),
        *(("volcano", notes.get(key)) for key in _VOLCANO),
    ]
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
    """Whether a member counts as bound: with a node, not failed, not leaving."""
    failed = (pod.get("status") or {}).get("phase") == "Failed"
    return bool(node_of(pod)) and not failed and not is_leaving(pod)


@dataclass(slots=True)
class Gang:
    """What is known of a gang.

    Attributes:
        members: uid → pod.
        begun: since when some are bound and too few, by our own Bindings or evictions alone.
        whole: whether it has had its minimum since none was bound.
        torn: whether somebody else has bound, taken or edited members of it since.
        needed: what it needed, and with which gangs, when it was looked at last.
    """

    name: str
    members: dict[str, Object] = field(default_factory=dict)
    begun: float | None = None
    whole: bool = False
    torn: bool = False
    needed: tuple[dict[str, int], set[str]] = field(default_factory=lambda: ({}, set()))

    def needs(self, world: World) -> dict[str, int]:
        """Role → how many of it must be bound; "" stands for all."""
        group: Object | None = None
        said: dict[str, list[int]] = {}
        for pod in self.members.values():
            group = group or group_of(world, pod)
            for key in _MINIMUMS:
                _add(said, "", notes_of(pod).get(key))
            if _BUNDLE + "minRequiredNumber" in notes_of(pod):
                role = role_of(pod, gang_of(pod)[1])
                _add(said, role, notes_of(pod)[_BUNDLE + "minRequiredNumber"])
        least = {role: min(numbers) for role, numbers in said.items()}
        if group is not None:
            own: dict[str, list[int]] = {}
            policy = (group["spec"].get("schedulingPolicy") or {}).get("gang") or {}
            for key in _MINIMUMS:
                _add(own, "", notes_of(group).get(key))
            if not own:
                _add(own, "", policy.get("minCount", group["spec"].get("minMember")))
            for role, n in (group["spec"].get("minTaskMember") or {}).items():
                _add(own, role, n)
            least = {role: min(numbers) for role, numbers in own.items()} | least
        return least

    def partners(self, world: World) -> set[str]:
        """The gangs that its pods, or its PodGroup, name as those that start with it."""
        found: set[str] = set()
        groups = (group_of(world, pod) for pod in self.members.values())
        for each in [*self.members.values(), *(g for g in groups if g is not None)]:
            for key in ("groups", "gang-groups"):
                try:
                    found.update(json.loads(notes_of(each).get(_GANG + key) or "[]"))
                except (ValueError, TypeError):
                    continue
        return found - {self.name}

    def bound(self) -> Counter[str]:
        """Role → how many of it are bound, "" for all."""
        roles = [role_of(p, gang_of(p)[1]) for p in self.members.values() if stands(p)]
        return Counter(roles) + Counter({"": sum(role != "" for role in roles)})

    def has_its_minimum(self, world: World) -> bool:
        """Whether enough of each role are bound."""
        have = self.bound()
        return all(have[role] >= n for role, n in self.needs(world).items())

    def describe(self, world: World) -> str:
        """For a sentence about it."""
        return f"{dict(self.bound())} of {self.needs(world)}"


def _add(to: dict[str, list[int]], role: str, said: object) -> None:
    try:
        to.setdefault(role, []).append(max(0, int(str(said))))
    except ValueError:
        if not to.get(role):
            to.pop(role, None)


@dataclass(slots=True)
class GangBook:
    """All gangs, step by step."""

    premises: Premises
    gangs: dict[str, Gang] = field(default_factory=dict)
    _of: dict[str, str] = field(default_factory=dict)

    def take(self, world: World, step: Step, *, ours: bool) -> Iterator[str]:
        """A step that the world has taken; yields what gangs were in pieces for too long.

        No gang is bound in part for longer than ``bind_seconds`` by our doing: from its first
        Binding to the last that its minimum needs, and from the first eviction that leaves it with
        less to the last of its members. Gangs that start together count as one.
        """
        if step.resource in POD_GROUPS.values() and name_of(step.after) in self.gangs:
            yield from self._look(world, self.gangs[name_of(step.after)], step.at, ours=False)
        if step.resource != PODS:
            return
        uid, name = step.after["metadata"]["uid"], gang_of(step.after)[0]
        there = step.kind != "DELETED"
        if (old := self._of.get(uid, "")) and (old != name or not there):
            gang = self.gangs[old]
            was = gang.members.pop(uid)
            del self._of[uid]
            yield from self._look(
                world, gang, step.at, ours=ours and there is False, moved=stands(was)
            )
            if not gang.members:
                del self.gangs[old]
        if name and there:
            gang = self.gangs.setdefault(name, Gang(name))
            known = gang.members.get(uid)
            gang.members[uid], self._of[uid] = step.after, name
            moved = (known is not None and stands(known)) != stands(step.after)
            yield from self._look(world, gang, step.at, ours=ours, moved=moved)

    def together(self, world: World, gang: Gang) -> list[Gang]:
        """The gang and those that start with it, as far as they are there."""
        names = sorted({gang.name, *gang.partners(world)})
        return [self.gangs[name] for name in names if name in self.gangs]

    def _look(
        self, world: World, changed: Gang, at: float, *, ours: bool, moved: bool = False
    ) -> Iterator[str]:
        needs = changed.needs(world), changed.partners(world)
        edited, changed.needed = needs != changed.needed, needs
        if not (moved or edited):
            return
        group = self.together(world, changed)
        complete = len(group) == len(needs[1]) + 1 and all(g.has_its_minimum(world) for g in group)
        if complete or not any(gang.bound() for gang in group):
            yield from self._overdue(world, group, at)
        for gang in group:
            if complete or not any(each.bound() for each in group):
                gang.begun, gang.whole, gang.torn = None, complete, False
            elif moved and ours:
                gang.begun = at if gang.begun is None else gang.begun
            elif any(each.bound() for each in group):
                gang.torn = True

    def _overdue(self, world: World, group: list[Gang], at: float) -> Iterator[str]:
        for gang in group:
            if gang.begun is None or gang.torn or gang.name in self.premises.torn_gangs:
                continue
            if at - gang.begun > self.premises.bind_seconds:
                took = f"{at - gang.begun:.3g} s"
                yield f"gang {gang.name} was in pieces for {took}, now {gang.describe(world)}"

    def in_pieces(self, world: World) -> Iterator[str]:
        """At rest no gang is in pieces by our doing."""
        yield from self._overdue(world, list(self.gangs.values()), float("inf"))

    def is_in_part(self, pod: Object) -> bool:
        """Whether a pod's gang has never been bound whole, so that its pods may be taken back."""
        gang = self.gangs.get(self._of.get(pod["metadata"]["uid"], ""))
        return gang is not None and not gang.whole
