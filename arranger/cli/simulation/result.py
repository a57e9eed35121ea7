"""What has become of the pods of an embedded cluster, for people and for scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from arranger.cli.simulation.ending import End, EndReason
from arranger.cli.simulation.naming import namespaced_name
from arranger.cli.simulation.timeline import Happening, Timeline
from arranger.embedded import Object
from arranger.embedded.server import EmbeddedCluster

_UID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


class SimulationResult(msgspec.Struct, frozen=True, rename="camel"):
    """What a simulation ended with; every list is sorted, so that equal runs print alike.

    Attributes:
        not_made: why a workload's pods could not be made.
        missed: what ``--until`` waited for, and was never so.
        failed: the Jobs that have failed, and why.
        ignored: what the manifests have that means nothing here, a line for each kind.
        end: why the simulation has ended, in a sentence; None of a demo.
        end_reason: the same in a word.
        timeline: what happened, in its order; of a very long one the beginning.
        gone: how many pods were placed and are there no more.
    """

    placements: list[Object]
    pending: list[Object]
    evictions: list[Object]
    stages: dict[str, str]
    not_made: list[str]
    ignored: list[str]
    events: list[Object]
    virtual_seconds: float
    end_reason: str | None = None
    end: str | None = None
    timeline: list[Happening] = []
    gone: int = 0
    failed: list[str] = []
    missed: str | None = None


def collect_result(
    cluster: EmbeddedCluster,
    seconds: float,
    *,
    ignored: Sequence[str] = (),
    end: End | None = None,
    timeline: Timeline | None = None,
    missed: str | None = None,
) -> SimulationResult:
    """What has become of every pod after ``seconds``; ``missed`` is what was waited for in vain."""
    pods = cluster.objects("pods")
    events = cluster.objects("events", "events.k8s.io")
    names = dict(timeline.pods) if timeline else {}
    names |= {pod["metadata"]["uid"]: namespaced_name(pod["metadata"]) for pod in pods}
    evictions = [
        {"pod": namespaced_name(event["regarding"]), "note": _with_names(event["note"], names)}
        for event in events
        if event["reason"] == "Preempted"
    ]
    return SimulationResult(
        placements=[
            {"pod": namespaced_name(pod["metadata"]), "node": node, "phase": pod["status"]["phase"]}
            for pod in pods
            if (node := pod["spec"].get("nodeName"))
        ],
        pending=[
            {"pod": namespaced_name(pod["metadata"]), "reason": _pending_reason(pod)}
            for pod in pods
            if not pod["spec"].get("nodeName")
        ],
        evictions=sorted(evictions, key=lambda eviction: str(eviction["pod"])),
        events=sorted(map(_event, events), key=lambda event: (event["object"], event["reason"])),
        stages=_tyjob_stages(cluster),
        not_made=_not_made(events),
        ignored=list(ignored),
        virtual_seconds=seconds,
        end_reason=end.reason.value if end else None,
        end=_describe(end, pods, cluster, timeline, missed) if end else None,
        timeline=_with_reasons(timeline, evictions) if timeline else [],
        gone=sum(h.what == "Gone" and bool(h.node) for h in timeline.happenings) if timeline else 0,
        failed=_failed_jobs(cluster),
        missed=missed,
    )


def _with_names(note: str, pods: Mapping[str, str]) -> str:
    """The text of an Event with pods' names in the place of their uids, which nobody knows."""

    def named(found: re.Match[str]) -> str:
        name = pods.get(found[1])
        return f"pod {name}" if name else found[0]

    return re.sub(rf"pod ({_UID})(?: \([^()]*\))?", named, note)


def _with_reasons(timeline: Timeline, evictions: list[Object]) -> list[Happening]:
    """What happened; for whom a pod was evicted is told by an event, and so a little later."""
    notes = {eviction["pod"]: str(eviction["note"]) for eviction in evictions}
    return [
        msgspec.structs.replace(each, note=notes[each.name])
        if each.what == "Evicted" and each.name in notes
        else each
        for each in timeline.happenings
    ]


def _not_made(events: list[Object]) -> list[str]:
    failures = (event for event in events if event["reason"] == "FailedCreate")
    return sorted(
        {
            f"{e['regarding']['kind']} {namespaced_name(e['regarding'])}: {e['note']}"
            for e in failures
        }
    )


def _describe(
    end: End,
    pods: list[Object],
    cluster: EmbeddedCluster,
    timeline: Timeline | None,
    missed: str | None,
) -> str:
    """Why it ended, and what there was still to come."""
    not_so = f"; {missed} (--until) was not reached" if missed else ""
    if not cluster.objects("nodes"):
        return f"ended: there are no nodes; kubectl get nodes -o yaml prints yours{not_so}"
    came = any(h.what == "Created" for h in timeline.happenings) if timeline else bool(pods)
    return f"{_why_ended(end, pods, came=came)}{not_so}"


def _why_ended(end: End, pods: list[Object], *, came: bool) -> str:
    waiting = sum(not pod["spec"].get("nodeName") for pod in pods)
    left = (
        f"{waiting} {'pod waits' if waiting == 1 else 'pods wait'}" if waiting else "no pod waits"
    )
    if end.reason is EndReason.STANDSTILL:
        if not pods:
            return f"ended: {'every pod has come and gone' if came else 'there were no pods'}"
        if not waiting:
            return "ended: every pod has been placed"
        # Nobody has looked at pods of other schedulers.
        others = sum(not (p["spec"].get("nodeName") or p["status"].get("conditions")) for p in pods)
        hint = f", {others} for other schedulers (--all-pods places them, too)" if others else ""
        return f"ended: nothing has moved for {span(end.quiet_seconds)}, and {left}{hint}"
    if end.reason is EndReason.GOAL:
        return f"ended: what --until waits for was reached after {span(end.seconds)}, and {left}"
    what = ", ".join(f"{name} ({times} times)" for name, times in end.moving)
    still = f"what still moved: {what}" if what else "some pods would have run longer"
    if end.reason is EndReason.TIME:
        return f"stopped at the bound of {span(end.seconds)} (--for), {left}; {still}"
    return f"stopped after {span(end.seconds)}: too many writes without an end, {left}; {still}"


def count_pods(count: int) -> str:
    """``1 pod`` or ``3 pods``."""
    return f"{count} {'pod' if count == 1 else 'pods'}"


def span(seconds: float) -> str:
    """A span of time in the largest unit of which there are two, ``90m`` for example."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _pending_reason(pod: Object) -> str:
    conditions = pod["status"].get("conditions") or [{}]
    return str(conditions[0].get("message", f"waits for {pod['spec']['schedulerName']}"))


def _event(event: Object) -> Object:
    return {
        "object": f"{event['regarding']['kind']} {namespaced_name(event['regarding'])}",
        "type": event["type"],
        "reason": event["reason"],
        "note": event["note"],
        "count": (event.get("series") or {"count": 1})["count"],
    }


def _tyjob_stages(cluster: EmbeddedCluster) -> dict[str, str]:
    """TYJob → its stage; what no controller has seen yet has none."""
    try:
        jobs = cluster.objects("tyjobs", "arranger.io")
    except KeyError:
        return {}
    return {
        namespaced_name(job["metadata"]): job["status"]["stage"]
        for job in jobs
        if (job.get("status") or {}).get("stage")
    }


def _failed_jobs(cluster: EmbeddedCluster) -> list[str]:
    """Jobs that have failed, and why; of TYJobs their stages tell."""
    failed = []
    for job in cluster.objects("jobs", "batch"):
        for each in (job.get("status") or {}).get("conditions") or ():
            if (each.get("type"), each.get("status")) == ("Failed", "True"):
                why = ": ".join(filter(None, (each.get("reason"), each.get("message"))))
                failed.append(f"Job {namespaced_name(job['metadata'])}: {why}")
    return sorted(failed)
