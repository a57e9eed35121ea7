"""What the core tells of its attempts while it makes them, and who would rather not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

from arranger.api.types.core import Pod

#: What is known of an attempt when it begins.
AttemptAttributes = Mapping[str, str | int]


class Tracer(Protocol):
    """Follows scheduling attempts. None of its methods raises or waits for anything."""

    def attempt(self, describe: Callable[[], AttemptAttributes]) -> AbstractContextManager[object]:
        """One attempt is made inside; ``describe`` is only called for one that is followed."""

    def step(self, name: str) -> None:
        """The present attempt begins a step, and ends the one before; "" only ends that."""

    def long_step(self, name: str) -> AbstractContextManager[object]:
        """One step of the present attempt passes inside, and what it is made of is not told."""

    def record_result(self, pod: Pod, node: str, result: str, reason: str) -> None:
        """The present attempt has ended for a pod; ``node`` is "" without one."""

    def begin_binding(self, pod: Pod, node: str) -> None:
        """What has to be written for a placed pod is about to be."""

    def mark_binding(self, pod: Pod, event: str) -> None:
        """The binding of a pod has come so far."""

    def end_binding(self, pod: Pod, result: str, reason: str = "") -> None:
        """The binding of a pod, if one is on its way, has ended."""


_NOTHING: Final = nullcontext()


class _NoTracer:
    """Follows nothing."""

    def attempt(self, describe: Callable[[], AttemptAttributes]) -> AbstractContextManager[object]:
        return _NOTHING

    def step(self, name: str) -> None:
        pass

    def long_step(self, name: str) -> AbstractContextManager[object]:
        return _NOTHING

    def record_result(self, pod: Pod, node: str, result: str, reason: str) -> None:
        pass

    def begin_binding(self, pod: Pod, node: str) -> None:
        pass

    def mark_binding(self, pod: Pod, event: str) -> None:
        pass

    def end_binding(self, pod: Pod, result: str, reason: str = "") -> None:
        pass


NO_TRACER: Final[Tracer] = _NoTracer()
