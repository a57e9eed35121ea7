"""Queues: whose pods they take, what counts in them, and how pods stand in them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.specification.premises import Premises
from tests.specification.trace import QUEUES, World
from tests.specification.vocabulary.gangs import gang_of, group_of
from tests.specification.vocabulary.manifests import (
    Amounts,
    Object,
    added,
    amounts,
    labels_of,
    notes_of,
    offers,
    priority_of,
    seconds_in,
    selects,
)

_QUEUE, _VOLCANO = "scheduling.volcano.sh/queue-name", "volcano.sh/"
_OWNERS = ("apps/replicasets", "apps/statefulsets", "apps/deployments", "apps/daemonsets")
_OWNERS += ("batch/jobs", "batch.volcano.sh/jobs", "arranger.io/tyjobs")
#: Operators' jobs whose pods are gangs that nobody else defines: but for MPIJobs all of their pods.
_KUBEFLOW = ("pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs", "jaxjobs")
_OF_KUBEFLOW = tuple(f"kubeflow.org/{plural}" for plural in _KUBEFLOW)
_BY_OWNER = "arranger.io/gang-by-owner"
_PRODUCT = re.compile(r"(?P<vendor>.+?)/(?P<kind>\w+)\.product")


def named_queue(world: World, pod: Object) -> str:
    """The queue that a pod names, or its PodGroup, or the job that owns it."""
    own = notes_of(pod).get(_QUEUE) or labels_of(pod).get(_QUEUE)
    if own or gang_of(pod)[0]:
        group = group_of(world, pod) or {"spec": {}}
        return str(own or group["spec"].get("queue") or "default")
    job = _owner(world, pod, _OF_KUBEFLOW) or {"metadata": {}, "spec": {}}
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
    """The queue of a pod: the default one where it names what is not there, or not for it.

    A pod on a node may be charged to another one (:func:`is_moved`).
    """
    name = named_queue(world, pod)
    return name if path(world, name) and is_for(world, name, pod) else "default"


def is_moved(world: World, pod: Object) -> bool:
    """Whether a pod on a node names another queue than when it got that.

    It is charged to that one if that takes it and has room, else to one that it named before: which
    of them is not worked out here.
    """
    name = named_queue(world, pod)
    return world.named_first.get(pod["metadata"]["uid"], name) != name


def is_for(world: World, name: str, pod: Object) -> bool:
    """Whether a queue, and all above it, take pods of a pod's namespace."""
    space = pod["metadata"]["namespace"]
    said = [queue["spec"].get("namespaceSelector") for queue in path(world, name)]
    labels = world.labels_of_namespace(space)
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


def limit_of(queue: Object, what: str, *, is_card: bool) -> int | None:
    """How much of something a queue may use; None for as much as there is."""
    if is_card:
        quota = card_quota(queue)
        return None if quota is None else quota.get(what, 0)
    return amounts(queue["spec"].get("capability")).get(what)


def guaranteed_by(spec: Object) -> Amounts:
    """What is guaranteed by the spec of a queue."""
    return amounts((spec.get("guarantee") or {}).get("resource"))


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


def said(world: World, pod: Object, key: str) -> str:
    """What an annotation says of a pod: its own, its PodGroup's, or that of an owner."""
    found = notes_of(pod).get(key)
    group = group_of(world, pod)
    if group is None and not gang_of(pod)[0]:
        group = _owner(world, pod, _OF_KUBEFLOW)
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


@dataclass(eq=False)
class NamedQueue:
    """A queue that is named by a pod; there may be none of this name."""

    world: World
    name: str

    @cached_property
    def _path(self) -> list[Object]:
        return path(self.world, self.name)

    @property
    def is_there(self) -> bool:
        return bool(self._path)

    @property
    def has_parts(self) -> bool:
        """Whether other queues are part of it."""
        there = self.world.of(QUEUES).values()
        return any(each["spec"].get("parent") == self.name for each in there)

    @property
    def closed_on_its_path(self) -> list[str]:
        """Which of it and those above take no work; of the root that says nothing."""
        named = ((name(each), each) for each in self._path)
        return [each for each, queue in named if each != "root" and is_closed(queue)]

    def is_for(self, pod: Object) -> bool:
        """Whether it, and all above it, take pods of a pod's namespace."""
        return is_for(self.world, self.name, pod)


@dataclass(eq=False)
class Standing:
    """How a pod stands in its queue, when it is about who may have whose place."""

    world: World
    premises: Premises
    pod: Object

    @cached_property
    def never_preempts(self) -> bool:
        """Whether it, or its PodGroup, says so."""
        group = group_of(self.world, self.pod) or {"spec": {}}
        said = (each["spec"].get("preemptionPolicy") for each in (self.pod, group))
        return "Never" in said

    @cached_property
    def importance(self) -> int:
        """What its priority, or its PodGroup's, counts as: so much as its queues believe."""
        group = group_of(self.world, self.pod) or {"spec": {}}
        stated = group["spec"].get("priority")
        mine = priority_of(self.pod) if stated is None else int(stated)
        most = (queue["spec"].get("maxPriority") for queue in self._path)
        return min([mine, *(int(each) for each in most if each is not None)])

    @cached_property
    def must_stay(self) -> bool:
        """Whether it, or what it belongs to, says so; that counts only where there are queues."""
        if not self.queue:
            return False
        key = _VOLCANO + "preemptable"
        text = notes_of(self.pod).get(key) or labels_of(self.pod).get(key)
        text = text or said(self.world, self.pod, key) or "true"
        return text.lower() not in ("true", "1", "t")

    @cached_property
    def queue(self) -> str:
        """The one that it is charged to; "" where there are no queues."""
        return queue_of(self.world, self.pod) if self.world.of(QUEUES) else ""

    @property
    def queue_gives_back(self) -> bool:
        """Whether its queue is there, and what it uses may be reclaimed."""
        return bool(self._path) and self._path[0]["spec"].get("reclaimable") is not False

    @property
    def queue_is_owed(self) -> bool:
        """Whether its queue, or one above, deserves something or is guaranteed it."""
        specs = (queue["spec"] for queue in self._path)
        return any(spec.get("deserved") or spec.get("guarantee") for spec in specs)

    @cached_property
    def service(self) -> str:
        """``inference``, ``training``, or "" for neither, as far as its queues believe it."""
        return self._service[0]

    @cached_property
    def service_is_stated(self) -> bool:
        """Whether an annotation says so, and its queues believe that."""
        return self._service[1]

    @cached_property
    def _path(self) -> list[Object]:
        return path(self.world, self.queue) if self.queue else []

    @cached_property
    def _service(self) -> tuple[str, bool]:
        service = stated = said(self.world, self.pod, _VOLCANO + "service.type")
        owners = self.pod["metadata"].get("ownerReferences")
        if not stated and owners:
            service = self.premises.service_by_owner.get(owners[0]["kind"], "")
        for queue in self._path:
            believed = queue["spec"].get("serviceTypes")
            if believed is not None and service not in believed:
                return "", False
        return (service if service in ("inference", "training") else ""), bool(stated)
