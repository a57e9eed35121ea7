"""Says once what is wrong, again after a while if it lasts, and once that it is over.

A scheduler without its rights fails in two dozen lists, and one that cannot reach the API server
fails in all that it does, again and again. One line a cause is enough, if it says what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, auto
from typing import Final

import structlog

from arranger.kube.client.problems import Problem, ProblemKind

log = structlog.get_logger(__name__)

#: Seconds that something has to last before it is told: what is over by then was nothing.
GRACE: Final = 2.0
#: Seconds after which the same problem is told again.
REPEAT: Final = 300.0
#: Details named in one line.
MAX_DETAILS: Final = 12

_REMEDIES: Final = {
    ProblemKind.UNREACHABLE: "is the API server up, and is this its address? `kubectl cluster-info`"
    " tells; --kubeconfig and --context name another",
    ProblemKind.UNRESOLVED: "mend the server's host name in the kubeconfig, or DNS",
    ProblemKind.UNTRUSTED: "in the kubeconfig, certificate-authority must be that of the server's"
    " certificate, which must name the host and be valid today",
    ProblemKind.UNAUTHORIZED: "renew the token, certificate or login of the kubeconfig;"
    " `kubectl auth whoami` tells whether it is good",
    ProblemKind.FORBIDDEN: "run as an account with {rights}: `kubectl apply -k manifests/` makes"
    " one",
    ProblemKind.NAMESPACE_MISSING: "`kubectl create namespace {namespace}`, or name another one in"
    " leaderElection.resourceNamespace of the configuration (--config)",
    ProblemKind.FAILING: "tried again; if it lasts, look into the API server's log",
}


class _Calm(Enum):
    """States that are no problems."""

    WORKING = auto()
    ABSENT = auto()


@dataclass(slots=True)
class _Source:
    """What is known of something that can fail, and what was said of it."""

    state: Problem | _Calm
    since: float
    told: Problem | _Calm = _Calm.WORKING
    told_at: float = 0.0

    def due(self) -> float:
        """When there is something to say."""
        if not _same(self.state, self.told):
            return self.since + GRACE
        return self.told_at + REPEAT if isinstance(self.state, Problem) else float("inf")


@dataclass(eq=False)
class ProblemLog:
    """A :class:`~arranger.kube.client.problems.ProblemReporter` that logs.

    Args:
        rights: where the rights are that our account needs.
        definitions: the resources that we have definitions of, in ``crds/<name>.yaml``.
    """

    rights: str
    definitions: Collection[str] = ()
    _: KW_ONLY
    _sources: dict[str, _Source] = field(default_factory=dict, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)

    def failed(self, source: str, problem: Problem) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        self._set(source, problem)

    def succeeded(self, source: str) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        if source in self._sources:
            self._set(source, _Calm.WORKING)

    def absent(self, source: str) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        self._set(source, _Calm.ABSENT)

    def readiness_error(self) -> str | None:
        """What has been failing for some time, if anything has."""
        limit = _now() - GRACE
        found = [
            str(source.state)
            for source in self._sources.values()
            if isinstance(source.state, Problem) and source.since <= limit
        ]
        return "; ".join(dict.fromkeys(found)) or None

    def _set(self, name: str, state: Problem | _Calm) -> None:
        source = self._sources.get(name)
        if source is None:
            source = self._sources[name] = _Source(state, _now())
        else:
            if not _same(source.state, state):
                source.since = _now()
            source.state = state
        self._arm()

    def _arm(self) -> None:
        due = min(source.due() for source in self._sources.values())
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
            self._timer = None
        if due != float("inf"):
            self._timer = asyncio.get_running_loop().call_at(due, self._tell)

    def _tell(self) -> None:
        """Say all that is due, one line a cause."""
        self._timer = None
        now = _now()
        absent: list[str] = []
        served: list[str] = []
        restored: list[str] = []
        problems: dict[tuple[ProblemKind, str], list[str]] = {}
        for name, source in sorted(self._sources.items()):
            # A timer may come early by the resolution of the clock.
            if source.due() > now + 1e-6:
                continue
            state, before = source.state, source.told
            source.told, source.told_at = state, now
            if isinstance(state, Problem):
                problems.setdefault((state.kind, state.what), []).append(state.detail)
            elif state is _Calm.ABSENT:
                absent.append(name)
            else:
                (served if before is _Calm.ABSENT else restored).append(name)
        for (kind, what), details in problems.items():
            self._tell_problem(Problem(kind, what, _enumerate(details)))
        if restored:
            log.info("api.restored", works=_enumerate(restored))
        if served:
            log.info("resources.served", resources=_enumerate(served))
        if absent:
            self._tell_absent(absent)
        self._arm()

    def _tell_problem(self, problem: Problem) -> None:
        remedy = _REMEDIES[problem.kind].format(rights=self.rights, namespace=problem.detail)
        write = log.warning if problem.kind is ProblemKind.FAILING else log.error
        write(f"api.{problem.kind}", problem=str(problem), remedy=remedy)

    def _tell_absent(self, absent: list[str]) -> None:
        """Of resources without a definition of ours there is nothing to say: the server is older
        or newer than they are."""
        definitions = {name: name.partition(" ")[0] for name in absent}
        ours = [name for name in absent if definitions[name] in self.definitions]
        if ours:
            needed = dict.fromkeys(definitions[name] for name in ours)
            files = " ".join(f"-f crds/{definition}.yaml" for definition in needed)
            log.info(
                "resources.absent",
                resources=", ".join(ours),
                remedy=f"fine unless you want them; then `kubectl apply --server-side {files}`",
            )
        others = [name for name in absent if name not in ours]
        if others:
            log.debug("resources.absent", resources=", ".join(others))


def _same(one: Problem | _Calm, other: Problem | _Calm) -> bool:
    if isinstance(one, Problem) and isinstance(other, Problem):
        # The words of what fails differ from one try to the next.
        return one.kind is other.kind and (one.kind is ProblemKind.FAILING or one == other)
    return one is other


def _enumerate(details: list[str]) -> str:
    named = list(dict.fromkeys(filter(None, details)))
    rest = len(named) - MAX_DETAILS
    return ", ".join(named[:MAX_DETAILS]) + (f" and {rest} more" if rest > 0 else "")


def _now() -> float:
    return asyncio.get_running_loop().time()
