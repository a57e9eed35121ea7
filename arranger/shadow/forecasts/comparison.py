"""What a change would do: one forecast of the cluster as it is, one with the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from arranger.api.effects import Eviction
from arranger.api.types.core import Pod
from arranger.shadow.forecasts.branch import Branch
from arranger.shadow.forecasts.changes import ClusterChange
from arranger.shadow.forecasts.forecast import Driver, Forecast
from arranger.shadow.inputs.objects import key_of


class PresentState(msgspec.Struct, frozen=True, rename="camel"):
    """What a forecast says, without the engine and the objects.

    Attributes:
        nodes: pod that waited (``namespace/name``) → the node it goes to.
        held: pod → the node that is kept for it until others of its gang have one.
        evicted: pod → why it has to leave its node.
        waiting: pod → why it still waits.
        replaced: pod that was evicted or deleted → the one that its controller makes in its place.
        unfinished: whether pods evict each other without an end.
    """

    nodes: dict[str, str]
    held: dict[str, str]
    evicted: dict[str, Eviction]
    waiting: dict[str, str]
    replaced: dict[str, str]
    unfinished: bool

    @classmethod
    def of(cls, told: Forecast) -> PresentState:
        """The same of a forecast."""
        return cls(
            dict(told.nodes),
            dict(told.held),
            dict(told.evicted),
            dict(told.waiting),
            dict(told.replaced),
            told.unfinished,
        )


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of pods with a change, where that differs from what becomes of them without.

    Attributes:
        changes: the changes, a line each.
        placed: pod → node, of those that would not be placed without.
        moved: pod → (node without, node with), of those that go elsewhere.
        evicted: pod → why, of those that stay without.
        spared: pods that are evicted without, and stay with the change.
        waiting: pod → why, of those that wait only with the change.
        still_waiting: pod → why, of those that wait either way.
        gone: pods that the change itself takes away.
        replaced: pod that is evicted or gone → the one that its controller makes in its place; that
            one is among those that are placed or wait.
        unfinished: whether pods evict each other without an end.
    """

    changes: list[str]
    placed: dict[str, str]
    moved: dict[str, tuple[str, str]]
    evicted: dict[str, str]
    spared: list[str]
    waiting: dict[str, str]
    still_waiting: dict[str, str]
    gone: list[str]
    replaced: dict[str, str]
    unfinished: bool


@dataclass(frozen=True, slots=True)
class Present:
    """Asks what the scheduler would do now."""

    kind: ClassVar[type[PresentState]] = PresentState

    def answer(self, driver: Driver) -> PresentState:
        """See :class:`~arranger.shadow.shadow.Question`."""
        return PresentState.of(driver.settle())


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Asks what changes would do, all made at once and in this order."""

    changes: Sequence[ClusterChange]
    kind: ClassVar[type[Difference]] = Difference

    def answer(self, driver: Driver) -> Difference:
        """See :class:`~arranger.shadow.shadow.Question`.

        Raises:
            ChangeError: a change does not apply.
            ObjectError: an object that it creates cannot be read.
        """
        without = Branch[PresentState].start(lambda: Present().answer(driver), PresentState)
        try:
            made = driver.change(self.changes)
            after = PresentState.of(driver.settle())
            before = without.result()
        finally:
            without.close()
        pods = [change for change in made if change.kind is Pod]
        gone = sorted(
            key_of(each.before)
            for each in pods
            if each.before is not None
            and (each.after is None or (_is_ending(each.after) and not _is_ending(each.before)))
        )
        added = {
            key_of(pod): pod.spec.node_name
            for each in pods
            if (pod := each.after) is not None and pod.spec.node_name and each.before is None
        }
        # Of those that are evicted either way it is known where they were.
        had = {key: why.node for key, why in (*before.evicted.items(), *after.evicted.items())}

        def was(key: str) -> str | None:
            at = None if key in before.evicted else had.get(key)
            return before.nodes.get(key, at)

        becomes = {**added, **after.nodes}
        return Difference(
            [change.text for change in self.changes],
            placed={key: node for key, node in becomes.items() if was(key) is None},
            moved={
                key: (at, node)
                for key, node in becomes.items()
                if (at := was(key)) is not None and at != node
            },
            evicted={
                key: why.reason for key, why in after.evicted.items() if key not in before.evicted
            },
            spared=sorted(before.evicted.keys() - after.evicted.keys() - set(gone)),
            waiting=_only(after.waiting, before.waiting),
            still_waiting={key: why for key, why in after.waiting.items() if key in before.waiting},
            gone=gone,
            replaced=_only(after.replaced, before.replaced),
            unfinished=before.unfinished or after.unfinished,
        )


def replacement_text(told: Difference, key: str) -> str:
    """What becomes of the pod that comes in the place of one; "" where none does."""
    again = told.replaced.get(key)
    if again is None:
        return ""
    node = told.placed.get(again) or (told.moved[again][1] if again in told.moved else "")
    name = again.rpartition("/")[2]
    return f"; comes back as {name}, {f'on node {node}' if node else 'which waits'}"


def _is_ending(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _only(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in one.items() if key not in other}
