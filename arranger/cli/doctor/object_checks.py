"""What ``arranger doctor`` sees in the objects of a cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Sized
from datetime import timedelta
from typing import Final

from arranger.api.listing import first_names
from arranger.api.settings.gang_membership import gang_membership
from arranger.api.types.core import Pod
from arranger.cli.doctor.finding import CheckContext, Finding
from arranger.shadow.shadow import Shadow

_NAMED: Final = 5
#: Findings of one kind about what tenants write; the others are counted.
_MOST: Final = 20
#: A pod that nobody has said anything about for so long is not looked at by its scheduler.
_UNSEEN_AFTER: Final = timedelta(minutes=2)


def objects(context: CheckContext) -> Iterator[Finding]:
    """All checks of objects."""
    shadow = context.shadow
    if shadow is None:
        yield Finding("objects", "unseen", "nodes or pods may not be listed")
        return
    pods = list(shadow.objects.of(Pod))
    yield from _unread(shadow)
    yield from _schedulers(context, pods)
    yield from _profiles(context, pods)
    yield from _queues(shadow)
    yield from _gangs(shadow, pods)


def _unread(shadow: Shadow) -> Iterator[Finding]:
    for line in shadow.unread[:_MOST]:
        mend = "the right to list it, or mend the object"
        yield Finding("what was read", "unseen", line, mend)
    yield from _others("what was read", "unseen", shadow.unread)
    if not shadow.unread:
        yield Finding("what was read", "ok", "everything that the scheduler reads")


def _schedulers(context: CheckContext, pods: Sequence[Pod]) -> Iterator[Finding]:
    """Whether others place pods on the same nodes."""
    ours = {profile.scheduler_name for profile in context.config.profiles}
    by_node: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        owner = pod.metadata.controller
        of_node = owner is not None and owner.kind in ("DaemonSet", "Node")
        if pod.spec.node_name and not pod.terminal and not of_node:
            by_node[pod.spec.node_name].add(pod.spec.scheduler_name or "default-scheduler")
    shared = Counter(name for names in by_node.values() if names & ours for name in names - ours)
    if not shared:
        yield Finding("other schedulers", "ok", "none has pods on nodes where ours run")
    for name, count in sorted(shared.items())[:_MOST]:
        yield Finding(
            "other schedulers",
            "wrong",
            f"{name} has pods on {count} nodes where ours run, too",
            "keep them apart by taints: two schedulers may give the same room away at once",
        )
    yield from _others("other schedulers", "wrong", shared)


def _profiles(context: CheckContext, pods: Sequence[Pod]) -> Iterator[Finding]:
    """Profiles that nobody uses, and pods that nobody schedules."""
    names = Counter(pod.spec.scheduler_name or "default-scheduler" for pod in pods)
    for profile in context.config.profiles:
        name = profile.scheduler_name
        if names[name]:
            yield Finding(f"profile {name}", "ok", f"{names[name]} pods name it")
        else:
            mend = f"spec.schedulerName: {name} in pods, or remove the profile"
            yield Finding(f"profile {name}", "wrong", "no pod names it", mend)
    ours = {profile.scheduler_name for profile in context.config.profiles}
    lost: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        created, name = pod.metadata.creation_timestamp, pod.spec.scheduler_name
        if (
            not pod.spec.node_name
            and not pod.terminal
            and name not in ours
            and not pod.status.conditions
            and (created is None or context.now - created > _UNSEEN_AFTER)
        ):
            lost[name or "default-scheduler"].append(pod.key)
    for name, keys in sorted(lost.items())[:_MOST]:
        text = f"nobody looks at pods of {name}: {first_names(sorted(keys), _NAMED)}"
        mend = f"a scheduler or a profile of that name; ours: {', '.join(sorted(ours))}"
        yield Finding("pods without a profile", "wrong", text, mend)
    yield from _others("pods without a profile", "wrong", lost)
    if not lost:
        yield Finding("pods without a profile", "ok", "none")


def _queues(shadow: Shadow) -> Iterator[Finding]:
    ledger = shadow.engine.ledger
    wrong = {name: state.problems for name, state in ledger.queues.items() if state.problems}
    for name, problems in sorted(wrong.items()):
        mend = f"kubectl edit queue {name}"
        yield Finding("queues", "wrong", f"{name}: {'; '.join(problems)}", mend)
    if not wrong:
        yield Finding("queues", "ok", f"{len(ledger.queues)}, all of them valid")


def _gangs(shadow: Shadow, pods: Sequence[Pod]) -> Iterator[Finding]:
    wrong: dict[str, set[str]] = defaultdict(set)
    for name, gang in shadow.engine.registry.gangs.items():
        wrong[name].update(gang.problems)
    for pod in pods:
        membership = gang_membership(pod)
        if membership is not None and membership.problems:
            wrong[membership.gang].update(membership.problems)
    found = {name: problems for name, problems in wrong.items() if problems}
    for name, problems in sorted(found.items())[:_MOST]:
        mend = "the annotations of its pods, or its PodGroup: docs/guide/gangs.md"
        said = first_names(sorted(problems), _NAMED, "; ")
        yield Finding("gangs", "wrong", f"{name}: {said}", mend)
    yield from _others("gangs", "wrong", found)
    if not found:
        yield Finding("gangs", "ok", f"{len(shadow.engine.registry.gangs)}, all of them valid")


def _others(check: str, state: str, found: Sized) -> Iterator[Finding]:
    """How many more there are than are shown."""
    if (more := len(found) - _MOST) > 0:
        yield Finding(check, state, f"and {more} more", "as with those above")
