"""Gangs as the objects of the server show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.harnesses.status_judge.fields import Object, Server
from tests.specification.vocabulary.gangs import count_in, names_in

ENDS = ("Finished", "Failed", "Completed")
SIGS, COMMUNITY = "scheduling.sigs.k8s.io", "scheduling.x-k8s.io"
VOLCANO, NATIVE = "scheduling.volcano.sh", "scheduling.k8s.io"
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
KOORDINATOR, BUNDLES = "gang.scheduling.koordinator.sh/", "gang.koordinater.io/"


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
        (SIGS, labels.get(POD_GROUP) or labels.get(POD_GROUP + "/name"), ""),
        (COMMUNITY, labels.get("scheduling.x-k8s.io/pod-group"), ""),
        ("", notes.get(KOORDINATOR + "name"), ""),
        ("", notes.get(POD_GROUP) or notes.get(POD_GROUP + "/name"), ""),
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
    #: The gangs that it is to be placed with, by its own words.
    groups: set[str] = field(default_factory=set)
    #: Bundle, None for the whole gang → what its pods say of the minimum.
    words: dict[str | None, set[int]] = field(default_factory=dict)

    @property
    def disagrees(self) -> bool:
        """Whether its pods say different things: the last edit counts, which no object tells."""
        return any(len(said) > 1 for said in self.words.values())

    def with_word(self, status: Object) -> GangView:
        """It with the one of its pods' words, where they disagree, that a Gang has taken up."""
        if not self.disagrees:
            return self
        of = {bundle["name"]: bundle.get("minMember") for bundle in status.get("bundles", [])}
        taken = {b: n for b, n in of.items() if n in self.words.get(b, ())}
        whole = status.get("minMember")
        minimum = whole if whole in self.words.get(None, ()) else self.minimum
        return replace(self, minimum=minimum, minimums={**self.minimums, **taken})

    def staying(self) -> GangView:
        """It without the pods that are being deleted; those that have succeeded count on."""
        stay = [
            pod
            for pod in self.pods
            if not pod["metadata"].get("deletionTimestamp") or phase_of_pod(pod) == "Succeeded"
        ]
        return replace(self, pods=stay)

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
    def needs_nobody(self) -> bool:
        """Whether its minimums are zero."""
        return self.defined and not self.minimum and not any(self.minimums.values())

    @property
    def least(self) -> int:
        """How many it needs in all."""
        return max(1, self.minimum, sum(self.minimums.values()))

    def reports(self) -> list[Object]:
        """What the scheduler has said to its pods, by their condition PodScheduled."""
        found = (c for pod in self.pods for c in pod["status"].get("conditions") or ())
        mine = (c for c in found if c["type"] == "PodScheduled")
        return [c for c in mine if c.get("reason") != "SchedulingGated"]

    def told(self) -> Counter[tuple[str, str]]:
        """(reason, message) of those that have no node → how many of them are told so."""
        found: Counter[tuple[str, str]] = Counter()
        for pod in self.pods:
            if pod["spec"].get("nodeName") or phase_of_pod(pod) in ("Succeeded", "Failed"):
                continue
            for c in pod["status"].get("conditions") or ():
                said = c["type"] == "PodScheduled" and c["status"] == "False"
                if said and c.get("reason") != "SchedulingGated":
                    found[c.get("reason", ""), c.get("message", "")] += 1
        return found

    def messages(self) -> set[str]:
        """Why those wait that have no node."""
        return {message for _, message in self.told()}

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
        """The phase, in Volcano's words; Inqueue stays until the gang has its nodes.

        Its scheduler's session calls a gang unready while too few tasks are Bound, Running or
        Succeeded, but not for tasks alone that are still being deleted (Releasing).
        """
        of = Counter(task_status(pod) for pod in self.pods)
        if before in ENDS and not self.enough("failed", less=True):
            return before
        ready = self.defined and self.has_tasks("Bound", "Running", "Succeeded")
        had_nodes = self.has_tasks("Bound", "Running", "Succeeded", "Failed", "Releasing")
        if of["Running"] and not ready:
            released = of["Releasing"] and had_nodes and not of["Pending"]
            # Nobody has tried yet to place those that wait, and with them there are enough.
            hopeful = of["Pending"] and not any(self.messages())
            hopeful = hopeful and self.has_tasks("Bound", "Running", "Succeeded", "Pending")
            if not (released or hopeful):
                return "Unknown"
            if hopeful and before in ("Running", "Unknown"):
                return before
        if self.defined and had_nodes:
            ended = of["Bound"] + of["Running"] + of["Releasing"] == 0
            return "Completed" if ended else "Running"
        enqueued = not self.pods or self.reports() or before == "Inqueue"
        return "Inqueue" if enqueued else "Pending"

    def has_tasks(self, *statuses: str) -> bool:
        """Whether enough pods, of every bundle, are in one of Volcano's task statuses."""

        def number(pods: list[Object]) -> int:
            return sum(task_status(pod) in statuses for pod in pods)

        enough = all(number(self.of_bundle(b)) >= n for b, n in self.minimums.items())
        return enough and number(self.pods) >= self.least


def task_status(pod: Object) -> str:
    """The status that Volcano's scheduler gives a pod."""
    phase = phase_of_pod(pod)
    if phase in ("Succeeded", "Failed"):
        return phase
    node, leaving = pod["spec"].get("nodeName"), pod["metadata"].get("deletionTimestamp")
    if leaving:
        return "Releasing" if node else "Discarded"
    return "Running" if phase == "Running" else "Bound" if node else "Pending"


def gang_views(cluster: Server) -> dict[str, tuple[str, GangView]]:
    """Gang → (API group of the PodGroup that its pods name, what is seen of it).

    Of gangs that have pods of ours; those of other schedulers count in them once they have a node.
    """
    found: dict[str, tuple[str, GangView]] = {}
    for pod in cluster.objects("pods"):
        group, name, bundle = membership(pod)
        if not name or not (ours(pod) or pod["spec"].get("nodeName")):
            continue
        view = found.setdefault(name, (group, GangView()))[1]
        view.pods.append(pod)
        notes = pod["metadata"].get("annotations") or {}
        said = (notes.get(key + "min-available") for key in (KOORDINATOR, POD_GROUP + "/"))
        if (least := count_in(next(filter(None, said), None))) is not None:
            view.minimum, view.defined = least, True
            view.words.setdefault(None, set()).add(least)
        if (least := count_in(notes.get(BUNDLES + "minRequiredNumber"))) is not None:
            view.minimums[bundle], view.defined = least, True
            view.words.setdefault(bundle, set()).add(least)
        view.groups |= _named_gangs(pod)
    found = {name: each for name, each in found.items() if any(map(ours, each[1].pods))}
    for name, (group, view) in found.items():
        for pod_group in cluster.objects("podgroups", group) if group else ():
            if key_of(pod_group) == name:
                set_minimums(view, group, pod_group["spec"])
                view.groups = view.groups or _named_gangs(pod_group)
    return found


def _named_gangs(obj: Object) -> set[str]:
    notes = obj["metadata"].get("annotations") or {}
    words = (notes.get(KOORDINATOR + key) for key in ("groups", "gang-groups"))
    return set(names_in(next(filter(None, words), "[]")))


def group_of(name: str, views: Mapping[str, GangView]) -> set[str]:
    """The gangs that are placed together with this one: each names another of them, and it back."""
    group, todo = set[str](), {name}
    while todo:
        group.add(one := todo.pop())
        named = views[one].groups & views.keys()
        todo |= {each for each in named if one in views[each].groups} - group
    return group


def set_minimums(view: GangView, group: str, spec: Mapping[str, Any]) -> None:
    """Take up the minimums that a PodGroup gives."""
    view.defined = True
    if group == NATIVE:
        view.minimum = spec["schedulingPolicy"].get("gang", {}).get("minCount", 0)
    else:
        view.minimum = spec.get("minMember", 0)
        view.minimums = dict(spec.get("minTaskMember") or {})


def key_of(obj: Object) -> str:
    """``namespace/name``."""
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
