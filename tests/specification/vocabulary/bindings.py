"""A Binding: a placement with the claims that it needs, and what queues and Reservations have to do
with it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property

from tests.specification.trace import CLAIMS, NODES, PODS, QUEUES, VOLUME_CLAIMS
from tests.specification.vocabulary import queues
from tests.specification.vocabulary.claims import DeviceClaim, VolumeClaim
from tests.specification.vocabulary.gangs import gang_of, group_of
from tests.specification.vocabulary.manifests import (
    Amounts,
    added,
    amounts,
    asks,
    name_of,
    node_of,
    notes_of,
    offers,
    uid_of,
)
from tests.specification.vocabulary.placements import NEVER, Placement
from tests.specification.vocabulary.queues import NamedQueue
from tests.specification.vocabulary.reservations import ASKED, RESERVATIONS, Reservation
from tests.specification.vocabulary.stakes import ROOT, Stakes


class Binding(Placement):
    """A pod that is given a node, in a world in which it does not have it yet."""

    # --- volumes and devices -----------------------------------------------------------------

    def volume_claims(self) -> Iterator[VolumeClaim]:
        """The claims of volumes that the pod names."""
        meta = self.pod["metadata"]
        for volume in self.pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if "ephemeral" in volume:
                name = f"{meta['name']}-{volume['name']}"
            if name:
                found = self.world.get(VOLUME_CLAIMS, f"{meta['namespace']}/{name}")
                yield VolumeClaim(self, name, found)

    def device_claims(self) -> Iterator[DeviceClaim]:
        """The claims of devices that the pod names, as far as they are there."""
        named = (self.pod.get("status") or {}).get("resourceClaimStatuses") or ()
        made = {each["name"]: each.get("resourceClaimName") for each in named}
        for each in self.pod["spec"].get("resourceClaims") or ():
            name = each.get("resourceClaimName") or made.get(each["name"])
            found = self.world.get(CLAIMS, f"{self.pod['metadata']['namespace']}/{name}")
            if name and found is not None:
                yield DeviceClaim(self, name, found)

    # --- queues ------------------------------------------------------------------------------

    @cached_property
    def knows_queues(self) -> bool:
        """Whether it must know which queues there are, and whose the pod is."""
        there = self.world.of(QUEUES).values()
        if not self.knows_pod or not all(self.knows(QUEUES, each) for each in there):
            return False
        group = group_of(self.world, self.pod) or queues.job_of(self.world, self.pod)
        if group is None:
            return True
        resource = f"{group['apiVersion'].partition('/')[0]}/{group['kind'].lower()}s"
        since, _ = self.world.changed.get((resource, name_of(group)), NEVER)
        return self.at - since >= self.premises.notice

    @cached_property
    def queue(self) -> str:
        """The one that the pod is charged to."""
        return queues.queue_of(self.world, self.pod)

    @property
    def named_queue(self) -> NamedQueue | None:
        """The one that it names; None where there are none, or where they need not be known."""
        if not self.world.of(QUEUES) or not self.knows_queues:
            return None
        return NamedQueue(self.world, queues.named_queue(self.world, self.pod))

    def limits(self) -> Iterator[tuple[str, str, int, int]]:
        """Its queue and those above with what the pod is charged, how much, and how much may be.

        None where there are no queues, or where they need not be known.
        """
        if not self.world.of(QUEUES) or not self.knows_queues:
            return
        for queue in queues.path(self.world, self.queue):
            for what, n in self.limited_charge.items():
                limit = queues.limit_of(queue, what, is_card=what in self.cards)
                if limit is not None:
                    yield name_of(queue), what, n, limit

    def stakes(self) -> Iterator[tuple[str, str, int, int, int]]:
        """What the pod is charged, with its queue and each above to whose parts it is guaranteed.

        And the stakes in that queue without the pod and with it, and how much they may be. What
        need not be known is left out: all of it, or only the nodes, and with them the root.
        """
        specs = (queue["spec"] for queue in self.world.of(QUEUES).values())
        if not any(spec.get("guarantee") for spec in specs) or not self.knows_queues:
            return
        for what, n in self.limited_charge.items():
            own = Counter({name: used[what] for name, used in self.used_in_queue.items()})
            before = Stakes(self.world, what, own)
            now = Stakes(self.world, what, own + Counter({self.queue: n}))
            for name in before.path(self.queue) if before.of_all else ():
                room = self._room_of(name, what)
                if before.are_kept_in(name) and room is not None:
                    yield what, name, before.inside[name], now.inside[name], room

    def _room_of(self, queue: str, what: str) -> int | None:
        """How much of something the parts of a queue may have; None for as much as there is."""
        found = self.world.get(QUEUES, queue) or {"spec": {}}
        said = amounts(found["spec"].get("capability")).get(what)
        if queue != ROOT:
            return said
        of_all = self.cluster[what] if self.knows_all(NODES) else None
        return min((each for each in (said, of_all) if each is not None), default=None)

    @cached_property
    def charge(self) -> Amounts:
        """What the pod counts as in its queue."""
        return queues.charged(self.world, self.pod, self.node)

    @cached_property
    def cards(self) -> set[str]:
        """The cards that the node has."""
        return set(queues.cards_of(self.node).values())

    @cached_property
    def limited_charge(self) -> Amounts:
        """The part of its charge to which limits and guarantees apply.

        Pods with cards may be free of those of CPU and memory: they count by their cards.
        """
        exempt = self.premises.exempt_card_pods and self.cards & self.charge.keys()
        free = ("cpu", "memory") if exempt else ()
        return {what: n for what, n in self.charge.items() if what not in free}

    @cached_property
    def used_by_queue(self) -> dict[str, Counter[str]]:
        """Queue → what the pods of it and its parts are charged, as far as they must be known."""
        used = defaultdict[str, Counter[str]](Counter)
        for name, total in self.used_in_queue.items():
            for queue in queues.path(self.world, name):
                above = used[name_of(queue)]
                for what, n in total.items():
                    above[what] += n
        return used

    @cached_property
    def used_in_queue(self) -> dict[str, Counter[str]]:
        """Queue → what the pods of it, not of its parts, are charged.

        Pods with cards may be free of limits on CPU and memory: those that came a moment ago may
        have been let in when this one had its place already, and its Binding was on its way.
        """
        own = defaultdict[str, Counter[str]](Counter)
        for pod in self.world.placed():
            if pod["metadata"]["uid"] == self.uid or not self.knows(PODS, pod):
                continue
            if queues.is_moved(self.world, pod):
                continue
            node = self.world.get(NODES, node_of(pod))
            charge, free = queues.charged(self.world, pod, node), ()
            if self.premises.exempt_card_pods:
                since, _ = self.world.changed.get((PODS, name_of(pod)), NEVER)
                late = self.at - since < self.premises.notice
                cards = {*queues.cards_of(node).values()} & charge.keys()
                free = ("cpu", "memory") if late and cards else free
            total = own[queues.queue_of(self.world, pod)]
            for what, n in charge.items():
                total[what] += n * (what not in free)
        return own

    @cached_property
    def cluster(self) -> Counter[str]:
        """What all nodes have for pods."""
        total: Counter[str] = Counter()
        for node in self.world.of(NODES).values():
            total.update(offers(node))
        return total

    # --- reservations ------------------------------------------------------------------------

    @cached_property
    def date(self) -> float:
        """When it is, in seconds since 1970; not a number where nobody knows the date."""
        calendar = self.premises.calendar
        return float("nan") if calendar is None else calendar + self.at

    @cached_property
    def decided(self) -> float:
        """When it was decided, at the earliest, in seconds since 1970.

        Gangs may hold nodes, and volumes may be bound, for long before the Binding: since the pod
        came.
        """
        came = datetime.fromisoformat(self.pod["metadata"]["creationTimestamp"]).timestamp()
        in_gang = gang_of(self.pod)[0] or queues.job_of(self.world, self.pod)
        if in_gang or self.pod["spec"].get("volumes"):
            return came
        return max(came, self.date - self.premises.notice)

    @property
    def wanted_reservation(self) -> str:
        """The Reservation that the pod asks for; "" where nobody knows the date, or the node."""
        known = self.premises.calendar is not None and self.node is not None
        return notes_of(self.pod).get(ASKED, "") if known else ""

    @property
    def is_its_reservation_missing(self) -> bool:
        """Whether it asks for one that is not there, nor was lately."""
        wanted = self.wanted_reservation
        there = not wanted or self.world.get(RESERVATIONS, wanted) is not None
        return not there and not self.lately_gone(RESERVATIONS)

    def reservations_of_its_node(self) -> Iterator[Reservation]:
        """Those for which the node is kept at some time."""
        if self.premises.calendar is None or not self.knows_node:
            return
        for name in self.world.of(RESERVATIONS):
            each = self.known_reservation(name)
            if each is not None and each.has(self.node):
                yield each

    def reaches_into(self, kept: Reservation) -> bool:
        """Whether the pod would still be there in the window of a Reservation.

        Without a maximum run time it is kept away from ``drainBefore`` on.
        """
        start = kept.start - (kept.drain if self.run_time is None else self.run_time)
        return start < self.decided and self.date < kept.end

    def lacks_beside_parts(self) -> Amounts:
        """What is kept of its node, by all Reservations into whose windows it may run, and is too
        much for what others have left and it asks for."""
        parts = [
            kept.left_of_part(self.node, self.pod)
            for kept in self.reservations_of_its_node()
            if kept.part and self.reaches_into(kept) and not kept.is_for(self.pod)
        ]
        if not parts or self.node is None:
            return {}
        there = self.world.pods_on.get(self.node["metadata"]["name"], {}).values()
        others = added(*(asks(each) for each in there if uid_of(each) != uid_of(self.pod)))
        offered, wanted = offers(self.node), asks(self.pod)
        return {
            name: n
            for name, n in added(*parts).items()
            if wanted.get(name) and wanted[name] + others.get(name, 0) + n > offered.get(name, 0)
        }

    def known_reservation(self, name: str) -> Reservation | None:
        """A Reservation, where its scheduler must have known it, and for whom it is, in time.

        Gangs that start together may be users by each other, so nothing is said of gangs by name.
        """
        manifest = self.world.get(RESERVATIONS, name)
        if manifest is None or self.premises.calendar is None:
            return None
        since, _ = self.world.changed.get((RESERVATIONS, name), NEVER)
        if since + self.premises.notice > self.decided - self.premises.calendar:
            return None
        users = manifest["spec"].get("users") or {}
        if users.get("gangs") and gang_of(self.pod)[0] not in users["gangs"]:
            return None
        if users.get("queues") and not self.knows_queues:
            return None
        found = Reservation(self.world, manifest)
        return None if found.window is None else found

    @property
    def run_time(self) -> float | None:
        """How long the pod may run, in seconds; None for ever."""
        return queues.run_time_limit(self.world, self.pod)
