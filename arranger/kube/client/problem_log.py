"""Says once what is wrong, again after a while if it lasts, and once that it is over.

A scheduler without its rights fails in two dozen lists, and one that cannot reach the API server
fails in all that it does, again and again. One line a cause is enough, if it says what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, auto
from math import inf
from typing import Final

import structlog

from arranger.api.listing import first_names
from arranger.kube.client.problems import Problem, ProblemKind

log = structlog.get_logger(__name__)

#: Seconds that something has to last before it is told: what is over by then was nothing.
GRACE: Final = 2.0
#: Seconds after which the same problem is told again.
REPEAT: Final = 300.0
#: Details named in one line.
MAX_DETAILS: Final = 20

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
    #: When each problem was told, since all was well.
    told_at: dict[object, float] = field(default_factory=dict)

    def due(self, grace: float) -> float:
        """When there is something to say."""
        settled = self.since + grace
        if isinstance(self.state, Problem):
            return max(settled, self.told_at.get(_key(self.state), -REPEAT) + REPEAT)
        return inf if self.state is self.told else settled

    def tell(self, now: float) -> None:
        """What is known has been said."""
        self.told = self.state
        if isinstance(self.state, Problem):
            self.told_at[_key(self.state)] = now
        else:
            self.told_at.clear()


@dataclass(eq=False)
class ProblemLog:
    """A :class:`~arranger.kube.client.problems.ProblemReporter` that logs.

    Args:
        rights: where the rights are that our account needs.
        definitions: the resources that we have definitions of, in ``crds/<name>.yaml``.
        grace: seconds that something has to last before it is told.
    """

    rights: str
    definitions: Collection[str] = ()
    _: KW_ONLY
    grace: float = GRACE
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
        limit = _now() - self.grace
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
            if _key(source.state) != _key(state):
                source.since = _now()
            source.state = state
        self._arm()

    def _due(self) -> dict[str, float]:
        """When there is something to say of which source."""
        #: What is wrong now → when that was said last.
        causes: dict[tuple[ProblemKind, str], float] = {}
        for source in self._sources.values():
            if isinstance(state := source.state, Problem):
                cause, told_at = _cause(state), source.told_at.get(_key(state), -inf)
                causes[cause] = max(causes.get(cause, -inf), told_at)
        return {name: self._due_of(source, causes) for name, source in self._sources.items()}

    def _due_of(self, source: _Source, causes: Mapping[tuple[ProblemKind, str], float]) -> float:
        match source.state, source.told:
            case Problem() as state, _ if state.kind is not ProblemKind.FORBIDDEN:
                # It suffers from what was said of others; but rights are named one by one.
                return max(source.due(self.grace), causes[_cause(state)] + REPEAT)
            case _Calm.WORKING, Problem() as told if _cause(told) in causes:
                # Said once all works again that had failed for the same cause.
                return inf
        return source.due(self.grace)

    def _arm(self) -> None:
        due = min(self._due().values())
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
            self._timer = None
        if due != inf:
            self._timer = asyncio.get_running_loop().call_at(due, self._tell)

    def _tell(self) -> None:
        """Say all that is due, one line a cause."""
        self._timer = None
        now = _now()
        absent: list[str] = []
        served: list[str] = []
        restored: list[str] = []
        problems: dict[tuple[ProblemKind, str], list[str]] = {}
        for name, due in sorted(self._due().items()):
            source = self._sources[name]
            # What has begun later has the same cause, and one line has room for it.
            slack = 0.0 if _key(source.state) is ProblemKind.FAILING else self.grace
            if due > now + slack:
                continue
            state, before = source.state, source.told
            source.tell(now)
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
            files = ",".join(needed) if len(needed) == 1 else f"{{{','.join(needed)}}}"
            log.info(
                "resources.absent",
                resources=", ".join(ours),
                remedy="fine unless you want them; then"
                f" `kubectl apply --server-side -f crds/{files}.yaml`",
            )
        others = [name for name in absent if name not in ours]
        if others:
            log.debug("resources.absent", resources=", ".join(others))


def _key(state: Problem | _Calm) -> object:
    """What makes a state another one: the words of what fails differ from try to try."""
    failing = isinstance(state, Problem) and state.kind is ProblemKind.FAILING
    return ProblemKind.FAILING if failing else state


def _cause(problem: Problem) -> tuple[ProblemKind, str]:
    return problem.kind, problem.what


def _enumerate(details: list[str]) -> str:
    return first_names(list(dict.fromkeys(filter(None, details))), MAX_DETAILS)


def _now() -> float:
    return asyncio.get_running_loop().time()
