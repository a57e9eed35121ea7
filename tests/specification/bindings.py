"""What must hold when a scheduler gives a pod a node.

Each rule is a sentence about a :class:`Binding`: it yields what is wrong. It counts only what the
scheduler must have known: see :attr:`Premises.notice`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.specification.manifests import (
    Amounts,
    Object,
    affinity_terms,
    hard_taints,
    has_ended,
    is_leaving,
    labels_of,
    name_of,
    node_of,
    nominated_to,
    offers,
    ports_clash,
    ports_of,
    priority_of,
    selects,
    term_selects,
    terms_allow,
    tolerates,
    wants_node,
)
from tests.specification.premises import Premises
from tests.specification.trace import (
    CLAIMS,
    NODES,
    PODS,
    VOLUME_CLAIMS,
    VOLUMES,
    World,
)


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod that is given a node, in a world in which it does not have it yet.

    Attributes:
        was: the pod as it waited.
        writer: who binds it.
        promise: whether it was nominated to this node.
    """

    world: World
    premises: Premises
    was: Object
    node_name: str
    at: float
    writer: str | None

    @property
    def uid(self) -> str:
        return str(self.was["metadata"]["uid"])

    @property
    def node(self) -> Object | None:
        return self.world.get(NODES, self.node_name)

    def knows(self, resource: str, obj: Object) -> bool:
        """Whether its scheduler must know the object as it is."""
        since, by = self.world.changed.get((resource, name_of(obj)), (float("-inf"), None))
        if by is not None and by == self.writer:
            return True
        if (obj is self.node or obj is self.was) and self.world.is_as_created(resource, obj):
            return True  # it could not be chosen before it was seen
        return self.at - since >= self.premises.notice

    def knows_all(self, resource: str, objects: Mapping[str, Object]) -> bool:
        """Whether it must know all of these, and none has gone lately."""
        lately = self.at - self.premises.notice
        return not self.world.was_gone_since(lately, resource) and all(
            self.knows(resource, each) for each in objects.values()
        )

    def neighbours(self) -> Iterator[Object]:
        """The pods on the node that the scheduler must know of."""
        for uid, pod in self.world.pods_on.get(self.node_name, {}).items():
            if uid != self.uid and self.knows(PODS, pod):
                yield pod

    def asked(self) -> Amounts:
        """What the pod asks for."""
        return self.world.asked[self.uid]


Rule = Callable[[Binding], Iterator[str]]


def the_node_is_there(b: Binding) -> Iterator[str]:
    """A pod is bound to a node that exists."""
    if b.node is None and not b.world.was_gone_since(b.at - b.premises.notice, NODES):
        yield f"there is no node {b.node_name}"


def it_fits(b: Binding) -> Iterator[str]:
    """A node has what its pods ask for, of whatever the new one asks for."""
    if b.node is None or b.node_name in b.premises.changing_nodes or not b.knows(NODES, b.node):
        return
    room, mine = offers(b.node), b.asked()
    others = [b.world.asked[pod["metadata"]["uid"]] for pod in b.neighbours()]
    for name, n in mine.items():
        used = sum(each.get(name, 0) for each in others)
        if used + n > room.get(name, 0) and name not in b.premises.extended:
            yield f"{b.node_name} has {room.get(name, 0)} {name}, of which {used} are used, not {n}"


def it_may_be_on_the_node(b: Binding) -> Iterator[str]:
    """Selector and affinity allow the node, its taints and its cordon are tolerated."""
    if b.node is None or not b.knows(NODES, b.node) or not b.knows(PODS, b.was):
        return
    if not wants_node(b.was, b.node):
        yield f"it does not select {b.node_name}"
    for taint in hard_taints(b.node):
        if not tolerates(b.was, taint):
            yield f"it does not tolerate {taint['key']} of {b.node_name}"


def no_gate_holds_it(b: Binding) -> Iterator[str]:
    """A pod with scheduling gates is not bound, nor one that is being deleted."""
    if b.was["spec"].get("schedulingGates"):
        yield "it has scheduling gates"
    if is_leaving(b.was):
        yield "it is being deleted"


def its_ports_are_free(b: Binding) -> Iterator[str]:
    """No two pods of a node have the same host port."""
    mine = list(ports_of(b.was))
    for pod in b.neighbours() if mine else ():
        for port in ports_of(pod):
            if any(ports_clash(port, each) for each in mine):
                yield f"{name_of(pod)} has the port {port[2]} of {b.node_name}"


def nobody_keeps_away(b: Binding) -> Iterator[str]:
    """Required anti-affinity holds in both directions."""
    if not b.knows(PODS, b.was):
        return
    here, namespaces = labels_of(b.node or {"metadata": {}}), b.world.namespaces()
    mine = affinity_terms(b.was, "podAntiAffinity")
    for pod in b.world.placed() if mine else b.world.apart.values():
        theirs = affinity_terms(pod, "podAntiAffinity")
        if not b.knows(PODS, pod) or pod["metadata"]["uid"] == b.uid:
            continue
        node = b.world.get(NODES, node_of(pod))
        if node is None or not b.knows(NODES, node):
            continue
        there = labels_of(node)
        for terms, owner, other in ((mine, b.was, pod), (theirs, pod, b.was)):
            for term in terms:
                key = term["topologyKey"]
                together = key in here and here.get(key) == there.get(key)
                if together and term_selects(term, owner, other, namespaces):
                    yield f"{name_of(owner)} keeps away from {name_of(other)} by {key}"


def its_volumes_are_here(b: Binding) -> Iterator[str]:
    """Its claims are bound, to volumes that the node can reach."""
    for volume in b.was["spec"].get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if "ephemeral" in volume:
            claim = f"{b.was['metadata']['name']}-{volume['name']}"
        if not claim:
            continue
        found = b.world.get(VOLUME_CLAIMS, f"{b.was['metadata']['namespace']}/{claim}")
        made_anew = b.world.was_gone_since(b.at - b.premises.notice, VOLUME_CLAIMS)
        if found is None:
            if not made_anew:
                yield f"its claim {claim} is not there"
            continue
        volume_name = found["spec"].get("volumeName") or ""
        pv = b.world.get(VOLUMES, volume_name)
        if pv is None:
            # Nobody can have seen one bound that never was.
            if b.knows(VOLUME_CLAIMS, found) or not (volume_name or made_anew):
                yield f"its claim {claim} is not bound"
            continue
        required = (pv["spec"].get("nodeAffinity") or {}).get("required")
        if required is None or b.node is None or not b.knows(VOLUMES, pv):
            continue
        if b.knows(NODES, b.node) and not terms_allow(required["nodeSelectorTerms"], b.node):
            yield f"the volume of {claim} is not on {b.node_name}"


def its_devices_are_its_own(b: Binding) -> Iterator[str]:
    """Its resource claims are allocated, for this node, and reserved for it."""
    named = (b.was.get("status") or {}).get("resourceClaimStatuses") or ()
    made = {each["name"]: each.get("resourceClaimName") for each in named}
    for claim in b.was["spec"].get("resourceClaims") or ():
        name = claim.get("resourceClaimName") or made.get(claim["name"])
        found = b.world.get(CLAIMS, f"{b.was['metadata']['namespace']}/{name}")
        if not name or found is None:
            continue
        status = found.get("status") or {}
        allocation = status.get("allocation")
        if b.world.is_as_created(CLAIMS, found) and not allocation:
            yield f"its claim {name} never had devices"  # nobody can have seen any
            continue
        if not b.knows(CLAIMS, found):
            continue
        if not allocation:
            yield f"its claim {name} has no devices"
            continue
        if b.uid not in {each.get("uid") for each in status.get("reservedFor") or ()}:
            yield f"its claim {name} is not reserved for it"
        terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms")
        if terms and b.node is not None and not terms_allow(terms, b.node):
            yield f"the devices of {name} are not on {b.node_name}"


def no_promised_room_is_taken(b: Binding) -> Iterator[str]:
    """Room that is promised to a waiting pod goes to nobody of its priority or lower.

    Said of one promise at a time, which would have held without this pod once all that leave have
    left. Members of one gang may take each other's.
    """
    if b.node is None or nominated_to(b.was) == b.node_name or not b.knows(NODES, b.node):
        return
    if b.node_name in b.premises.changing_nodes:
        return
    promised = [uid for uid in b.world.promised if uid in b.world.waiting and uid != b.uid]
    promised = [u for u in promised if nominated_to(b.world.waiting[u]) == b.node_name]
    if not promised:
        return
    room, mine = offers(b.node), b.asked()
    stay = [
        b.world.asked[pod["metadata"]["uid"]]
        for pod in b.world.pods_on.get(b.node_name, {}).values()
        if not is_leaving(pod) and pod["metadata"]["uid"] != b.uid
    ]
    for uid in promised:
        other, theirs = b.world.waiting[uid], b.world.asked[uid]
        if (
            priority_of(other) < priority_of(b.was)
            or b.at - b.world.promised[uid] < b.premises.notice
        ):
            continue
        for name in mine.keys() & theirs.keys():
            left = room.get(name, 0) - sum(each.get(name, 0) for each in stay) - theirs[name]
            if 0 <= left < mine[name]:
                yield f"{name} of {b.node_name} is promised to {name_of(other)}"


#: Who else is bound makes these no less true, so that the order of Bindings does not matter.
AT_ONCE: tuple[Rule, ...] = (
    the_node_is_there,
    it_fits,
    it_may_be_on_the_node,
    no_gate_holds_it,
    its_ports_are_free,
    nobody_keeps_away,
    its_volumes_are_here,
    its_devices_are_its_own,
)


def it_is_beside_its_friends(b: Binding) -> Iterator[str]:
    """Required affinity: another is in the domain, or the pod is the first of its kind anywhere."""
    terms = affinity_terms(b.was, "podAffinity")
    if not terms or b.node is None:
        return
    if not b.knows_all(NODES, b.world.of(NODES)) or not b.knows_all(PODS, b.world.of(PODS)):
        return
    here, namespaces = labels_of(b.node), b.world.namespaces()
    friends = [
        pod
        for pod in b.world.placed()
        if pod["metadata"]["uid"] != b.uid
        and all(term_selects(term, b.was, pod, namespaces) for term in terms)
    ]
    first = not friends and all(term_selects(term, b.was, b.was, namespaces) for term in terms)
    for term in terms:
        key = term["topologyKey"]
        domains = {labels_of(b.world.get(NODES, node_of(p)) or p).get(key) for p in friends}
        if key not in here or not (first or here[key] in domains):
            yield f"none that it must be near is in its {key}"


def it_is_spread(b: Binding) -> Iterator[str]:
    """Hard spread constraints: the domain has at most maxSkew more than the emptiest."""
    said = b.was["spec"].get("topologySpreadConstraints") or ()
    hard = [
        each for each in said if each.get("whenUnsatisfiable", "DoNotSchedule") != "ScheduleAnyway"
    ]
    if not hard or b.node is None:
        return
    nodes = b.world.of(NODES)
    if not b.knows_all(NODES, nodes) or not b.knows_all(PODS, b.world.of(PODS)):
        return
    keys = [each["topologyKey"] for each in hard]
    for rule in hard:
        key, mine = rule["topologyKey"], labels_of(b.was)
        same = {k: mine[k] for k in rule.get("matchLabelKeys") or () if k in mine}
        counts: dict[str, int] = {}
        for name, node in nodes.items():
            honours = rule.get("nodeAffinityPolicy", "Honor") != "Honor" or wants_node(b.was, node)
            if rule.get("nodeTaintsPolicy", "Ignore") == "Honor":
                honours &= all(tolerates(b.was, taint) for taint in hard_taints(node))
            if not honours or not all(each in labels_of(node) for each in keys):
                continue
            domain = labels_of(node)[key]
            counts[domain] = counts.get(domain, 0) + sum(
                pod["metadata"]["uid"] != b.uid
                and not is_leaving(pod)
                and not has_ended(pod)
                and pod["metadata"]["namespace"] == b.was["metadata"]["namespace"]
                and selects(rule.get("labelSelector"), labels_of(pod))
                and all(labels_of(pod).get(k) == v for k, v in same.items())
                for pod in b.world.pods_on.get(name, {}).values()
            )
        here = labels_of(b.node).get(key)
        least = (
            0 if len(counts) < (rule.get("minDomains") or 1) else min(counts.values(), default=0)
        )
        itself = selects(rule.get("labelSelector"), mine)
        if here is None:
            yield f"{b.node_name} has no {key}"
        elif counts.get(here, 0) + itself - least > rule["maxSkew"]:
            yield f"{here} has {counts.get(here, 0)} already, another {key} has {least}"


#: True once all Bindings are done that belong together.
WITH_OTHERS: tuple[Rule, ...] = (it_is_beside_its_friends, it_is_spread)
#: True once promises that are void are taken back.
BESIDE_PROMISES: tuple[Rule, ...] = (no_promised_room_is_taken,)
