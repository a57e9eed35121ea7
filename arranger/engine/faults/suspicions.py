"""Which object other than a pod is to blame when attempts raise: one that the accused share.

A pod that makes an attempt raise is taken out at once. Where the fault is that of something it was
held against, such as a node, all pods would be taken out like that, one after another. So whatever
our code was busy with beside the pod is noted as a suspect. A suspect that enough others accuse is
convicted: it is set aside in their place, and they are tried again.

That is an experiment. If one of them finds its place then, the object was to blame. Whoever raises
all the same, with another object, accuses that one at once. But whoever raises whatever is set
aside, or has no place without it, proves nothing: what only such pods accuse is acquitted, and they
are believed no more. So an accuser of ill will costs others a few objects for a moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from arranger.api.quarantine import QuarantineKey

#: Faults that one accuser alone must meet with an object until that is convicted.
FAULTS_OF_ONE: Final = 4
#: Suspects, and accusers that are believed no more, beyond which all of them are forgotten.
_MAX_NOTED: Final = 4096
#: Objects of a kind that may be convicted at the same time, Nodes apart.
MAX_CONVICTED: Final = 16


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a fault.

    Attributes:
        convicted: this object is to be set aside; None for none.
        released: those set aside that are to be tried again, as the convicted one is to blame.
        acquitted: these objects were not to blame, and count again.
    """

    convicted: QuarantineKey | None = None
    released: tuple[QuarantineKey, ...] = ()
    acquitted: tuple[QuarantineKey, ...] = ()


@dataclass(slots=True)
class _Suspect:
    """An object that our code was busy with when it raised.

    Attributes:
        accusers: those that it was busy with, too; how often each.
        passed_before: how many attempts had gone well when it was first accused.
    """

    passed_before: int
    accusers: Counter[QuarantineKey] = field(default_factory=Counter)


@dataclass(slots=True, eq=False)
class Suspicions:
    """Weighs who is accused by whom; decides, and does nothing.

    Args:
        most: how many objects of a kind may be convicted at once.
    """

    most: Callable[[str], int]
    _suspects: dict[QuarantineKey, _Suspect] = field(default_factory=dict, init=False)
    #: Convicted object → the accusers that its conviction is to help.
    _convicted: dict[QuarantineKey, set[QuarantineKey]] = field(default_factory=dict, init=False)
    #: Those of them without which an accuser has found its place.
    _proven: set[QuarantineKey] = field(default_factory=set, init=False)
    #: Accusers that have proved nothing.
    _unreliable: set[QuarantineKey] = field(default_factory=set, init=False)
    _passed: int = field(default=0, init=False)

    def __bool__(self) -> bool:
        return bool(self._suspects or self._convicted or self._unreliable)

    def convicted(self) -> list[QuarantineKey]:
        """The objects that have been convicted, and not been cleared since."""
        return list(self._convicted)

    def on_fault(
        self, accusers: Sequence[QuarantineKey], objects: Sequence[QuarantineKey]
    ) -> Verdict:
        """Our code has raised, busy with these: the innermost of the objects first."""
        believed = [each for each in accusers if each not in self._unreliable]
        if not believed:
            return Verdict()
        tried = self._convicted_by(believed)
        if tried:
            return self._go_on(believed, tried, objects)
        if len(self._suspects) > _MAX_NOTED:
            self._suspects.clear()
        for key in objects:
            suspect = self._suspects.setdefault(key, _Suspect(self._passed))
            suspect.accusers.update(believed)
        for key in objects:
            if self._suffices(key) and self._has_room(key):
                return self._convict(key)
        return Verdict()

    def on_passed(self, accuser: QuarantineKey, *, placed: bool) -> tuple[QuarantineKey, ...]:
        """An attempt for it did not raise, and perhaps found a place; returns who is acquitted."""
        tried = self._convicted_by([accuser])
        if not placed:
            return self._give_up([accuser], tried) if tried else ()
        self._passed += 1
        self._unreliable.discard(accuser)
        self._proven.update(tried)
        for key in tried:
            self._convicted[key].discard(accuser)
        return ()

    def forget(self, key: QuarantineKey) -> None:
        """An object counts again, or is gone."""
        self._convicted.pop(key, None)
        self._proven.discard(key)
        self._suspects.pop(key, None)

    def _convicted_by(self, accusers: Iterable[QuarantineKey]) -> list[QuarantineKey]:
        wanted = set(accusers)
        return [key for key, helped in self._convicted.items() if helped & wanted]

    def _go_on(
        self,
        accusers: Sequence[QuarantineKey],
        tried: Sequence[QuarantineKey],
        objects: Sequence[QuarantineKey],
    ) -> Verdict:
        """Those for whom others were convicted raise again: with the next, or with any."""
        kinds = {kind for kind, _, _ in tried}
        again = [key for key in objects if key in tried]
        for key in again or (key for key in objects if key[0] in kinds):
            if again or self._has_room(key):
                self._suspects.setdefault(key, _Suspect(self._passed)).accusers.update(accusers)
                return self._convict(key)
        return Verdict(acquitted=self._give_up(accusers, tried))

    def _give_up(
        self, accusers: Sequence[QuarantineKey], tried: Sequence[QuarantineKey]
    ) -> tuple[QuarantineKey, ...]:
        if len(self._unreliable) > _MAX_NOTED:
            self._unreliable.clear()
        self._unreliable.update(accusers)
        for key in tried:
            self._convicted[key].difference_update(accusers)
        acquitted = [key for key in tried if not self._convicted[key] and key not in self._proven]
        for key in acquitted:
            self.forget(key)
        return tuple(acquitted)

    def _suffices(self, key: QuarantineKey) -> bool:
        if key in self._convicted:
            return True
        suspect = self._suspects[key]
        accusers = suspect.accusers
        if max(accusers.values()) >= FAULTS_OF_ONE:
            return True
        if len(accusers) < 2:
            return False
        # Who only has one namespace hurts nobody else while attempts of others go well.
        namespaces = {namespace for _, namespace, _ in accusers}
        others_wait = suspect.passed_before == self._passed
        return others_wait or len(namespaces) > 1 or namespaces == {key[1]}

    def _has_room(self, key: QuarantineKey) -> bool:
        kind = key[0]
        return key in self._convicted or (
            sum(other[0] == kind for other in self._convicted) < self.most(kind)
        )

    def _convict(self, key: QuarantineKey) -> Verdict:
        accusers = set(self._suspects.pop(key).accusers)
        self._convicted.setdefault(key, set()).update(accusers)
        return Verdict(convicted=key, released=tuple(sorted(accusers)))
