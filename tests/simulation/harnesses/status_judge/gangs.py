"""What Gangs and PodGroups must say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from tests.simulation.harnesses.status_judge.fields import (
    Object,
    Server,
    absent,
    condition_faults,
    differ,
    in_order,
)
from tests.simulation.harnesses.status_judge.views import (
    COMMUNITY,
    ENDS,
    NATIVE,
    SIGS,
    VOLCANO,
    GangView,
    counts,
    gang_views,
    group_of,
    key_of,
    membership,
    set_minimums,
    task_status,
)

#: Statuses of Volcano's tasks that count towards the minimum.
READY = ("Bound", "Running", "Succeeded")
#: What of a count the pods that are there decide at any time, an end or not.
NOW = ("members", "placed", "bound", "scheduled", "running")


def gang_faults(cluster: Server, served: frozenset[str], now: datetime) -> Iterator[str]:
    """What is untrue in the status of Gangs and of PodGroups, as controllers write it.

    Args:
        served: the resources that have a definition, ``podgroups.scheduling.volcano.sh``.
    """
    views = gang_views(cluster)
    if "gangs.arranger.io" in served:
        gangs = {key_of(gang): gang for gang in cluster.objects("gangs", "arranger.io")}
        # A finalizer of somebody else's may keep one that has been deleted.
        kept = {name for name, gang in gangs.items() if "deletionTimestamp" in gang["metadata"]}
        if gangs.keys() - (kept - views.keys()) != views.keys():
            yield f"Gangs: there are {sorted(gangs)}, and pods of {sorted(views)}"
        for name in gangs.keys() & views.keys():
            status = gangs[name].get("status") or {}
            view = _with_recorded_bundles(views[name][1], gangs[name]).with_word(status)
            for fault in _of_gang(view, status):
                yield f"Gang {name}: {fault}"
    for group in (SIGS, COMMUNITY, VOLCANO, NATIVE):
        for pod_group in cluster.objects("podgroups", group):
            if f"podgroups.{group}" not in served:
                continue
            name = key_of(pod_group)
            named, view = views.get(name, ("", GangView()))
            view = view if named == group else GangView()
            set_minimums(view, group, pod_group["spec"])
            for fault in _of_pod_group(group, view, pod_group, now):
                yield f"PodGroup {name} of {group}: {fault}"


def _with_recorded_bundles(view: GangView, gang: Object) -> GangView:
    """A bundle whose pods are all gone stays needed; only the Gang still says so."""
    for bundle in gang["spec"]["bundles"]:
        if bundle["name"]:
            view.minimums.setdefault(bundle["name"], bundle["minMember"])
    return view


def _of_gang(view: GangView, status: Object) -> Iterator[str]:
    phase, of = view.phase(status.get("phase", "")), counts(view.pods)
    yield from differ("phase", status.get("phase"), phase)
    yield from _of_counts(view, status, of)
    least = max(view.minimum, sum(view.minimums.values()))
    yield from differ("minMember", status.get("minMember"), least)
    minimums = view.minimums or {"": view.minimum}
    names = {membership(pod)[2] for pod in view.pods} | view.minimums.keys()
    said = {bundle["name"]: bundle for bundle in status.get("bundles", [])}
    yield from differ("bundles", sorted(said), sorted(names or {""}))
    for name in names & said.keys():
        for fault in _of_counts(view, said[name], counts(view.of_bundle(name)), status):
            yield f"bundle {name}: {fault}"
        yield from differ(
            f"bundle {name}: minMember", said[name].get("minMember"), minimums.get(name, 0)
        )
    yield from _of_why(view, status, phase, _outlives_pods(status, of))
    yield from absent(status, "conditions")


def scheduler_faults(cluster: Server, now: datetime) -> Iterator[str]:
    """What is untrue in the part of the status of Gangs that the scheduler writes.

    A member that is being deleted or evicted keeps its node no longer: gangs whose members are all
    on their way begin anew, and those of a group do so together.
    """
    views = {name: view for name, (_, view) in gang_views(cluster).items()}
    gangs = {key_of(gang): gang for gang in cluster.objects("gangs", "arranger.io")}
    for name in views.keys() & gangs.keys():
        views[name] = _with_recorded_bundles(views[name], gangs[name])
    for name, view in views.items():
        gang, group = gangs.get(name), group_of(name, views)
        stays = {each: views[each].staying() for each in group}
        if any(views[each].disagrees for each in group):
            continue
        for fault in _of_minimum(gang, stays):
            yield f"Gang {name}: {fault}"
        held = any(counts(views[each].pods)["placed"] for each in group)
        for fault in _of_recorded(view, gang, now, held=held) if gang is not None else ():
            yield f"Gang {name}: {fault}"


def _of_minimum(gang: Object | None, group: Mapping[str, GangView]) -> Iterator[str]:
    """Whether the group has had its minimum, since its members last had no node at all."""
    said = ((gang or {}).get("status") or {}).get("resourceSatisfied")
    numbers = {name: counts(view.pods) for name, view in group.items()}
    kept = any(of["bound"] > of["succeeded"] for of in numbers.values())
    lack = {n for n, view in group.items() if not (view.defined and view.enough("bound"))}
    awaited = set[str]().union(*(view.groups for view in group.values())) - group.keys()
    if not said and not lack and not awaited and (kept or gang is not None):
        yield "it has its nodes, and resourceSatisfied is not set"
    # A Job that is finished deletes its PodGroup: a gang ended well then if any pod succeeded.
    ended = {n for n in lack if not group[n].defined and numbers[n]["succeeded"]}
    # Who needs nobody has that once somebody of it has been tried.
    lack -= {n for n in lack if group[n].needs_nobody}
    if said and not kept and lack - ended:
        yield "no member keeps a node, and resourceSatisfied is set"


def _of_recorded(view: GangView, gang: Object, now: datetime, *, held: bool) -> Iterator[str]:
    """Since when it waits; ``held`` if it or another gang of its group has any node."""
    since, of = (gang.get("status") or {}).get("waitingSince"), counts(view.pods)
    # Once the minimum is bound, a member with a nominated node waits for victims of its own.
    if of["placed"] > of["bound"] and since is None and not view.enough("bound"):
        yield "nodes are held, and waitingSince is not there"
    if not held and since is not None:
        yield f"no node is held, and it waits since {since}"
    began = [pod["metadata"]["creationTimestamp"] for pod in view.pods]
    yield from in_order("waitingSince", [min(began), since], now)


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
            yield from differ(name, have, number)


def _outlives_pods(status: Object, of: Mapping[str, int]) -> bool:
    """Whether it still counts members as ended that are gone."""
    return any(status.get(name) != of[name] for name in ("succeeded", "failed"))


def _of_why(view: GangView, status: Object, phase: str, removed: bool) -> Iterator[str]:
    """Reason and message; ``removed`` if members that have ended are gone, and still counted."""
    have = (status.get("reason"), status.get("message"))
    told, of = view.told(), counts(view.pods)
    if phase == "Failed":
        yield from differ("reason", have[0], "MembersFailed")
        text = f"{of['failed']}/{of['members']} members have failed"
        fits = have[1] == text or (removed and str(have[1]).endswith(" members have failed"))
        yield from () if fits else differ("message", have[1], text)
    elif phase in ("Scheduled", "Running", "Finished"):
        yield from differ("reason and message", have, (None, None))
    elif told:
        most = max(told.values())
        often = [
            (reason or None, message or None) for (reason, message), n in told.items() if n == most
        ]
        if have not in often:
            yield f"reason and message are {have}, and pods are told {dict(told)}"
    elif not view.pods:
        yield from differ("reason and message", have, (None, None))
    elif not view.defined:
        yield from differ("reason", have[0], "NotDefined")
        if "how many members must run" not in str(have[1]):
            yield f"message is {have[1]!r}, and nobody has said how many are needed"
    elif phase == "Pending":
        text = f"{len(view.pods)}/{view.least} members have arrived"
        yield from differ("reason and message", have, ("NotEnoughMembers", text))
    else:
        yield from differ("reason and message", have, (None, None))


def _of_pod_group(group: str, view: GangView, pod_group: Object, now: datetime) -> Iterator[str]:
    status, of = pod_group.get("status") or {}, counts(view.pods)
    if group == NATIVE:
        yield from _of_native(view, pod_group, now)
        return
    numbers = {name: of[name] for name in ("running", "succeeded", "failed")}
    if group == VOLCANO:
        phase = view.volcano_phase(status.get("phase", ""))
        # Whether a queue admits what has no pods is judged where queues are.
        refused = any(c.get("reason") == "NotAdmitted" for c in status.get("conditions") or ())
        if refused and phase == "Inqueue" and not view.pods:
            phase = "Pending"
        numbers["running"] = sum(task_status(pod) == "Running" for pod in view.pods)
        yield from _of_volcano_conditions(view, pod_group, phase, now)
    else:
        phase = view.phase(status.get("phase", ""))
        if group == COMMUNITY and phase == "Scheduling" and len(view.pods) < view.least:
            phase = "Pending"
        numbers["scheduled"] = of["bound"]
        yield from _of_why(view, status, phase, _outlives_pods(status, of))
        yield from _of_start(view, status, phase, now)
        owners = {
            f"{pod['metadata']['namespace']}/{owner['name']}"
            for pod in view.pods
            for owner in pod["metadata"].get("ownerReferences") or ()
        }
        yield from differ("occupiedBy", status.get("occupiedBy"), ",".join(sorted(owners)) or None)
        yield from absent(status, "conditions")
        if group == COMMUNITY:
            phase = {"PreScheduling": "Scheduling", "Scheduled": "Scheduling"}.get(phase, phase)
    yield from differ("phase", status.get("phase"), phase)
    yield from _of_counts(view, status, numbers)


def _of_start(view: GangView, status: Object, phase: str, now: datetime) -> Iterator[str]:
    """When it was first tried: not after the first report that is still there."""
    reports = [c["lastTransitionTime"] for c in view.reports()]
    start = status.get("scheduleStartTime")
    if start is None:
        if reports and phase not in ("Pending", "PreScheduling"):
            yield f"scheduleStartTime is not there, and pods were told something at {reports}"
        return
    yield from in_order("scheduleStartTime", [start, min(reports, default=None)], now)


def _of_volcano_conditions(
    view: GangView, pod_group: Object, phase: str, now: datetime
) -> Iterator[str]:
    """Each says what is so now: the gang has its nodes, or somebody waits and is told why."""
    must: dict[str, tuple[str, str, set[str]]] = {}
    if phase in ("Running", "Completed"):
        must["Scheduled"] = ("True", "tasks in gang are ready to be scheduled", {""})
    elif any(view.messages()):
        must["Unschedulable"] = ("True", "NotEnoughResources", view.messages())
    elif phase == "Pending" and not view.pods:
        said = (pod_group.get("status") or {}).get("conditions") or [{}]
        must["Unschedulable"] = ("True", "NotAdmitted", {said[0].get("message", "")})
    elif phase == "Unknown":
        ready = sum(task_status(pod) in READY for pod in view.pods)
        tasks = Counter(task_status(pod) for pod in view.pods)
        tasks["minAvailable"] = view.least
        parts = sorted(f"{n} {name}" for name, n in tasks.items() if n and name != "Discarded")
        roles = (
            (n, sum(task_status(pod) in READY for pod in view.of_bundle(b)))
            for b, n in view.minimums.items()
        )
        lack = max(view.least - ready, sum(max(0, n - have) for n, have in roles))
        text = f"{lack}/{len(view.pods)} tasks in gang unschedulable: pod group is not ready, "
        must["Unschedulable"] = ("True", "NotEnoughResources", {text + ", ".join(parts)})
    conditions = (pod_group.get("status") or {}).get("conditions")
    since = pod_group["metadata"]["creationTimestamp"]
    yield from condition_faults(conditions, must, since=since, now=now)


def _of_native(view: GangView, pod_group: Object, now: datetime) -> Iterator[str]:
    """True once it was scheduled, for good; else why not, when a pod is told so."""
    conditions = (pod_group.get("status") or {}).get("conditions")
    early = pod_group["apiVersion"].endswith(("v1alpha1", "v1alpha2"))
    kind = "PodGroupScheduled" if early else "PodGroupInitiallyScheduled"
    since = pod_group["metadata"]["creationTimestamp"]
    said = next((c for c in conditions or () if c.get("type") == kind), {})
    must: dict[str, tuple[str, str, set[str]]] = {}
    if said.get("status") == "True" or (view.pods and view.enough("bound")):
        must[kind] = ("True", "Scheduled", {""})
    elif any(view.messages()):
        must[kind] = ("False", "Unschedulable", view.messages())
    elif said:
        must[kind] = ("False", "Unschedulable", {said.get("message", "")})
    yield from condition_faults(conditions, must, since=since, now=now)
