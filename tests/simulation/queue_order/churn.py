"""Two jobs that wait for one node, while a pod ends each half second on another."""

from __future__ import annotations

from arranger.api.effects import Applied, Bind
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod


def moments_taken_by_the_lower(moments: int) -> int:
    """At how many moments the job of priority 1 gets the place before that of priority 10."""
    return sum(_first_after(moment)[0] == "low" for moment in range(1, moments + 1))


def tries_in_vain(moments: int) -> int:
    """How often the two jobs have been tried after so many moments, when no place is free yet."""
    return _first_after(moments)[1]


def _first_after(moment: int) -> tuple[str, int]:
    """Who gets the node that becomes free at the moment, and the attempts of both until then."""
    engine, now = Engine(EngineSettings([default_profile()])), 0.0
    handlers = engine.handlers
    for node, cpu in (("wanted", 2), ("busy", 1)):
        handlers.on_node_updated(a_node(node).offers(cpu=cpu).build(), now)
    handlers.on_pod_updated(a_pod("blocker").needs(cpu=2).on("wanted").build(), now)
    jobs = {"low": _job("low", 1), "high": _job("high", 10)}
    for n in range(moment):
        handlers.on_pod_updated(a_pod(f"busy-{n}").needs(cpu=1).on("busy").build(), now)
        if n == 0:
            for pod in jobs["low"]:
                handlers.on_pod_updated(pod.build(), now)
        if n == 1:
            for pod in jobs["high"]:
                handlers.on_pod_updated(pod.build(), now)
        _run(engine, now)
        now += 0.5
        handlers.on_pod_deleted(f"default/busy-{n}", now)
        _run(engine, now)
    if moment == 1:
        for pod in jobs["high"]:
            handlers.on_pod_updated(pod.build(), now)
        _run(engine, now)
    tries = sum(entity.attempts for entity in engine.queue.entities())
    now += 0.1
    handlers.on_pod_deleted("default/blocker", now)
    while not (bound := _run(engine, now)):
        now += 0.25
    return bound[0].pod.name.split("-")[0], tries


def _job(name: str, priority: int) -> list[PodBuilder]:
    notes = {"arranger.io/job-priority": str(priority)}
    pods = [a_pod(f"{name}-{n}").of_tyjob(name).needs(cpu=1) for n in range(2)]
    return [pod.in_gang(name, 2).annotated(notes) for pod in pods]


def _run(engine: Engine, now: float) -> list[Bind]:
    effects = engine.run(now)
    while engine.ready:
        effects += engine.run(now)
    binds = [effect for effect in effects if isinstance(effect, Bind)]
    for bind in binds:
        engine.on_outcome(bind, Applied(), now)
    return binds
