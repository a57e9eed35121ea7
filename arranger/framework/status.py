"""A plugin's answer about a pod, and the data it keeps between its extension points."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Code(Enum):
    """Those codes of kube-scheduler's framework that a :class:`Status` can have; values as printed.

    Success is None, and waiting is an answer of its own (``Wait``).
    """

    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    SKIP = "Skip"


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's answer about a pod: a code, the reasons, and the plugin that gave it.

    ``UNRESOLVABLE`` says that removing other pods would not help, so preemption is not tried.
    With an ``event_reason`` the pod gets an event of that reason, beside the usual one.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    event_reason: str = ""

    @property
    def rejected(self) -> bool:
        """Whether the pod cannot go on."""
        return self.code in (Code.ERROR, Code.UNSCHEDULABLE, Code.UNRESOLVABLE)

    def message(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.reasons)


SKIP = Status(Code.SKIP)


class CycleState(dict[str, Any]):
    """Data that plugins keep for their own later extension points, by plugin name.

    Pods of one equivalence class share the state of their evaluation, so what is written here may
    depend only on what these pods have in common.
    """
