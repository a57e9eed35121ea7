"""What Queues must say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from arranger.api.quantity import milli_value
from tests.simulation.harnesses.status_judge.fields import (
    Object,
    Server,
    absent,
    condition_faults,
    differ,
)
from tests.simulation.harnesses.status_judge.views import (
    VOLCANO,
    key_of,
    membership,
    ours,
    phase_of_pod,
)
from tests.specification.vocabulary.manifests import selects

QUEUE = "scheduling.volcano.sh/queue-name"
GPU = "nvidia.com/gpu"

#: The annotation that says that a queue is closed only because one above it is.
BY_PARENT = "volcano.sh/closed-by-parent"


class _Cluster:
    """What of a cluster decides the status of its queues."""

    def __init__(self, cluster: Server) -> None:
        self.queues = {q["metadata"]["name"]: q for q in cluster.objects("queues", VOLCANO)}
        self.groups = {key_of(g): g for g in cluster.objects("podgroups", VOLCANO)}
        self.pods = cluster.objects("pods")
        self.namespaces = {
            n["metadata"]["name"]: n["metadata"].get("labels") or {}
            for n in cluster.objects("namespaces")
        }
        self.cards = {
            n["metadata"]["name"]: card
            for n in cluster.objects("nodes")
            if (card := (n["metadata"].get("labels") or {}).get(f"{GPU}.product"))
        }

    def queue_of(self, pod: Object) -> str:
        """The queue that it names, or its PodGroup's, if it may use that; or ``default``."""
        meta = pod["metadata"]
        own = (meta.get("annotations") or {}).get(QUEUE) or (meta.get("labels") or {}).get(QUEUE)
        group = self.groups.get(_pod_group(pod), {"spec": {}})
        return self.usable(str(own or group["spec"].get("queue") or "default"), meta["namespace"])

    def usable(self, name: str, namespace: str) -> str:
        """The queue, or ``default`` if it, or one above it, is not for the namespace."""
        own = [self.queues[name]] if name in self.queues else []
        along = [*own, *self.above(name)] if own else []
        said = [each["spec"].get("namespaceSelector") for each in along]
        labels = self.namespaces.get(namespace, {})
        fits = all(selects(each, labels) for each in said if each is not None)
        return name if fits else "default"

    def below(self, name: str) -> set[str]:
        """A queue and those under it."""
        found = {name}
        while more := {
            n for n, q in self.queues.items() if q["spec"].get("parent") in found and n not in found
        }:
            found |= more
        return found

    def above(self, name: str) -> list[Object]:
        """The queues that it is part of."""
        found: list[str] = []
        while (name := self.queues[name]["spec"].get("parent", "")) in self.queues:
            if name in found:
                break
            found.append(name)
        return [self.queues[each] for each in found]

    def used(self, names: set[str]) -> tuple[Counter[str], Counter[str]]:
        """What pods with a node request in these queues: resources in thousandths, and cards."""
        amounts: Counter[str] = Counter()
        cards: Counter[str] = Counter()
        for pod in self.pods:
            node = pod["spec"].get("nodeName")
            ended = phase_of_pod(pod) in ("Succeeded", "Failed")
            if not node or ended or self.queue_of(pod) not in names:
                continue
            for container in pod["spec"]["containers"]:
                requests = container.get("resources", {}).get("requests", {})
                for resource, n in requests.items():
                    amounts[resource] += milli_value(n)
                    if resource == GPU and node in self.cards:
                        cards[self.cards[node]] += int(n)
        return +amounts, +cards

    def phases(self, name: str) -> Counter[str]:
        """Phase → groups of a queue: PodGroups, other gangs, and pods by themselves."""
        found = Counter(
            str((group.get("status") or {}).get("phase") or "Pending")
            for group in self.groups.values()
            if self.usable(group["spec"].get("queue") or "default", group["metadata"]["namespace"])
            == name
        )
        loose: dict[str, set[str]] = {}
        for pod in self.pods:
            gang = membership(pod)[1]
            if ours(pod) and self.queue_of(pod) == name and gang not in self.groups:
                ended = phase_of_pod(pod) in ("Succeeded", "Failed")
                bound = "Running" if pod["spec"].get("nodeName") else "Pending"
                state = "Completed" if ended else bound
                loose.setdefault(gang or pod["metadata"]["uid"], set()).add(state)
        for states in loose.values():
            found[next(s for s in ("Running", "Pending", "Completed") if s in states)] += 1
        return found


def _pod_group(pod: Object) -> str:
    """The PodGroup of Volcano's that may say its queue."""
    group, name, _ = membership(pod)
    return name if group in ("", VOLCANO) else ""


def queue_faults(cluster: Server, now: datetime) -> Iterator[str]:
    """What is untrue in the status of Queues."""
    seen = _Cluster(cluster)
    for name, queue in seen.queues.items():
        for fault in (*_of_queue(seen, name, queue), *_of_conditions(seen, name, now)):
            yield f"Queue {name}: {fault}"


def _of_queue(seen: _Cluster, name: str, queue: Object) -> Iterator[str]:
    status = queue.get("status") or {}
    below = seen.below(name)
    amounts, cards = seen.used(below)
    expected: dict[str, object] = {
        phase.lower(): seen.phases(name)[phase]
        for phase in ("Pending", "Inqueue", "Running", "Unknown", "Completed")
    }
    for field, number in expected.items():
        if status.get(field) != number:
            yield f"{field} is {status.get(field)!r} and must be {number}"
    allocated = {n: milli_value(a) for n, a in (status.get("allocated") or {}).items()}
    said = +Counter({n: a for n, a in allocated.items() if n != "pods"})
    for card in cards:
        said.pop(card, None)
    if said != amounts:
        yield f"allocated is {dict(said)} and must be {dict(amounts)}"
    notes = queue["metadata"].get("annotations") or {}
    quota = json.loads(notes.get("volcano.sh/card.quota") or "{}")
    yield from _of_usage(status.get("usage") or {}, queue["spec"], quota, amounts, cards)
    yield from absent(status, "reservation")
    if quota:
        must = {
            card: {"allocated": cards[card], "quota": quota.get(card, 0)}
            for card in {*quota, *cards}
        }
        if status.get("cards") != must:
            yield f"cards is {status.get('cards')} and must be {must}"
    yield from _of_state(seen, below, name)


def _of_usage(
    said: Object,
    spec: Object,
    quota: Mapping[str, int],
    amounts: Mapping[str, int],
    cards: Mapping[str, int],
) -> Iterator[str]:
    """``used/limit``, for people."""
    for name in ("cpu", "memory"):
        used, _, limit = said.get(name, "").partition("/")
        yield from differ(f"usage.{name}", milli_value(used or "0"), amounts.get(name, 0))
        must = (spec.get("capability") or {}).get(name)
        have = None if limit in ("", "-") else milli_value(limit)
        yield from differ(f"limit of {name}", have, None if must is None else milli_value(must))
        if not used or not limit:
            yield f"usage.{name} is {said.get(name)!r}"
    shown = ", ".join(
        f"{card}: {cards.get(card, 0)}/{quota.get(card, 0) if quota else '-'}"
        for card in sorted({*quota, *cards})
    )
    yield from differ("usage.cards", said.get("cards"), shown or None)


def _of_conditions(seen: _Cluster, name: str, now: datetime) -> Iterator[str]:
    """Whether it makes sense; here of queues whose only fault may be their parent."""
    meta = seen.queues[name]["metadata"]
    parent = seen.queues[name]["spec"].get("parent", "")
    path = [name, *(each["metadata"]["name"] for each in seen.above(name))]
    problem = ""
    if parent and parent not in {*seen.queues, "root"}:
        problem = f"spec.parent: there is no queue {parent}"
    elif name in path[1:]:
        problem = f"spec.parent: {' is part of '.join(path)}"
    valid = ("False", "Invalid", [problem]) if problem else ("True", "Valid", [""])
    conditions = (seen.queues[name].get("status") or {}).get("conditions")
    yield from condition_faults(
        conditions,
        {"Valid": valid},
        since=meta["creationTimestamp"],
        now=now,
        generation={"Valid": meta["generation"]},
    )


def _of_state(seen: _Cluster, below: set[str], name: str) -> Iterator[str]:
    """Closing while it or a queue below it has some work, then Closed; and so with those below."""
    queue = seen.queues[name]
    state = (queue.get("status") or {}).get("state")
    marked = (queue["metadata"].get("annotations") or {}).get(BY_PARENT) == "true"
    itself, above = _is_closed(queue), any(map(_is_closed, seen.above(name)))
    if marked and not above:
        yield f"it is marked {BY_PARENT}, and nothing above it is closed"
    if above and not itself and not marked:
        yield f"it is closed by one above it, and not marked {BY_PARENT}"
    if not (itself or above):
        if state != "Open":
            yield f"state is {state} and must be Open"
        return
    work = any(n for q in below for phase, n in seen.phases(q).items() if phase != "Completed")
    work = work or bool(seen.used(below)[0])
    if state not in (("Closing", "Closed") if work else ("Closed",)):
        yield f"state is {state}, and there is {'work' if work else 'no work'}"


def _is_closed(queue: Object) -> bool:
    """Whether it is closed itself: as asked for, or as somebody has written for no other reason."""
    notes = queue["metadata"].get("annotations") or {}
    if asked := notes.get("arranger.io/queue-state"):
        return bool(asked == "Closed")
    state = (queue.get("status") or {}).get("state")
    return state in ("Closing", "Closed") and notes.get(BY_PARENT) != "true"
