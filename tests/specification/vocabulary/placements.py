"""A pod that is given a node, and what its scheduler must know of both and of other pods.

What somebody else changed less than :attr:`Premises.notice` seconds ago need not be known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from tests.specification.premises import Premises
from tests.specification.trace import NODES, PODS, World
from tests.specification.vocabulary.manifests import (
    Amounts,
    Object,
    affinity_terms,
    has_ended,
    is_leaving,
    labels_of,
    name_of,
    node_of,
    nominated_to,
    offers,
    ports_of,
    selects,
    term_selects,
    untolerated,
    wants_node,
)

NEVER = float("-inf"), None
Port = tuple[str, str, int]
Apart = tuple[str, Object, Object, Object, Mapping[str, str]]


@dataclass(eq=False)
class Placement:
    """A pod that is given a node, in a world in which it does not have it yet.

    Attributes:
        pod: as it waited.
        writer: who binds it.
    """

    world: World
    premises: Premises
    pod: Object
    node_name: str
    at: float
    writer: str | None

    def anew(self) -> Self:
        """The same in the world as it is by now."""
        of = self.world, self.premises, self.pod, self.node_name, self.at, self.writer
        return type(self)(*of)

    # --- what is known -----------------------------------------------------------------------

    def knows(self, resource: str, obj: Object) -> bool:
        """Whether its scheduler must know the object as it is."""
        since, by = self.world.changed.get((resource, name_of(obj)), NEVER)
        if by is not None and by == self.writer:
            return True
        if (obj is self.node or obj is self.pod) and self.world.is_as_created(resource, obj):
            return True  # it could not be chosen before it was seen
        return self.at - since >= self.premises.notice

    def lately_gone(self, resource: str) -> bool:
        """Whether any of these was deleted, so that another may be meant, or it need be unknown."""
        return self.world.was_gone_since(self.at - self.premises.notice, resource)

    def knows_all(self, resource: str) -> bool:
        """Whether it must know all objects of a resource, and none has gone lately."""
        return not self.lately_gone(resource) and all(
            self.knows(resource, each) for each in self.world.of(resource).values()
        )

    @cached_property
    def knows_pod(self) -> bool:
        """Whether it must know the pod as it is now."""
        return self.knows(PODS, self.pod)

    @cached_property
    def knows_node(self) -> bool:
        """Whether the node is there, and it must know it as it is now."""
        return self.node is not None and self.knows(NODES, self.node)

    @cached_property
    def knows_room(self) -> bool:
        """Whether it must know the node, on which nobody else places pods at any moment."""
        return self.knows_node and self.node_name not in self.premises.changing_nodes

    @cached_property
    def knows_nodes_and_pods(self) -> bool:
        """Whether it must know all of them, and the node is one."""
        return self.node is not None and self.knows_all(NODES) and self.knows_all(PODS)

    # --- the pod and its node ----------------------------------------------------------------

    @cached_property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @cached_property
    def node(self) -> Object | None:
        """None where it is gone."""
        return self.world.get(NODES, self.node_name)

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Those of the node."""
        return labels_of(self.node) if self.node is not None else {}

    @cached_property
    def asks(self) -> Amounts:
        """What the pod asks for."""
        return self.world.asked[self.uid]

    @cached_property
    def room(self) -> Counter[str]:
        """What the node has for pods."""
        return Counter(offers(self.node) if self.node is not None else {})

    def neighbours(self) -> Iterator[Object]:
        """The other pods on the node that it must know of."""
        for uid, pod in self.world.pods_on.get(self.node_name, {}).items():
            if uid != self.uid and self.knows(PODS, pod):
                yield pod

    def ports_of_neighbours(self) -> Iterator[tuple[Object, Port]]:
        """The neighbours with each port of the node that they have, if the pod takes any."""
        takes_some = any(True for _ in ports_of(self.pod))
        for pod in self.neighbours() if takes_some else ():
            yield from ((pod, port) for port in ports_of(pod))

    @cached_property
    def used(self) -> Counter[str]:
        """What the neighbours ask for, of what the pod asks for."""
        return self._sums(self.neighbours())

    @cached_property
    def used_by_those_who_stay(self) -> Counter[str]:
        """What all other pods on the node ask for that are not being deleted."""
        there = self.world.pods_on.get(self.node_name, {}).items()
        return self._sums(pod for uid, pod in there if uid != self.uid and not is_leaving(pod))

    def _sums(self, pods: Iterator[Object]) -> Counter[str]:
        asked = [self.world.asked[pod["metadata"]["uid"]] for pod in pods]
        return Counter({what: sum(each.get(what, 0) for each in asked) for what in self.asks})

    def promises_of_others(self) -> Iterator[tuple[Object, str, int]]:
        """Other pods that wait for room on the node, with how much of what, if it must know that.

        None where the pod waits for that node itself.
        """
        if nominated_to(self.pod) == self.node_name:
            return
        for uid, since in self.world.promised.items():
            other = self.world.waiting.get(uid)
            if other is None or uid == self.uid or nominated_to(other) != self.node_name:
                continue
            theirs = self.world.asked[uid]
            if self.at - since >= self.premises.notice:
                yield from ((other, what, theirs[what]) for what in self.asks if what in theirs)

    # --- other pods --------------------------------------------------------------------------

    def means(self, term: Object, owner: Object, other: Object) -> bool:
        """Whether an affinity term of one pod means another."""
        return term_selects(term, owner, other, self.world.namespaces)

    def terms_that_keep_away(self) -> Iterator[Apart]:
        """Required anti-affinity between the pod and those on nodes, as far as all is known.

        Yields the key of domains, the term, whose it is, the other one, and the labels of the node
        of who is there.
        """
        if not self.knows_pod:
            return
        mine = affinity_terms(self.pod, "podAntiAffinity")
        for there in self.world.placed() if mine else self.world.apart.values():
            theirs = affinity_terms(there, "podAntiAffinity")
            if there["metadata"]["uid"] == self.uid or not self.knows(PODS, there):
                continue
            node = self.world.get(NODES, node_of(there))
            if node is not None and self.knows(NODES, node):
                labels = labels_of(node)
                yield from ((t["topologyKey"], t, self.pod, there, labels) for t in mine)
                yield from ((t["topologyKey"], t, there, self.pod, labels) for t in theirs)

    def domains_of_friends(self) -> Iterator[tuple[str, set[str | None]]]:
        """The key of each required affinity term, and the domains of all pods that all terms mean.

        As far as all is known.
        """
        terms = affinity_terms(self.pod, "podAffinity")
        if not terms or not self.knows_nodes_and_pods:
            return
        nodes = self.world.of(NODES)
        friends = [
            nodes.get(node_of(pod), pod)
            for pod in self.world.placed()
            if pod["metadata"]["uid"] != self.uid
            and all(self.means(term, self.pod, pod) for term in terms)
        ]
        for key in (term["topologyKey"] for term in terms):
            yield key, {labels_of(node).get(key) for node in friends}

    @property
    def is_its_own_friend(self) -> bool:
        """Whether its affinity means pods like itself."""
        terms = affinity_terms(self.pod, "podAffinity")
        return all(self.means(term, self.pod, self.pod) for term in terms)

    def hard_spreads(self) -> Iterator[tuple[str, Counter[str], bool, Object]]:
        """The constraints that say how even the pod and its like must be spread, if all is known.

        Yields the key of domains, domain → how many are there, whether the pod itself counts, and
        the constraint.
        """
        said = self.pod["spec"].get("topologySpreadConstraints") or ()
        hard = [
            each
            for each in said
            if each.get("whenUnsatisfiable", "DoNotSchedule") != "ScheduleAnyway"
        ]
        if not hard or not self.knows_nodes_and_pods:
            return
        keys = [each["topologyKey"] for each in hard]
        for key, each in zip(keys, hard, strict=True):
            itself = selects(each.get("labelSelector"), labels_of(self.pod))
            yield key, self._spread_over(key, keys, each), itself, each

    def _spread_over(self, key: str, keys: list[str], constraint: Object) -> Counter[str]:
        """Of nodes with the keys of all constraints, on which the pod may be as far as it minds."""
        counts = Counter[str]()
        honours = constraint.get("nodeAffinityPolicy", "Honor") == "Honor"
        minds_taints = constraint.get("nodeTaintsPolicy", "Ignore") == "Honor"
        for name, node in self.world.of(NODES).items():
            labels = labels_of(node)
            if (
                (not honours or wants_node(self.pod, node))
                and (not minds_taints or not any(True for _ in untolerated(self.pod, node)))
                and all(each in labels for each in keys)
            ):
                there = self.world.pods_on.get(name, {}).values()
                counts[labels[key]] += sum(self._counts_as_like(constraint, pod) for pod in there)
        return counts

    def _counts_as_like(self, constraint: Object, pod: Object) -> bool:
        mine, theirs = labels_of(self.pod), labels_of(pod)
        return (
            pod["metadata"]["uid"] != self.uid
            and not is_leaving(pod)
            and not has_ended(pod)
            and pod["metadata"]["namespace"] == self.pod["metadata"]["namespace"]
            and selects(constraint.get("labelSelector"), theirs)
            and all(
                theirs.get(key) == mine[key]
                for key in constraint.get("matchLabelKeys") or ()
                if key in mine
            )
        )
