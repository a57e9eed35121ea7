"""What Gangs and PodGroups must say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from arranger.embedded.server import EmbeddedCluster

Object = dict[str, Any]

ENDS = ("Finished", "Failed", "Completed")
SIGS, COMMUNITY = "scheduling.sigs.k8s.io", "scheduling.x-k8s.io"
VOLCANO, NATIVE = "scheduling.volcano.sh", "scheduling.k8s.io"
KOORDINATOR, BUNDLES = "gang.scheduling.koordinator.sh/", "gang.koordinater.io/"
#: What of a count the pods that are there decide at any time, an end or not.
NOW = ("members", "placed", "bound", "scheduled", "running")


def membership(pod: Object) -> tuple[str, str, str]:
    """(API group of its PodGroup or "", ``namespace/name`` of its gang, bundle); "" for none."""
    meta = pod["metadata"]
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    native = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    volcano = notes.get("scheduling.k8s.io/group-name") or notes.get(
        "scheduling.volcano.sh/group-name"
    )
    words = (
        (NATIVE, native, ""),
        (SIGS, labels.get("pod-group.scheduling.sigs.k8s.io"), ""),
        (COMMUNITY, labels.get("scheduling.x-k8s.io/pod-group"), ""),
        ("", notes.get(KOORDINATOR + "name"), ""),
        ("", notes.get(BUNDLES + "name"), notes.get(BUNDLES + "bundleName", "")),
        (VOLCANO, volcano, notes.get("volcano.sh/task-spec", "")),
    )
    for group, name, bundle in words:
        if name:
            return group, f"{meta['namespace']}/{name}", bundle
    return "", "", ""


def ours(pod: Object) -> bool:
    """Whether it is a pod of our scheduler."""
    return bool(pod["spec"].get("schedulerName") == "arranger")


def phase_of_pod(pod: Object) -> str:
    """Its phase, Pending while it has none."""
    return str(pod.get("status", {}).get("phase") or "Pending")


def counts(pods: Iterable[Object]) -> dict[str, int]:
    """The counts of a Gang."""
    found: Counter[str] = Counter()
    for pod in pods:
        phase = phase_of_pod(pod)
        ended = phase in ("Succeeded", "Failed")
        bound = phase == "Succeeded" or (not ended and bool(pod["spec"].get("nodeName")))
        held = not ended and not bound and bool(pod["status"].get("nominatedNodeName"))
        found["members"] += 1
        found["bound"] += bound
        found["placed"] += bound or held
        found["running"] += phase == "Running"
        found["succeeded"] += phase == "Succeeded"
        found["failed"] += phase == "Failed"
    names = ("members", "placed", "bound", "running", "succeeded", "failed")
    return {name: found[name] for name in names}


@dataclass(slots=True)
class GangView:
    """A gang as the server's objects show it."""

    pods: list[Object] = field(default_factory=list)
    minimum: int = 0
    minimums: dict[str, int] = field(default_factory=dict)
    defined: bool = False

    def of_bundle(self, name: str) -> list[Object]:
        """The pods of a bundle."""
        return [pod for pod in self.pods if membership(pod)[2] == name]

    def enough(self, *names: str, less: bool = False) -> bool:
        """Whether the sum of these counts (or all members but those) reaches every minimum."""

        def number(pods: list[Object]) -> int:
            of = counts(pods)
            total = sum(of[name] for name in names)
            return of["members"] - total if less else total

        whole = number(self.pods) >= max(1, self.minimum, sum(self.minimums.values()))
        return whole and all(number(self.of_bundle(b)) >= n for b, n in self.minimums.items())

    @property
    def least(self) -> int:
        """How many it needs in all."""
        return max(1, self.minimum, sum(self.minimums.values()))

    def reports(self) -> list[Object]:
        """What the scheduler has said to its pods, by their condition PodScheduled."""
        found = (c for pod in self.pods for c in pod["status"].get("conditions") or ())
        mine = (c for c in found if c["type"] == "PodScheduled")
        return [c for c in mine if c.get("reason") != "SchedulingGated"]

    def messages(self) -> Counter[str]:
        """Why those wait that have no node → how many of them are told so."""
        found: Counter[str] = Counter()
        for pod in self.pods:
            if pod["spec"].get("nodeName") or phase_of_pod(pod) in ("Succeeded", "Failed"):
                continue
            for c in pod["status"].get("conditions") or ():
                said = c["type"] == "PodScheduled" and c["status"] == "False"
                if said and c.get("reason") != "SchedulingGated":
                    found[c.get("message", "")] += 1
        return found

    def phase(self, before: str) -> str:
        """The phase, in Koordinator's words; an end stays until enough are alive again."""
        alive, of = self.enough("failed", less=True), counts(self.pods)
        if before in ENDS and not alive:
            return before
        if self.enough("succeeded"):
            return "Finished"
        if of["failed"] and not alive and self.enough("running", "succeeded", "failed"):
            return "Failed"
        if not of["bound"] and (of["members"] < self.least or not self.defined):
            return "Pending"
        if not (self.defined and self.enough("bound")):
            return "Scheduling" if of["bound"] or self.reports() else "PreScheduling"
        return "Running" if self.enough("running", "succeeded") else "Scheduled"

    def volcano_phase(self, before: str) -> str:
        """The phase, in Volcano's words; Inqueue stays until the gang has its nodes."""
        of = counts(self.pods)
        complete = self.defined and self.enough("bound")
        if before in ENDS and not self.enough("failed", less=True):
            return before
        if of["running"] and not complete and self.messages():
            return "Unknown"
        if complete:
            return "Completed" if of["bound"] == of["succeeded"] else "Running"
        return "Inqueue" if self.reports() or before == "Inqueue" else "Pending"


def gang_views(cluster: EmbeddedCluster) -> dict[str, tuple[str, GangView]]:
    """Gang → (API group of the PodGroup that its pods name, what is seen of it)."""
    found: dict[str, tuple[str, GangView]] = {}
    for pod in cluster.objects("pods"):
        group, name, bundle = membership(pod)
        if not name or not ours(pod):
            continue
        view = found.setdefault(name, (group, GangView()))[1]
        view.pods.append(pod)
        notes = pod["metadata"].get("annotations") or {}
        if least := notes.get(KOORDINATOR + "min-available"):
            view.minimum, view.defined = int(least), True
        if least := notes.get(BUNDLES + "minRequiredNumber"):
            view.minimums[bundle], view.defined = int(least), True
    for name, (group, view) in found.items():
        for pod_group in cluster.objects("podgroups", group) if group else ():
            if key_of(pod_group) == name:
                _set_minimums(view, group, pod_group["spec"])
    return found


def _set_minimums(view: GangView, group: str, spec: Mapping[str, Any]) -> None:
    view.defined = True
    if group == NATIVE:
        view.minimum = spec["schedulingPolicy"].get("gang", {}).get("minCount", 0)
    else:
        view.minimum = spec.get("minMember", 0)
        view.minimums = dict(spec.get("minTaskMember") or {})


def key_of(obj: Object) -> str:
    """``namespace/name``."""
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def gang_faults(cluster: EmbeddedCluster, served: frozenset[str]) -> Iterator[str]:
    """What is untrue in the status of Gangs and of PodGroups."""
    views = gang_views(cluster)
    gangs = {key_of(gang): gang for gang in cluster.objects("gangs", "arranger.io")}
    if gangs.keys() != views.keys():
        yield f"Gangs: there are {sorted(gangs)}, and pods of {sorted(views)}"
    for name in gangs.keys() & views.keys():
        view, status = views[name][1], gangs[name].get("status") or {}
        # A bundle whose pods are all gone stays needed; only the Gang still says so.
        for bundle in gangs[name]["spec"]["bundles"]:
            if bundle["name"]:
                view.minimums.setdefault(bundle["name"], bundle["minMember"])
        for fault in _of_gang(view, status):
            yield f"Gang {name}: {fault}"
    for group in sorted(served):
        for pod_group in cluster.objects("podgroups", group):
            name, status = key_of(pod_group), pod_group.get("status") or {}
            named, view = views.get(name, ("", GangView()))
            view = view if named == group else GangView()
            _set_minimums(view, group, pod_group["spec"])
            for fault in _of_pod_group(group, view, status):
                yield f"PodGroup {name} of {group}: {fault}"


def _of_gang(view: GangView, status: Object) -> Iterator[str]:
    phase = view.phase(status.get("phase", ""))
    yield from _differ("phase", status.get("phase"), phase)
    yield from _of_counts(view, status, counts(view.pods))
    if not view.minimums:
        yield from _differ("minMember", status.get("minMember"), view.minimum)
    said = {bundle["name"]: bundle for bundle in status.get("bundles", [])}
    for name in view.minimums:
        mine = counts(view.of_bundle(name))
        for fault in _of_counts(view, said.get(name, {}), mine, status):
            yield f"bundle {name}: {fault}"
    yield from _of_message(view, status, phase)


def _of_counts(
    view: GangView, said: Object, expected: Mapping[str, int], whole: Object | None = None
) -> Iterator[str]:
    """Once a gang has ended, those who succeeded and failed stay counted when they are removed."""
    over = (whole or said).get("phase") in ENDS and not view.enough("failed", less=True)
    for name, number in expected.items():
        have = said.get(name)
        if over and have is not None:
            kept = have >= number if name not in NOW else True
            # Who has succeeded had a node, and counts with those that have.
            gone = max(0, said["succeeded"] - expected["succeeded"])
            if name in ("bound", "placed", "scheduled"):
                kept = have == number + gone
            elif name in NOW:
                kept = have == number
            if not kept:
                yield f"{name} is {have} after the end, and the pods say {number}"
        else:
            yield from _differ(name, have, number)


def _of_message(view: GangView, status: Object, phase: str) -> Iterator[str]:
    message, told = status.get("message"), view.messages()
    if phase in ("Scheduled", "Running", "Finished"):
        yield from _differ("message", message, None)
    elif phase != "Failed" and told:
        often = max(told.values())
        if message not in [text for text, n in told.items() if n == often]:
            yield f"message is {message!r}, and pods are told {dict(told)}"
    elif phase == "Pending" and view.pods and view.defined:
        text = f"{len(view.pods)}/{view.least} members have arrived"
        yield from _differ("message", message, text)


def _of_pod_group(group: str, view: GangView, status: Object) -> Iterator[str]:
    of = counts(view.pods)
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    if group == NATIVE:
        yield from _of_native(view, conditions)
        return
    numbers = {name: of[name] for name in ("running", "succeeded", "failed")}
    if group == VOLCANO:
        phase = view.volcano_phase(status.get("phase", ""))
        yield from _of_volcano_conditions(view, conditions, phase)
    else:
        phase = view.phase(status.get("phase", ""))
        numbers["scheduled"] = of["bound"]
        yield from _of_message(view, status, phase)
        if group == COMMUNITY:
            phase = {"PreScheduling": "Scheduling", "Scheduled": "Scheduling"}.get(phase, phase)
    yield from _differ("phase", status.get("phase"), phase)
    yield from _of_counts(view, status, numbers)


def _of_volcano_conditions(
    view: GangView, conditions: Mapping[str, Object], phase: str
) -> Iterator[str]:
    """Each says what is so now: the gang has its nodes, or somebody waits and is told why."""
    told = view.messages() if phase not in ("Running", "Completed") else Counter()
    yield from _differ("Scheduled", "Scheduled" in conditions, phase in ("Running", "Completed"))
    yield from _differ("Unschedulable", "Unschedulable" in conditions, bool(told))
    if told and "Unschedulable" in conditions:
        message = conditions["Unschedulable"]["message"]
        if message not in told:
            yield f"Unschedulable says {message!r}, and pods are told {dict(told)}"


def _of_native(view: GangView, conditions: Mapping[str, Object]) -> Iterator[str]:
    """True once it was scheduled, for good; else why not, when a pod is told so."""
    said = conditions.get("PodGroupInitiallyScheduled", {})
    if said.get("status") == "True":
        return
    if view.pods and view.enough("bound"):
        yield f"it has its nodes, and says {said}"
    elif (told := view.messages()) and said.get("message") not in told:
        yield f"it says {said}, and pods are told {dict(told)}"


def _differ(name: str, have: object, must: object) -> Iterator[str]:
    if have != must:
        yield f"{name} is {have!r} and must be {must!r}"
