"""What keeps requests from being done, in words for the person who has to mend it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

#: kube-apiserver's words for a missing right.
_FORBIDDEN: Final = re.compile(
    r'(User "[^"]*") cannot (\w+) resource "([^"]*)" in API group "([^"]*)"'
    r'(?: in the namespace "([^"]*)")?'
)


class ProblemKind(StrEnum):
    """The kinds of problems; the log has an event for each, ``api.forbidden`` for example."""

    #: No connection comes about.
    UNREACHABLE = "unreachable"
    #: The server's name has no address.
    UNRESOLVED = "unresolved"
    #: TLS: one side does not trust the other.
    UNTRUSTED = "untrusted"
    #: 401.
    UNAUTHORIZED = "unauthorized"
    #: 403.
    FORBIDDEN = "forbidden"
    #: The namespace to write into does not exist.
    NAMESPACE_MISSING = "namespace_missing"
    #: Anything else; mostly the server's own trouble, and over before somebody looks.
    FAILING = "failing"


_STATUS_KINDS: Final = {401: ProblemKind.UNAUTHORIZED, 403: ProblemKind.FORBIDDEN}


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    Attributes:
        what: what is wrong; the same for all that suffers from the same.
        detail: what cannot be done for it; "" where that is everything.
    """

    kind: ProblemKind
    what: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}" if self.detail else self.what


class ProblemReporter(Protocol):
    """Hears what works and what does not."""

    def failed(self, source: str, problem: Problem) -> None:
        """What ``source`` tried last did not work."""

    def succeeded(self, source: str) -> None:
        """What ``source`` tried last did work."""

    def absent(self, source: str) -> None:
        """The server does not serve the resource ``source``, which is fine."""


class IgnoreProblems:
    """Tells nobody."""

    def failed(self, source: str, problem: Problem) -> None:
        """See :class:`ProblemReporter`."""

    def succeeded(self, source: str) -> None:
        """See :class:`ProblemReporter`."""

    def absent(self, source: str) -> None:
        """See :class:`ProblemReporter`."""


IGNORE_PROBLEMS: Final = IgnoreProblems()


def problem_of_answer(code: int, message: str, source: str = "") -> Problem:
    """The problem that an answer shows: its HTTP status and the message of its ``Status``.

    ``source``: what was asked for, where the message does not tell.
    """
    kind = _STATUS_KINDS.get(code, ProblemKind.FAILING)
    if kind is ProblemKind.UNAUTHORIZED:
        return Problem(kind, "the API server does not accept our credentials (401)")
    if kind is ProblemKind.FORBIDDEN:
        if (found := _FORBIDDEN.search(message)) is None:
            return Problem(kind, f"forbidden (403): {message}".rstrip(": "), source)
        user, verb, resource, group, namespace = found.groups()
        where = f" in {namespace}" if namespace else ""
        name = f"{resource}.{group}" if group else resource
        return Problem(kind, f"forbidden (403): {user} has no right to", f"{verb} {name}{where}")
    return Problem(kind, f"the API server answers {code} {message}".rstrip(), source)


def missing_right(code: int, message: str, source: str) -> Problem | None:
    """The right that a refused write lacks, in whatever namespace; None if it lacks none.

    An admission plugin refuses single objects with the same 403, a terminating namespace for
    example, and that is no trouble of ours.
    """
    problem = problem_of_answer(code, message, source)
    if problem.kind is ProblemKind.UNAUTHORIZED:
        return problem
    if problem.kind is ProblemKind.FORBIDDEN and _FORBIDDEN.search(message):
        return Problem(problem.kind, problem.what, problem.detail.partition(" in ")[0])
    return None


def resource_name(path: str) -> str:
    """What a collection's path leads to: ``podgroups.scheduling.x-k8s.io``, ``pods in team``."""
    group, namespace, rest = _parts(path)
    if not rest:
        return path
    name = f"{rest[0]}.{group}" if group else rest[0]
    return f"{name} in {namespace}" if namespace else name


def resource_with_subresource(path: str) -> str:
    """What rights call the object at a path: ``pods/binding``, ``gangs/status.arranger.io``."""
    group, _, rest = _parts(path)
    name = "/".join([*rest[:1], *rest[2:3]])
    return f"{name}.{group}" if group else name


def _parts(path: str) -> tuple[str, str, list[str]]:
    """Group, namespace, and what follows them."""
    parts = path.strip("/").split("/")
    group, rest = (
        (parts[1], parts[3:]) if parts[0] == "apis" and len(parts) > 1 else ("", parts[2:])
    )
    if len(rest) > 2 and rest[0] == "namespaces":
        return group, rest[1], rest[2:]
    return group, "", rest
