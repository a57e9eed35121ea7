"""A whole world as plain data: what is there, what happens, and what goes wrong, with their times.

Nothing in it is decided while it is played, so a part of it is a world, too::

    world = load(text)
    smaller = msgspec.structs.replace(world, faults=world.faults[:3])
    assert load(dump(smaller)) == smaller

Objects have the uids that owner references of others name; the server gives them its own, and the
player translates. An event about an object that is not there does nothing.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import yaml

Object = dict[str, Any]

#: What can go wrong with requests, and with the lines of watches; see :mod:`tests.swarm.trouble`.
RequestTrouble = Literal[
    "refuse", "lose-request", "lose-answer", "delay", "delay-answer", "reply", "reply-after"
]
WatchTrouble = Literal["cut", "reset", "expire", "stall", "lag", "repeat", "retell"]
#: What can happen to a process, to the server, and to a clock.
ProcessTrouble = Literal["kill", "pause", "skew"]
ServerTrouble = Literal["compact", "halt", "restore", "lose-node"]


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Somebody writes an object.

    Attributes:
        at: seconds from the start.
        does: what; ``put`` is to create it past all that the server checks.
        object: all of it where it is created, otherwise what identifies it; of a bind, the pod.
        node: for a bind: where somebody else places the pod.
        change: for a patch: what is merged into it.
        part: for a patch: ``status`` for that subresource.
        grace: for a deletion: seconds that it may take to go; 0 is at once.
    """

    at: float
    does: Literal["create", "put", "patch", "delete", "bind"]
    object: Object
    node: str = ""
    change: Object = {}
    part: str = ""
    grace: int = 0


def an_event(at: float, does: Any, obj: Object, **more: Any) -> Event:
    """An event about an object, of which all is told only where it is created."""
    if does not in ("create", "put"):
        meta = {k: v for k, v in obj["metadata"].items() if k in ("name", "namespace")}
        obj = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": meta}
    return Event(at=round(at, 3), does=does, object=obj, **more)


class Fault(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something goes wrong.

    Attributes:
        at: seconds from the start.
        does: what.
        whom: ``one`` or ``two`` (the schedulers), ``controllers``, or "" for all of them.
        what: which requests, by the names in :data:`tests.swarm.trouble.MATCHERS`, or a resource.
        chance: that a request, or a line of a watch, is struck.
        times: how many are struck at most; 0 for any number.
        skip: how many are left alone first; of a kill, the writes of the process from then on.
        lasts: seconds; of a kill, until it is started again; of a node, until it is back.
        seconds: how long a delay is, by how much a clock is wrong, or how old a backup is.
        bump: of a restored server, whether its versions go on far beyond those that were given.
        status: of a reply.
    """

    at: float
    does: RequestTrouble | WatchTrouble | ProcessTrouble | ServerTrouble
    whom: str = ""
    what: str = "all"
    chance: float = 1.0
    times: int = 0
    skip: int = 0
    lasts: float = 0.0
    seconds: float = 0.0
    status: int = 0
    bump: bool = False


class World(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """See the module.

    Attributes:
        seed: what it was made from; the server's uids and the processes' randomness come from it.
        seconds: after these, faults stop, and nothing happens any more but by itself.
        features: what was switched on when it was made; the player needs some of them.
        config: the schedulers' configuration file.
        objects: what is there when the processes start, in the order of their creation.
        events: by time.
        faults: by time.
    """

    seed: int
    seconds: float
    features: tuple[str, ...] = ()
    config: Object = {}
    objects: tuple[Object, ...] = ()
    events: tuple[Event, ...] = ()
    faults: tuple[Fault, ...] = ()


def load(text: str) -> World:
    """The world that :func:`dump` wrote.

    Raises:
        msgspec.ValidationError: it is none.
    """
    return msgspec.convert(yaml.load(text, yaml.CSafeLoader), World)


def dump(world: World) -> str:
    """A world as YAML; equal worlds give equal texts."""
    plain = msgspec.to_builtins(world)
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


class _Dumper(yaml.CSafeDumper):
    """Writes out what occurs twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
