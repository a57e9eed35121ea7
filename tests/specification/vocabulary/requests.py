"""What processes ask of an API server, what has become of it, and what they have heard of that."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from tests.specification.premises import Premises
from tests.specification.trace import PODS, Step
from tests.specification.vocabulary.manifests import Object, name_of, node_of

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
class Doubt:
    """A Binding of which a process cannot know whether it is done.

    Attributes:
        why: it was ``lost``; or there was a ``conflict``, and the pod is to be read; or it is read.
        reading: the number of the request that reads it.
    """

    asked: Asked
    why: Literal["lost", "conflict", "read"]
    reading: int = 0

    @property
    def node(self) -> str:
        return self.asked.node


@dataclass(slots=True)
class Memory:
    """Remembers what was asked, done and heard."""

    #: uid → which pod that is, its node, and since when.
    bound: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    #: (process, uid) → the node for which the server has done what the process asked.
    done_to: dict[tuple[str, str], str] = field(default_factory=dict)
    #: (process, uid, verb) of requests that were answered with success.
    told_so: set[tuple[str, str, str]] = field(default_factory=set)
    #: (process, pod, number) → when it began to read the pod. Several parts of a process read one.
    _reading: dict[tuple[str, str, int], float] = field(default_factory=dict)
    #: (process, uid) of pods that a process has read, on their nodes.
    has_read: set[tuple[str, str]] = field(default_factory=set)
    #: (process, uid) → the node of a Binding that no answer has told the end of yet.
    unsaid: dict[tuple[str, str], str] = field(default_factory=dict)
    #: (process, pod) → a Binding that it cannot know the end of.
    doubts: dict[tuple[str, str], Doubt] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """The server has changed an object."""
        if step.resource != PODS:
            return
        uid = step.after["metadata"].get("uid", "")
        if step.kind == "DELETED":
            self.bound.pop(uid, None)
        elif step.is_bind or (step.before is None and node_of(step.after)):
            self.bound[uid] = name_of(step.after), node_of(step.after), step.at

    def reads(self, asked: Asked, now: float) -> None:
        """A process asks for one pod or for all; its request may be refused, late or lost."""
        if asked.verb == "list":  # whoever begins anew has forgotten what it asked for before
            self.doubts = {key: each for key, each in self.doubts.items() if key[0] != asked.by}
        doubt = self.doubts.get((asked.by, asked.pod))
        if asked.verb == "read" and doubt is not None and doubt.why == "conflict":
            self.doubts[asked.by, asked.pod] = replace(doubt, why="read", reading=asked.number)
        self._reading[asked.by, asked.pod, asked.number] = now

    def writes(self, asked: Asked) -> None:
        """A process asks to bind or to evict a pod; the same may become of that."""
        if asked.verb == "bind":
            self.unsaid[asked.by, asked.uid] = asked.node

    def done(self, asked: Asked) -> None:
        """The server has done what was asked."""
        if asked.verb == "bind":
            self.done_to[asked.by, asked.uid] = asked.node

    def told(self, asked: Asked, status: int = 200) -> None:
        """The process hears what has become of it; 0 where it hears nothing any more."""
        key, doubt = (asked.by, asked.pod), self.doubts.get((asked.by, asked.pod))
        if asked.verb == "read":
            since = self._reading.pop((*key, asked.number), float("-inf"))
            explains = doubt is not None and (doubt.why, doubt.reading) == ("read", asked.number)
            for uid, (pod, node, bound_at) in self.bound.items() if status == 200 else ():
                if pod != asked.pod or bound_at >= since:
                    continue
                if not explains:
                    self.has_read.add((asked.by, uid))
                elif doubt is not None and (uid, node) == (doubt.asked.uid, doubt.asked.node):
                    self.told_so.add((asked.by, uid, "bind"))
            if status in (200, 404) and doubt is not None and explains:
                self.unsaid.pop((asked.by, doubt.asked.uid), None)
                del self.doubts[key]
            return
        if 200 <= status < 300:
            self.told_so.add((asked.by, asked.uid, asked.verb))
        if asked.verb == "bind" and 0 < status < 500 and status not in (_CONFLICT, *_SAYS_NOTHING):
            self.unsaid.pop((asked.by, asked.uid), None)
        if asked.verb == "bind" and status not in _SAYS_NOTHING:
            self.doubts.pop(key, None)
            if status in (0, _CONFLICT) or status >= 500:
                self.doubts[key] = Doubt(asked, "conflict" if status == _CONFLICT else "lost")


@dataclass(eq=False, slots=True)
class Request:
    """A process asks to bind or to evict a pod, knowing what it does."""

    memory: Memory
    premises: Premises
    asked: Asked
    now: float

    @property
    def uid(self) -> str:
        """Which pod of its name is meant, "" where that is left open."""
        return self.asked.uid

    @property
    def node(self) -> str:
        """Where it is to be bound, "" where it is evicted."""
        return self.asked.node

    @property
    def about(self) -> str:
        """What is asked, as the beginning of a sentence."""
        return f"at {self.now:g} s: {self.asked.by} asks to {self.asked.verb} {self.asked.pod}"

    @property
    def about_node(self) -> str:
        """The same with the node."""
        return f"{self.about} to {self.node}"

    @property
    def was_told_so(self) -> bool:
        """Whether the process was answered that this is done."""
        return (*self._who, self.asked.verb) in self.memory.told_so

    @property
    def has_bound_it_to(self) -> str:
        """The node to which the server has bound the pod for this process, "" for none."""
        return self.memory.done_to.get(self._who, "") if self._binds else ""

    @property
    def it_is_on(self) -> str:
        """The node of a pod that is to be bound, "" while it has none."""
        return self.memory.bound[self.uid][1] if self._is_of_a_bound_one else ""

    @property
    def since(self) -> float:
        """For how many seconds it has had that."""
        return self.now - self.memory.bound[self.uid][2] if self._is_of_a_bound_one else 0.0

    @property
    def is_repeated(self) -> bool:
        """Whether it asks for the node of the pod, and has had no answer when it did so before."""
        return self.it_is_on == self.node == self.memory.unsaid.get(self._who)

    @property
    def may_be_asked_again(self) -> bool:
        """Whether it is repeated, or asks for what an extender was to do that may fail."""
        instead = self.premises.extenders_may_fail and self.it_is_on == self.node
        return self.is_repeated or instead

    @property
    def has_read_that(self) -> bool:
        """Whether the process has read the pod on its node, and not because it was in doubt."""
        return self._who in self.memory.has_read

    @property
    def doubt(self) -> Doubt | None:
        """A Binding of the same pod by the process, of which it cannot know whether it is done."""
        found = self.memory.doubts.get((self.asked.by, self.asked.pod))
        same = found is not None and found.asked.uid == self.uid
        return found if same and self._binds else None

    @property
    def _who(self) -> tuple[str, str]:
        return self.asked.by, self.uid

    @property
    def _binds(self) -> bool:
        return self.asked.verb == "bind"

    @property
    def _is_of_a_bound_one(self) -> bool:
        return self._binds and self.uid in self.memory.bound
