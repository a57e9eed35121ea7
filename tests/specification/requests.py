"""What a scheduler may ask of an API server, whether or not that does it: as an audit log shows it.

The server refuses many a wrong request, so that no object ever shows it. A pod for which a second
node is asked keeps its first one, and its scheduler has counted it twice meanwhile. Who has not
been answered, or only that something went wrong, does not know what has become of a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from tests.specification.manifests import Object, name_of, node_of
from tests.specification.premises import Premises
from tests.specification.trace import PODS, Step

_POD: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)(/binding|/eviction)?")
_PODS: Final = "/api/v1/pods"
#: What an answer says of a Binding: nothing, as for none at all (0); to be read in the pod; else
#: that it is done, or never will be.
_CONFLICT, _SAYS_NOTHING = 409, (401, 403, 410, 429)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to bind, to evict or to read one pod, or to list all of them.

    Attributes:
        by: the process that asks.
        pod: ``namespace/name``.
        uid: which pod of this name is meant; "" where the request leaves that open.
        node: where it is to be bound.
        number: which request it is, where more than one of a process may be under way.
    """

    by: str
    verb: Literal["bind", "evict", "read", "list"]
    pod: str
    uid: str
    node: str = ""
    number: int = field(default=0, compare=False)

    @staticmethod
    def read(by: str, method: str, path: str, body: Callable[[], Object | None]) -> Asked | None:
        """A request, if it is one of these; ``body`` is called for these only."""
        if method == "GET" and path == _PODS:
            return Asked(by, "list", "", "")
        found = _POD.fullmatch(path) if method in ("POST", "DELETE", "GET") else None
        if found is None:
            return None
        pod, part = f"{found[1]}/{found[2]}", found[3]
        if method == "GET":
            return Asked(by, "read", pod, "")
        said = body() or {}
        if part == "/binding":
            uid = (said.get("metadata") or {}).get("uid", "")
            return Asked(by, "bind", pod, uid, (said.get("target") or {}).get("name", ""))
        options = said.get("deleteOptions") or {} if part else said
        return Asked(by, "evict", pod, (options.get("preconditions") or {}).get("uid", ""))


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A Binding of which a process cannot know whether it is done.

    Attributes:
        why: it was ``lost``; or there was a ``conflict``, and the pod is to be read; or it is read.
        reading: the number of the request that reads it.
    """

    asked: Asked
    why: Literal["lost", "conflict", "read"]
    reading: int = 0


@dataclass(slots=True)
class RequestBook:
    """Judges what schedulers ask for by what they must know then.

    Attributes:
        violations: (rule, what was wrong).
    """

    premises: Premises
    violations: list[tuple[str, str]] = field(default_factory=list)
    #: uid → which pod that is, its node, and since when.
    _bound: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    #: (process, uid) → the node for which the server has done what the process asked.
    _done: dict[tuple[str, str], str] = field(default_factory=dict)
    #: (process, uid, verb) of requests that were answered with success.
    _told: set[tuple[str, str, str]] = field(default_factory=set)
    #: (process, pod, number) → when it began to read the pod. Several parts of a process read one.
    _reading: dict[tuple[str, str, int], float] = field(default_factory=dict)
    #: (process, uid) of pods that a process has read, on their nodes.
    _read: set[tuple[str, str]] = field(default_factory=set)
    #: (process, uid) → the node of a Binding that no answer has told the end of yet.
    _unsaid: dict[tuple[str, str], str] = field(default_factory=dict)
    #: (process, pod) → a Binding that it cannot know the end of.
    _doubts: dict[tuple[str, str], _Doubt] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """The server has changed an object."""
        if step.resource != PODS:
            return
        uid = step.after["metadata"].get("uid", "")
        if step.kind == "DELETED":
            self._bound.pop(uid, None)
        elif step.is_bind or (step.before is None and node_of(step.after)):
            self._bound[uid] = name_of(step.after), node_of(step.after), step.at

    def sent(self, asked: Asked, now: float) -> None:
        """A process asks; its request may be refused, late or lost."""
        if asked.by not in self.premises.schedulers:
            return
        if asked.verb == "list":  # whoever begins anew has forgotten what it asked for before
            self._doubts = {key: each for key, each in self._doubts.items() if key[0] != asked.by}
        doubt = self._doubts.get((asked.by, asked.pod))
        if asked.verb == "read" and doubt is not None and doubt.why == "conflict":
            self._doubts[asked.by, asked.pod] = replace(doubt, why="read", reading=asked.number)
        if asked.verb in ("list", "read"):
            self._reading[asked.by, asked.pod, asked.number] = now
            return
        for rule in (
            self.a_pod_is_meant_by_its_uid,
            self.a_pod_is_asked_for_once,
            self.nothing_is_asked_on_doubt,
        ):
            if rule.__name__ not in self.premises.unjudged:
                self.violations += ((rule.__name__, text) for text in rule(asked, now))
        if asked.verb == "bind":
            self._unsaid[asked.by, asked.uid] = asked.node

    def done(self, asked: Asked) -> None:
        """The server has done what was asked."""
        if asked.verb == "bind":
            self._done[asked.by, asked.uid] = asked.node

    def told(self, asked: Asked, status: int = 200) -> None:
        """The process hears what has become of it; 0 where it hears nothing any more."""
        key, doubt = (asked.by, asked.pod), self._doubts.get((asked.by, asked.pod))
        if asked.verb == "read":
            since = self._reading.pop((*key, asked.number), float("-inf"))
            explains = doubt is not None and (doubt.why, doubt.reading) == ("read", asked.number)
            for uid, (pod, node, bound_at) in self._bound.items() if status == 200 else ():
                if pod != asked.pod or bound_at >= since:
                    continue
                if not explains:
                    self._read.add((asked.by, uid))
                elif doubt is not None and (uid, node) == (doubt.asked.uid, doubt.asked.node):
                    self._told.add((asked.by, uid, "bind"))
            if status in (200, 404) and doubt is not None and explains:
                self._unsaid.pop((asked.by, doubt.asked.uid), None)
                del self._doubts[key]
            return
        if 200 <= status < 300:
            self._told.add((asked.by, asked.uid, asked.verb))
        if asked.verb == "bind" and 0 < status < 500 and status not in (_CONFLICT, *_SAYS_NOTHING):
            self._unsaid.pop((asked.by, asked.uid), None)
        if asked.verb == "bind" and status not in _SAYS_NOTHING:
            self._doubts.pop(key, None)
            if status in (0, _CONFLICT) or status >= 500:
                self._doubts[key] = _Doubt(asked, "conflict" if status == _CONFLICT else "lost")

    # --- rules -------------------------------------------------------------------------------

    def a_pod_is_meant_by_its_uid(self, asked: Asked, now: float) -> Iterator[str]:
        """Who is bound or evicted is the pod that was decided about, not another of its name."""
        if not asked.uid:
            yield f"at {now:g} s: {asked.by} asks to {asked.verb} {asked.pod} without its uid"

    def a_pod_is_asked_for_once(self, asked: Asked, now: float) -> Iterator[str]:
        """No second node is asked for a pod, and nothing again that was done.

        The same may be repeated until an answer tells what has become of it, whatever another part
        of the process has read meanwhile; after a conflict it is the pod that tells, read for that.
        A conflict with somebody else's Binding ends an attempt, as in kube-scheduler. The next one
        is of the pod as the watch shows it, which may be late by as much as any news.
        """
        about = f"at {now:g} s: {asked.by} asks to {asked.verb} {asked.pod}"
        if (asked.by, asked.uid, asked.verb) in self._told:
            yield f"{about}, which it has been told is done"
        elif asked.verb == "bind":
            done = self._done.get((asked.by, asked.uid), asked.node)
            _, node, since = self._bound.get(asked.uid, ("", "", now))
            if done != asked.node:
                yield f"{about} to {asked.node}, and has bound it to {done}"
            elif node == asked.node == self._unsaid.get((asked.by, asked.uid)):
                return
            elif node and (asked.by, asked.uid) in self._read:
                yield f"{about} to {asked.node}, and has read that it is on {node}"
            elif node and now - since >= self.premises.notice:
                yield f"{about} to {asked.node}, which is on {node} for {now - since:g} s"

    def nothing_is_asked_on_doubt(self, asked: Asked, now: float) -> Iterator[str]:
        """On doubt no other node is asked for, and after a conflict the pod is read first."""
        doubt = self._doubts.get((asked.by, asked.pod))
        if asked.verb != "bind" or doubt is None or doubt.asked.uid != asked.uid:
            return
        about = f"at {now:g} s: {asked.by} asks to bind {asked.pod} to {asked.node}"
        if doubt.asked.node != asked.node:
            yield f"{about}, and cannot know whether it is bound to {doubt.asked.node}"
        elif doubt.why == "conflict":
            yield f"{about} after a conflict, and has not looked at the pod"


__all__ = ["Asked", "RequestBook"]
