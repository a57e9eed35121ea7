"""Which of two states of an object is the later one."""

from __future__ import annotations

from typing import Protocol

from arranger.kube.watch.reflector import is_newer


class ObjectVersion(Protocol):
    """What tells one state of an object from another."""

    @property
    def uid(self) -> str:
        """Of the object; another object of its name has another."""

    @property
    def resource_version(self) -> str:
        """Of this state."""


def is_stale(observed: ObjectVersion, known: ObjectVersion) -> bool:
    """Whether a state is the one that is known already, or an earlier one of the same object.

    Watches and the answers to our own writes tell of the same objects in any order.
    """
    newer = is_newer(observed.resource_version, known.resource_version)
    return observed.uid == known.uid and not newer
