"""A scheduler that is shown objects as a server would show them, and another tenant's pod.

The other tenant's node is one that no other pod gets onto, so that its pod must be bound whatever
else there is.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from arranger.api.effects import Applied, Bind, Effect, ObjectReference
from arranger.api.quarantine import Quarantine, QuarantinedObject, UnreadableError
from arranger.api.types.core import Node, Pod
from arranger.api.types.queue import Queue
from arranger.daemon.informers import COLLECTION_PATHS, Informers
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.kube.client.metrics import NULL_METRICS
from arranger.kube.client.problems import IGNORE_PROBLEMS
from arranger.kube.client.transport import Request, Response, Stream, TransportError
from arranger.kube.watch.decoder import RawWatchEvent, UndecodableObject
from arranger.kube.watch.reflector import Reflector
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod
from tests.fuzz.choices import Choices
from tests.fuzz.objects import Object, an_object

_TAINT: Final = "other-tenant"
_HOST: Final = {"kubernetes.io/hostname": "kept"}
_NODES: Final = (a_node("kept").tainted(_TAINT), a_node("n-1"))
_POD: Final = a_pod("tenant").needs(cpu=1).tolerates(_TAINT).selects(_HOST)
#: What is watched, in an order that does not change.
KINDS: Final = tuple(sorted(COLLECTION_PATHS, key=lambda kind: kind.__name__))
#: Every other object is a pod.
_SHOWN: Final = (*[Pod] * len(KINDS), *KINDS)
#: Objects of a world, at most.
_MAX_OBJECTS: Final = 6
#: Seconds between two looks at the queue: beyond any back-off.
_LATER: Final = 400.0


class _NoServer:
    """Lines come from the fuzzer; nothing is asked for."""

    async def send(self, request: Request) -> Response:
        raise TransportError("there is no server")

    def stream(self, request: Request, *, inactivity: float) -> AbstractAsyncContextManager[Stream]:
        raise TransportError("there is no server")


class _NoQuarantine(Quarantine):
    """Sets aside only what is said to be unreadable: what else our code raises is looked for."""

    def add(
        self, about: ObjectReference, error: BaseException, *more: Any, **named: Any
    ) -> QuarantinedObject:
        if isinstance(error, UnreadableError):
            return super().add(about, error, *more, **named)
        raise error


class FuzzedWorld:
    """An engine with the decoders and informers of the scheduler."""

    def __init__(self) -> None:
        self.engine = Engine(EngineSettings([default_profile()], quarantine=_NoQuarantine()))
        self._now = 0.0
        informers = Informers(self.engine, lambda: self._now, lambda: None)
        self._reflectors: dict[type[Any], Reflector[Any]] = {
            each.decoder.kind: each
            for each in informers.reflectors(
                _NoServer(), rng=random.Random(0), metrics=NULL_METRICS, problems=IGNORE_PROBLEMS
            )
        }
        for each in self._reflectors.values():
            each.sink.replaced([], "1")
        for node in _NODES:
            self.show(Node, node.manifest())

    def show(self, kind: type[Any], manifest: Object, event: str = "MODIFIED") -> None:
        """A watch brings a line."""
        line = json.dumps({"type": event, "object": manifest}).encode()
        reflector = self._reflectors[kind]
        told = reflector.decoder.decode_event(line)
        assert not isinstance(told, RawWatchEvent)
        obj = told if isinstance(told, UndecodableObject) else told.object
        if event == "DELETED":
            reflector.sink.deleted(obj)
        else:
            reflector.sink.applied(obj)

    def rest(self) -> list[Bind]:
        """Let the scheduler act a few times; all that it asks for is done and seen."""
        bound: list[Bind] = []
        for _ in range(3):
            effects: list[Effect] = self.engine.run(self._now)
            for effect in effects:
                self.engine.on_outcome(effect, Applied(), self._now)
            bound += [effect for effect in effects if isinstance(effect, Bind)]
            self._now += _LATER
        self.engine.check_consistent()
        return bound


def play(data: bytes) -> None:
    """One world made of these choices.

    Raises:
        AssertionError: the books are wrong, or the other tenant's pod is not bound.
    """
    choices = Choices(data)
    deleted = bool(choices.below(2))
    shown = []
    for _ in range(1 + choices.below(_MAX_OBJECTS)):
        kind = choices.one_of(_SHOWN)
        shown.append((kind, _without_key(an_object(choices, kind))))
    play_objects(shown, deleted=deleted)


def play_objects(shown: Sequence[tuple[type[Any], Object]], *, deleted: bool = False) -> None:
    """A world with these objects, which may be deleted in the end.

    Raises:
        AssertionError: the books are wrong, or the other tenant's pod is not bound.
    """
    world = FuzzedWorld()
    for kind, manifest in shown:
        world.show(kind, manifest)
    world.rest()
    for kind, manifest in shown if deleted else ():
        world.show(kind, manifest, "DELETED")
    world.show(Pod, _POD.manifest())
    bound = {bind.pod.name for bind in world.rest()}
    # A Queue is the administrator's: it may keep others from what it is guaranteed.
    assert "tenant" in bound or any(kind is Queue for kind, _ in shown), shown


def _without_key(manifest: Any) -> Any:
    """Without tolerations of every taint: a pod with one may use the other tenant's node."""
    if isinstance(manifest, dict):
        copy = {key: _without_key(value) for key, value in manifest.items()}
        if isinstance(copy.get("tolerations"), list):
            copy["tolerations"] = [
                {**each, "key": each.get("key") or "some"} if isinstance(each, dict) else each
                for each in copy["tolerations"]
            ]
        return copy
    return [_without_key(each) for each in manifest] if isinstance(manifest, list) else manifest
