"""Queues: whose pods they take, what they may use, and who may take from whom."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.specification.bindings import Binding
from tests.specification.gangs import gang_of, group_of
from tests.specification.manifests import (
    Amounts,
    Object,
    added,
    amounts,
    labels_of,
    name_of,
    node_of,
    notes_of,
    offers,
    priority_of,
    seconds_in,
    selects,
)
from tests.specification.premises import Premises
from tests.specification.trace import NODES, PODS, QUEUES, World

_QUEUE, _VOLCANO = "scheduling.volcano.sh/queue-name", "volcano.sh/"
_OWNERS = ("apps/replicasets", "apps/statefulsets", "apps/deployments", "apps/daemonsets")
_OWNERS += ("batch/jobs", "batch.volcano.sh/jobs", "arranger.io/tyjobs")
#: Operators' jobs whose pods are gangs that nobody else defines: but for MPIJobs all of their pods.
_KUBEFLOW = ("pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs", "jaxjobs")
_OF_KUBEFLOW = tuple(f"kubeflow.org/{plural}" for plural in _KUBEFLOW)
_BY_OWNER = "arranger.io/gang-by-owner"
_PRODUCT = re.compile(r"(?P<vendor>.+?)/(?P<kind>\w+)\.product")


def named_queue(world: World, pod: Object) -> str:
    """The queue that a pod names, or its PodGroup, or the job whose pods are a gang by it."""
    own = notes_of(pod).get(_QUEUE) or labels_of(pod).get(_QUEUE)
    if own or gang_of(pod)[0]:
        group = group_of(world, pod) or {"spec": {}}
        return str(own or group["spec"].get("queue") or "default")
    job = job_of(world, pod) or {"metadata": {}, "spec": {}}
    policy = (job["spec"].get("runPolicy") or {}).get("schedulingPolicy") or {}
    said = policy.get("queue") or notes_of(job).get(_QUEUE) or labels_of(job).get(_QUEUE)
    return str(said or "default")


def job_of(world: World, pod: Object) -> Object | None:
    """The job of Kubeflow's that a pod is in a gang by, unless it is in another or in none."""
    job = _owner(world, pod, _OF_KUBEFLOW)
    off = any(notes_of(each).get(_BY_OWNER) == "false" for each in (pod, job) if each)
    return None if off or gang_of(pod)[0] else job


def path(world: World, name: str) -> list[Object]:
    """A queue and those above it, itself first."""
    found: list[Object] = []
    while (queue := world.get(QUEUES, name)) is not None and queue not in found:
        found.append(queue)
        name = queue["spec"].get("parent") or "root"
    if not found and name == "default":
        found = [{"metadata": {"name": "default"}, "spec": {}}, *path(world, "root")]
    return found


def queue_of(world: World, pod: Object) -> str:
    """The queue that a pod is charged to: the default one where it may not use what it names."""
    name = named_queue(world, pod)
    return name if _is_for(world, name, pod) else "default"


def _is_for(world: World, name: str, pod: Object) -> bool:
    space = pod["metadata"]["namespace"]
    said = [queue["spec"].get("namespaceSelector") for queue in path(world, name)]
    labels = {"kubernetes.io/metadata.name": space, **world.namespaces().get(space, {})}
    return all(selects(each, labels) for each in said if each is not None)


def run_time_limit(world: World, pod: Object) -> float | None:
    """How long a pod may run by its annotation and its queues, in seconds; None for ever."""
    above = path(world, queue_of(world, pod)) if world.of(QUEUES) else ()
    texts = (notes_of(each).get("arranger.io/max-run-time") for each in (pod, *above))
    limits = (seconds_in(text) for text in texts if text)
    return min((each for each in limits if each is not None), default=None)


def is_closed(queue: Object) -> bool:
    """Whether a queue takes no work, by its owner's word or else by what others have written."""
    said = notes_of(queue).get("arranger.io/queue-state")
    by_parent = notes_of(queue).get(_VOLCANO + "closed-by-parent") == "true"
    state = (queue.get("status") or {}).get("state")
    if said in ("Open", "Closed"):
        return said == "Closed"
    return state in ("Closed", "Closing") and not by_parent


def name(queue: Object) -> str:
    """What a queue is called."""
    return str(queue["metadata"]["name"])


# --- at a Binding --------------------------------------------------------------------------------


def its_queue_takes_it(b: Binding) -> Iterator[str]:
    """Where there are queues a pod's is there, open, the end of a branch, and for its namespace."""
    queues = b.world.of(QUEUES)
    if not queues or not all_known(b):
        return
    named = named_queue(b.world, b.was)
    above = path(b.world, named)
    if named == "root" or not above:
        yield f"queue {named} takes no pods"
    if any(each["spec"].get("parent") == named for each in queues.values()):
        yield f"other queues are part of queue {named}"
    for each in above:
        if name(each) != "root" and is_closed(each):
            yield f"queue {name(each)} is closed"
    if not _is_for(b.world, named, b.was):
        yield f"queue {named} is not for its namespace"


def its_queue_may_use_it(b: Binding) -> Iterator[str]:
    """No queue uses more than its capability or its cards, of whatever the pod asks for."""
    if not b.world.of(QUEUES) or not all_known(b):
        return
    mine = charged(b.world, b.was, b.node)
    cards, free = set(cards_of(b.node).values()), _free_of_limits(b, mine)
    for queue in path(b.world, queue_of(b.world, b.was)):
        capability, quota = amounts(queue["spec"].get("capability")), card_quota(queue)
        if not capability and quota is None:
            continue
        used = used_by(b.world, name(queue), b)
        for what, n in mine.items():
            limit = (quota or {}).get(what, 0) if what in cards else capability.get(what)
            if (what in cards and quota is None) or limit is None or what in free:
                continue
            if used.get(what, 0) + n > limit:
                of = f"{used.get(what, 0)} of {limit} {what}"
                yield f"queue {name(queue)} uses {of} already, and it asks for {n}"


def the_guarantees_of_others_are_kept(b: Binding) -> Iterator[str]:
    """What all queues at the top use, or are guaranteed if that is more, fits into the cluster.

    What a queue uses within its own guarantee is its right in any case. Said only where no queue is
    part of another, and of nodes all of which are known.
    """
    queues = b.world.of(QUEUES)
    guaranteed = {
        key: amounts((queue["spec"].get("guarantee") or {}).get("resource"))
        for key, queue in queues.items()
    }
    if not any(guaranteed.values()) or not all_known(b) or has_guarantees_below(b.world):
        return
    if not b.knows_all(NODES, b.world.of(NODES)):
        return
    cluster = added(*(offers(node) for node in b.world.of(NODES).values()))
    own = queue_of(b.world, b.was)
    used = {key: used_by(b.world, key, b) for key in {*queues, "default"}}
    mine = charged(b.world, b.was, b.node)
    free = _free_of_limits(b, mine)
    for what, n in mine.items():
        if what in free or not any(each.get(what) for each in guaranteed.values()):
            continue
        used[own][what] = used[own].get(what, 0) + n
        if used[own][what] <= guaranteed.get(own, {}).get(what, 0):
            continue
        stakes = {
            key: max(each.get(what, 0), guaranteed.get(key, {}).get(what, 0))
            for key, each in used.items()
        }
        if sum(stakes.values()) > cluster.get(what, 0):
            yield f"{what} is guaranteed to other queues: {stakes} of {cluster.get(what, 0)}"


IN_QUEUES = (its_queue_takes_it, its_queue_may_use_it, the_guarantees_of_others_are_kept)


def _free_of_limits(b: Binding, mine: Mapping[str, int]) -> Sequence[str]:
    """Of what a pod may use as much as there is, beside guarantees, too: it counts by its cards."""
    cards = set(cards_of(b.node).values())
    return ("cpu", "memory") if b.premises.exempt_card_pods and cards & mine.keys() else ()


def has_guarantees_below(world: World) -> bool:
    """Whether there are guarantees where one queue is part of another: no rule speaks of these."""
    queues = [queue["spec"] for queue in world.of(QUEUES).values()]
    parts = any(spec.get("parent") not in (None, "", "root") for spec in queues)
    return parts and any((spec.get("guarantee") or {}).get("resource") for spec in queues)


def all_known(b: Binding) -> bool:
    """Whether all is known that says which queues there are, and whose the pod is."""
    group = group_of(b.world, b.was) or job_of(b.world, b.was)
    about = b.knows(PODS, b.was) and all(
        b.knows(QUEUES, each) for each in b.world.of(QUEUES).values()
    )
    return about and (group is None or b.at - _edited(b, group) >= b.premises.notice)


def _edited(b: Binding, group: Object) -> float:
    key = name_of(group)
    resource = f"{group['apiVersion'].partition('/')[0]}/{group['kind'].lower()}s"
    return b.world.changed.get((resource, key), (float("-inf"), None))[0]


def used_by(world: World, queue: str, b: Binding) -> Amounts:
    """What the pods of a queue and its parts are charged, as far as they must be known.

    Pods with cards may be free of limits on CPU and memory: those that came a moment ago may have
    been let in when this one had its place already, and its Binding was still on its way.
    """
    total: Amounts = {}
    below: dict[str, bool] = {}
    for pod in world.placed():
        if pod["metadata"]["uid"] == b.uid or not b.knows(PODS, pod):
            continue
        own = queue_of(world, pod)
        if own not in below:
            below[own] = queue in map(name, path(world, own))
        if below[own]:
            node = world.get(NODES, node_of(pod))
            amounts = charged(world, pod, node)
            since = world.changed.get((PODS, name_of(pod)), (float("-inf"), None))[0]
            late = b.premises.exempt_card_pods and b.at - since < b.premises.notice
            free = ("cpu", "memory") if late and {*cards_of(node).values()} & {*amounts} else ()
            for what, n in amounts.items():
                total[what] = total.get(what, 0) + n * (what not in free)
    return total


def charged(world: World, pod: Object, node: Object | None) -> Amounts:
    """What a pod counts as on a node: what it asks for, and the cards that these are there."""
    asked = {key: n for key, n in world.asked[pod["metadata"]["uid"]].items() if key != "pods"}
    cards = {
        card: asked[resource] for resource, card in cards_of(node).items() if resource in asked
    }
    return added(asked, cards)


def cards_of(node: Object | None) -> dict[str, str]:
    """Resource → the card that it is on a node, by the first label of a product."""
    labels = labels_of(node) if node is not None else {}
    for label in sorted(labels):
        found = _PRODUCT.fullmatch(label)
        if found is None or "/mig-" in label or node is None:
            continue
        vendor, whole = found["vendor"], f"{found['vendor']}/{found['kind']}"
        cards = {}
        for resource in offers(node):
            if resource == whole:
                cards[resource] = labels[label]
            elif resource == f"{whole}.shared":
                size = round(int(labels.get(f"{whole}.memory") or 0) / 1024)
                share = f"mps-{size}g*1/{labels.get(f'{whole}.replicas', '1')}"
                cards[resource] = f"{labels[label]}/{share}"
            elif resource.startswith(f"{vendor}/mig-"):
                part = resource.removeprefix(f"{vendor}/mig-")
                cards[resource] = f"{labels[label]}/mig-{part}-mixed"
        return cards
    return {}


def card_quota(queue: Object) -> Mapping[str, int] | None:
    """Card → how many the queue may use; None where cards are not counted."""
    text = notes_of(queue).get(_VOLCANO + "card.quota")
    if not text:
        return None
    try:
        said: Any = json.loads(text)
        return {card: int(n) for card, n in said.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


# --- evictions -----------------------------------------------------------------------------------


def said(world: World, pod: Object, key: str) -> str:
    """What an annotation says of a pod: its own, its PodGroup's, or that of an owner."""
    found = notes_of(pod).get(key)
    group = group_of(world, pod) or job_of(world, pod)
    if not found and group is not None:
        found = notes_of(group).get(key)
    owner: Object | None = pod
    while not found and (owner := _owner(world, owner, _OWNERS)) is not None:
        found = notes_of(owner).get(key)
    return str(found or "")


def _owner(world: World, obj: Object | None, kinds: tuple[str, ...]) -> Object | None:
    for each in obj["metadata"].get("ownerReferences") or () if obj is not None else ():
        if each.get("controller"):
            key = f"{obj['metadata']['namespace']}/{each['name']}" if obj is not None else ""
            found = (world.get(resource, key) for resource in kinds)
            return next((o for o in found if o and o["metadata"]["uid"] == each["uid"]), None)
    return None


def service_of(world: World, pod: Object, premises: Premises) -> tuple[str, bool]:
    """(``inference``, ``training`` or "", whether an annotation says so)."""
    service = stated = said(world, pod, _VOLCANO + "service.type")
    owners = pod["metadata"].get("ownerReferences")
    if not stated and owners:
        service = premises.service_by_owner.get(owners[0]["kind"], "")
    for queue in path(world, queue_of(world, pod)):
        believed = queue["spec"].get("serviceTypes")
        if believed is not None and service not in believed:
            return "", False
    return (service if service in ("inference", "training") else ""), bool(stated)


def importance(world: World, pod: Object) -> int:
    """What a pod's priority, or its PodGroup's, counts as: so much as its queues believe."""
    group = group_of(world, pod) or {"spec": {}}
    stated = group["spec"].get("priority")
    mine = priority_of(pod) if stated is None else int(stated)
    for queue in path(world, queue_of(world, pod)) if world.of(QUEUES) else ():
        most = queue["spec"].get("maxPriority")
        mine = mine if most is None else min(mine, int(most))
    return mine


def may_evict(world: World, taker: Object, victim: Object, premises: Premises) -> bool:
    """Whether a waiting pod may ever have the place of another, be it alone or with its gang.

    By priority where there are no queues, and inside one. Between queues inference takes from less
    important training; where no annotation says what pods are, a queue that deserves something
    takes from others.
    """
    group = group_of(world, taker) or {"spec": {}}
    if "Never" in (taker["spec"].get("preemptionPolicy"), group["spec"].get("preemptionPolicy")):
        return False
    mine, theirs = importance(world, taker), importance(world, victim)
    if not world.of(QUEUES):
        return theirs < mine
    label = labels_of(victim).get(_VOLCANO + "preemptable")
    spared = notes_of(victim).get(_VOLCANO + "preemptable") or label
    spared = spared or said(world, victim, _VOLCANO + "preemptable")
    if (spared or "true").lower() not in ("true", "1", "t"):
        return False
    own, other = queue_of(world, taker), queue_of(world, victim)
    if own == other:
        return theirs < mine and premises.preempt_within_queue
    if not path(world, other) or path(world, other)[0]["spec"].get("reclaimable") is False:
        return False
    (wants, claims), (has, says) = (service_of(world, p, premises) for p in (taker, victim))
    above = theirs < mine or theirs == mine == 0 or not premises.respect_priority
    if (wants, has) == ("inference", "training") and above:
        return True
    due = [q["spec"].get("deserved") or q["spec"].get("guarantee") for q in path(world, own)]
    return not (claims or says) and any(due)
