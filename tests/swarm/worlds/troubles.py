"""The faults of a world."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

from tests.swarm.world import Fault

_SCHEDULERS = ("one", "two")
_EVERYBODY = (*_SCHEDULERS, "controllers")
_WRITTEN = ("bindings", "writes", "statuses", "pods", "podgroups", "gangs")


def random_faults(
    rng: random.Random, features: Collection[str], seconds: float
) -> tuple[Fault, ...]:
    """Faults of the kinds that are switched on, some of them at once."""
    kinds: dict[str, Callable[[random.Random, float], Fault]] = {
        "kills": _kill,
        "pauses": _pause,
        "lost": _lost,
        "slow": _slow,
        "refusals": _refusal,
        "watches": _watch,
        "leases": _lease,
        "halts": _halt,
        "skews": _skew,
        "restores": _restore,
        "nodes-go": _lose_node,
    }
    chosen = [make for feature, make in kinds.items() if feature in features]
    every = rng.choice([5.0, 15.0, 40.0])
    faults = []
    at = rng.expovariate(1 / every)
    while chosen and at < seconds:
        make = rng.choice(chosen)
        if make is _restore:  # once: what it takes to hear of it is longer than most worlds
            chosen.remove(_restore)
        faults.append(make(rng, round(at, 3)))
        at += rng.expovariate(1 / every)
    return tuple(faults)


def _kill(rng: random.Random, at: float) -> Fault:
    whom, away = rng.choice(_EVERYBODY), rng.choice([0.0, 5.0, 30.0])
    if rng.random() < 0.7:
        what = rng.choice(["writes", "bindings", "statuses", "all"])
        skip = rng.choice([1, 1, 2, 3, 5, 8, 13])
        return Fault(at=at, does="kill", whom=whom, what=what, skip=skip, lasts=away)
    return Fault(at=at, does="kill", whom=whom, lasts=away)


def _pause(rng: random.Random, at: float) -> Fault:
    lasts = rng.choice([1.0, 8.0, 12.0, 20.0, 100.0])
    return Fault(at=at, does="pause", whom=rng.choice(_EVERYBODY), lasts=lasts)


def _lost(rng: random.Random, at: float) -> Fault:
    does: Any = rng.choice(["lose-answer", "lose-answer", "lose-request", "refuse"])
    return _requests(rng, at, does)


def _slow(rng: random.Random, at: float) -> Fault:
    # What is under way for longer than leases leave between two leaders is written by none.
    if rng.random() < 0.5:
        return _requests(rng, at, "delay", seconds=rng.choice([0.05, 0.5, 4.0]))
    return _requests(rng, at, "delay-answer", seconds=rng.choice([0.05, 0.5, 4.0, 20.0, 40.0]))


def _refusal(rng: random.Random, at: float) -> Fault:
    if rng.random() < 0.15:  # as by a webhook: this Binding, and no other way to say it
        few = {"times": rng.randint(1, 3), "skip": rng.randint(0, 4)}
        return Fault(at=at, does="reply", what="bindings", status=403, lasts=40.0, **few)
    status = rng.choice([409, 429, 429, 500, 503, 504, 410])
    does: Any = "reply" if status in (409, 410) or rng.random() < 0.7 else "reply-after"
    return _requests(rng, at, does, status=status)


def _requests(rng: random.Random, at: float, does: Any, **more: Any) -> Fault:
    what = rng.choice([*_WRITTEN, "bindings", "reads", "all"])
    if what == "bindings" or rng.random() < 0.4:  # few, but surely
        some: dict[str, Any] = {"times": rng.randint(1, 3), "skip": rng.randint(0, 4)}
    else:
        some = {"chance": rng.choice([0.05, 0.2, 0.5])}
    lasts = rng.choice([10.0, 40.0] if what == "bindings" else [2.0, 10.0, 40.0])
    whom = "" if what == "bindings" else _whom(rng)  # only who leads binds
    return Fault(at=at, does=does, what=what, whom=whom, lasts=lasts, **some, **more)


def _watch(rng: random.Random, at: float) -> Fault:
    if rng.random() < 0.15:
        return Fault(at=at, does="compact")
    breaks = ["cut", "reset", "expire", "stall"]
    does: Any = rng.choice([*breaks, "lag", "lag", "lag", "repeat", "retell", "retell"])
    what = rng.choice(["all", "all", "pods", "nodes", "podgroups", "queues"])
    seconds = rng.choice([0.02, 0.3, 3.0, 20.0]) if does == "lag" else 0.0
    some = {"times": rng.randint(1, 4)} if rng.random() < 0.5 else {"chance": 0.1}
    lasts = rng.choice([5.0, 20.0, 60.0])
    return Fault(at=at, does=does, what=what, whom=_whom(rng), lasts=lasts, seconds=seconds, **some)


def _lease(rng: random.Random, at: float) -> Fault:
    does: Any = rng.choice(["lose-request", "lose-answer", "reply", "delay-answer"])
    more = {"reply": {"status": 500}, "delay-answer": {"seconds": 8.0}}.get(does, {})
    lasts = rng.choice([4.0, 12.0, 30.0])
    return Fault(at=at, does=does, what="leases", whom=_whom(rng), lasts=lasts, **more)


def _halt(rng: random.Random, at: float) -> Fault:
    # Longer, and what was sent by one leader would be done in the time of the next.
    return Fault(at=at, does="halt", lasts=rng.choice([1.0, 2.0, 4.0]))


def _skew(rng: random.Random, at: float) -> Fault:
    wrong = rng.choice([-3600.0, -20.0, 20.0, 3600.0])
    lasts = rng.choice([5.0, 60.0])
    return Fault(at=at, does="skew", whom=rng.choice(_SCHEDULERS), seconds=wrong, lasts=lasts)


def _restore(rng: random.Random, at: float) -> Fault:
    age = rng.choice([0.5, 3.0, 10.0, 60.0])
    return Fault(at=at, does="restore", seconds=min(age, at), bump=rng.random() < 0.3)


def _lose_node(rng: random.Random, at: float) -> Fault:
    away = rng.choice([1.0, 20.0, 400.0])
    return Fault(at=at, does="lose-node", what="statuses", skip=rng.randint(0, 4), lasts=away)


def _whom(rng: random.Random) -> str:
    return rng.choice(["", "", *_EVERYBODY])
