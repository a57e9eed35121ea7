"""What a legal step of the cluster is, told from what an API server alone can see.

Each class is an occasion, and its functions are the rules that are asked then: the first sentence
says the rule, the body decides and yields what is wrong, in words of the folder ``vocabulary``. A
change that somebody else made need not be known for ``notice`` seconds, and nothing need be for so
long after a backup was restored: where a scheduler need not know, nothing is said.
"""

from __future__ import annotations

from tests.specification.trace import NODES
from tests.specification.vocabulary import manifests as m
from tests.specification.vocabulary import queues as q
from tests.specification.vocabulary.bindings import Binding
from tests.specification.vocabulary.departures import Departure, Telling
from tests.specification.vocabulary.gangs import Parts
from tests.specification.vocabulary.manifests import name_of
from tests.specification.vocabulary.occasions import Wrong
from tests.specification.vocabulary.requests import Request
from tests.specification.vocabulary.rest import Rest
from tests.specification.vocabulary.writes import Write


class AtAWrite(Write):
    """A scheduler writes anything, or anybody a pod."""

    def it_writes_as_the_leader(self) -> Wrong:
        """A scheduler writes only while the Lease is its own; nothing is said if others meddle."""
        if self.is_ours and self.leader not in (None, self.writer):
            yield f"{self.writer} wrote {self.what}, but {self.leader or 'nobody'} leads"

    def a_pod_is_bound_once(self) -> Wrong:
        """A pod that has a node keeps it."""
        if self.node_before and self.node_after != self.node_before:
            yield f"{self.what} went from {self.node_before} to {self.node_after}"


class AtABinding(Binding):
    """A scheduler gives a pod of ours a node."""

    def the_node_is_there(self) -> Wrong:
        """A pod is bound to a node that exists."""
        if self.node is None and not self.lately_gone(NODES):
            yield f"there is no node {self.node_name}"

    def it_fits(self) -> Wrong:
        """A node has what its pods ask for, of whatever the new one asks for."""
        for what, n in self.asks.items() if self.knows_room else ():
            room, used = self.room[what], self.used[what]
            if used + n > room and what not in self.premises.extended:
                yield f"{self.node_name} has {room} {what}, of which {used} are used, not {n}"

    def it_may_be_on_the_node(self) -> Wrong:
        """Selector and affinity allow the node, its taints and its cordon are tolerated."""
        if self.knows_node and self.knows_pod:
            if not m.wants_node(self.pod, self.node):
                yield f"it does not select {self.node_name}"
            for taint in m.untolerated(self.pod, self.node):
                yield f"it does not tolerate {taint['key']} of {self.node_name}"

    def no_gate_holds_it(self) -> Wrong:
        """A pod with scheduling gates is not bound, nor one that is being deleted."""
        if self.pod["spec"].get("schedulingGates"):
            yield "it has scheduling gates"
        if m.is_leaving(self.pod):
            yield "it is being deleted"

    def its_ports_are_free(self) -> Wrong:
        """No two pods of a node have the same host port."""
        for pod, port in self.ports_of_neighbours():
            if any(m.ports_clash(port, each) for each in m.ports_of(self.pod)):
                yield f"{name_of(pod)} has the port {port[2]} of {self.node_name}"

    def nobody_keeps_away(self) -> Wrong:
        """Required anti-affinity holds in both directions."""
        for key, term, owner, other, there in self.terms_that_keep_away():
            together = key in self.labels and self.labels[key] == there.get(key)
            if together and self.means(term, owner, other):
                yield f"{name_of(owner)} keeps away from {name_of(other)} by {key}"

    def its_volumes_are_here(self) -> Wrong:
        """Its claims are bound, to volumes that the node can reach."""
        for claim in self.volume_claims():
            if claim.is_missing:
                yield f"its claim {claim.name} is not there"
            elif claim.is_unbound:
                yield f"its claim {claim.name} is not bound"
            elif claim.is_elsewhere:
                yield f"the volume of {claim.name} is not on {self.node_name}"

    def its_devices_are_its_own(self) -> Wrong:
        """Its resource claims are allocated, for this node, and reserved for it."""
        for claim in self.device_claims():
            if claim.is_empty:
                yield f"its claim {claim.name} {'never had' if claim.is_new else 'has no'} devices"
            elif claim.is_known and not claim.is_reserved:
                yield f"its claim {claim.name} is not reserved for it"
            if claim.is_elsewhere:
                yield f"the devices of {claim.name} are not on {self.node_name}"

    def its_queue_takes_it(self) -> Wrong:
        """If there are queues, a pod's is there, open, the end of a branch, for its namespace."""
        if (queue := self.named_queue) is None:
            return
        if queue.name == "root" or not queue.is_there:
            yield f"queue {queue.name} takes no pods"
        if queue.has_parts:
            yield f"other queues are part of queue {queue.name}"
        yield from (f"queue {name} is closed" for name in queue.closed_on_its_path)
        if not queue.is_for(self.pod):
            yield f"queue {queue.name} is not for its namespace"

    def its_queue_may_use_it(self) -> Wrong:
        """No queue uses more than its capability or its cards, of what is not free for the pod."""
        for queue, what, n, limit in self.limits():
            if (used := self.used_by_queue[queue][what]) + n > limit:
                yield f"queue {queue} uses {used} of {limit} {what} already, and it asks for {n}"

    def the_guarantees_of_others_are_kept(self) -> Wrong:
        """What the parts of a queue use, or are guaranteed if more, fits into its capability.

        That of all queues fits into the cluster. What a queue uses within its own guarantee is its
        right in any case. Said where any part is guaranteed some; of the cluster if it is known.
        """
        for what, queue, before, now, room in self.stakes():
            if before < now > room:
                within = f"in queue {queue}, where all stakes are {now} of {room}"
                yield f"{what} is guaranteed to other queues {within}"

    def its_node_is_not_reserved_for_others(self) -> Wrong:
        """No pod comes to a node that is kept for others, or that it would not leave in time."""
        for kept in self.reservations_of_its_node():
            if self.reaches_into(kept) and not kept.part and not kept.is_for(self.pod):
                yield f"it is reserved by {kept.name} for others"

    def it_leaves_the_parts_that_are_reserved_of_its_node(self) -> Wrong:
        """What Reservations keep of a node, and their users do not have, is left free by others."""
        for name, amount in self.lacks_beside_parts().items():
            yield f"{amount} {name} of its node are kept by Reservations"

    def it_has_the_reservation_that_it_asks_for(self) -> Wrong:
        """Who asks for a Reservation comes to one of its nodes, within its window, as its user."""
        wanted = self.wanted_reservation
        if self.is_its_reservation_missing:
            yield f"Reservation {wanted}, which it asks for, is not there"
        if (kept := self.known_reservation(wanted)) is not None:
            if not kept.is_for(self.pod):
                yield f"it may not use Reservation {wanted}"
            if self.knows_node and not kept.has(self.node):
                yield f"it is not of Reservation {wanted}"
            if self.date < kept.start or self.decided >= kept.end:
                yield f"the window of Reservation {wanted} is not open"


class BesidePromises(Binding):
    """The same, ``notice`` seconds later at the latest: who has gone takes back what was void."""

    def no_promised_room_is_taken(self) -> Wrong:
        """Room that is promised to a waiting pod goes to nobody of its priority or lower.

        Said of one promise at a time, which would have held without this pod once all that leave
        have left. Who has a promise of its own for the node keeps that.
        """
        for other, what, theirs in self.promises_of_others() if self.knows_room else ():
            left = self.room[what] - self.used_by_those_who_stay[what] - theirs
            is_above = m.priority_of(self.pod) > m.priority_of(other)
            if 0 <= left < self.asks[what] and not is_above:
                yield f"{what} of {self.node_name} is promised to {name_of(other)}"


class Together(Binding):
    """The same, once all Bindings are done that belong together; not where single ones may fail."""

    def it_is_beside_its_friends(self) -> Wrong:
        """Required affinity: another is in the domain, or it is the first of its kind anywhere."""
        for key, domains in self.domains_of_friends():
            is_first = not domains and self.is_its_own_friend
            if key not in self.labels or not (is_first or self.labels[key] in domains):
                yield f"none that it must be near is in its {key}"

    def it_is_spread(self) -> Wrong:
        """Hard spread constraints: the domain has at most maxSkew more than the emptiest."""
        for key, counts, itself, each in self.hard_spreads():
            least = min(counts.values()) if len(counts) >= (each.get("minDomains") or 1) else 0
            if (here := self.labels.get(key)) is None:
                yield f"{self.node_name} has no {key}"
            elif counts[here] + itself - least > each["maxSkew"]:
                yield f"{here} has {counts[here]} already, another {key} has {least}"


class Gangs(Parts):
    """Gangs that start together come to be bound whole, or not at all; or the cluster rests."""

    def gangs_are_whole(self) -> Wrong:
        """No gang is bound in part for longer than ``bind_seconds`` by our doing, nor at rest.

        From its first Binding to the last that its minimum needs, and from the first eviction that
        leaves it with less to the last of its members. Those that others take apart are theirs.
        """
        for gang, took, now in self.in_pieces():
            is_theirs = gang.torn or gang.name in self.premises.torn_gangs
            if took > self.premises.bind_seconds and not is_theirs:
                yield f"gang {gang.name} was in pieces for {took:.3g} s, now {now}"


def may_have_its_place(taker: q.Standing, victim: q.Standing) -> bool:
    """Whether a waiting pod may ever have the place of another, be it alone or with its gang.

    By priority where there are no queues, and inside one. Between queues inference takes from less
    important training; where no annotation says what pods are, a queue that is owed something does.
    """
    mine, theirs = taker.importance, victim.importance
    if taker.never_preempts or victim.must_stay:
        return False
    if taker.queue == victim.queue:  # or there are none
        return theirs < mine and (taker.premises.preempt_within_queue or not taker.queue)
    if not victim.queue_gives_back:
        return False
    is_above = theirs < mine or theirs == mine == 0 or not taker.premises.respect_priority
    if is_above and (taker.service, victim.service) == ("inference", "training"):
        return True
    return taker.queue_is_owed and not (taker.service_is_stated or victim.service_is_stated)


class AtADeparture(Departure):
    """A scheduler deletes a pod: to make room if it does not say that it is for something else."""

    def it_may_be_evicted(self) -> Wrong:
        """Who is evicted is told so, and somebody waits, or did lately, who may have its place.

        Not of a gang of which only a part was ever bound: that is taken back. Of a gang by its
        owner, which is not read here, whoever is told nothing may be part of such a one.
        """
        is_taken_back = self.is_of_a_part or (self.is_of_a_job and not self.is_told_why)
        if self.why != "room" or is_taken_back or self.is_unclear:
            return
        if not self.is_told_why:
            yield f"{name_of(self.victim)} was not told why it has to leave"
        if not any(may_have_its_place(each, self.standing) for each in self.who_waits()):
            yield f"{name_of(self.victim)} left, but nobody waits who may have its place"

    def it_had_time_to_save_its_state(self) -> Wrong:
        """Who asks for time is told before, and deleted when that is over or it has said so.

        Not before it has started, nor beyond its run time, nor of half a gang that is taken back.
        """
        if self.why != "room" or self.is_of_a_part or not self.has_started:
            return
        if self.notice is None and self.asked:
            yield f"{name_of(self.victim)} asked for {self.asked:g} s and was given no notice"
        elif self.had < self.asked - 2 and not self.has_saved and not self.is_over:
            yield f"{name_of(self.victim)} was given {self.had:g} s of {self.asked:g} s"

    def its_time_is_over(self) -> Wrong:
        """Whom we end has run as long as its annotation allows, or one of its queues."""
        if self.why == "time" and not self.is_over and not self.is_unclear:
            yield f"{name_of(self.victim)} was ended {self.when_it_ended}"

    def its_node_is_reserved(self) -> Wrong:
        """Who leaves for a Reservation is no user of it, and on its nodes while it holds."""
        if self.why != "reservation" or not self.knows_reservations or not self.is_of_a_queue:
            return
        those = [each for each in self.reservations_of_its_node() if self.holds_or_did(each)]
        if not any(each.evicts and not each.is_for(self.victim) for each in those):
            yield f"{name_of(self.victim)} left for a Reservation, and none has it leave its node"


class AtAnEvent(Telling):
    """Somebody tells for whom a pod was evicted."""

    def the_event_is_true(self) -> Wrong:
        """Whom an Event names as the reason of an eviction may have the place, or might then."""
        if not self.might_then and not may_have_its_place(*self.standings):
            names = f"{name_of(self.victim)} left for {name_of(self.taker)}"
            yield f"{names}, which may not have its place"


class AtARequest(Request):
    """A scheduler asks to bind or to evict a pod, whether or not the server does so."""

    def a_pod_is_meant_by_its_uid(self) -> Wrong:
        """Who is bound or evicted is the pod that was decided about, not another of its name."""
        if not self.uid:
            yield f"{self.about} without its uid"

    def a_pod_is_asked_for_once(self) -> Wrong:
        """No second node is asked for a pod, and nothing again that was done.

        The same may be repeated until an answer tells what has become of it, whatever is read
        meanwhile; after a conflict the pod tells, read for that. A conflict with another's Binding
        ends an attempt; the next one is of the pod as the watch shows it, which may be late.
        """
        if self.was_told_so:
            yield f"{self.about}, which it has been told is done"
        elif self.has_bound_it_to not in ("", self.node):
            yield f"{self.about_node}, and has bound it to {self.has_bound_it_to}"
        elif self.it_is_on and self.has_read_that and not self.may_be_asked_again:
            yield f"{self.about_node}, and has read that it is on {self.it_is_on}"
        elif self.it_is_on and self.since >= self.premises.notice and not self.is_repeated:
            yield f"{self.about_node}, which is on {self.it_is_on} for {self.since:g} s"

    def nothing_is_asked_on_doubt(self) -> Wrong:
        """On doubt no other node is asked for, and after a conflict the pod is read first."""
        if self.doubt is not None and self.doubt.node != self.node:
            yield f"{self.about_node}, and cannot know whether it is bound to {self.doubt.node}"
        elif self.doubt is not None and self.doubt.why == "conflict":
            yield f"{self.about_node} after a conflict, and has not looked at the pod"


class AtRest(Rest):
    """Nothing has happened for long, and a scheduler is at work."""

    def nobody_waits_for_what_has_gone(self) -> Wrong:
        """No pod is promised room on a node that is not there."""
        for pod, node in self.nominated():
            if node not in self.world.of(NODES):
                yield f"{name_of(pod)} is nominated to {node}, which has gone"

    def who_is_nominated_waits_for_somebody(self) -> Wrong:
        """Room is kept for a pod or a gang only while somebody leaves for it.

        Or its Gang says since when it waits: nothing is said of gangs that have no Gang.
        """
        for each in self.keepers():
            if (each.is_lone or not each.says_since_when) and not each.somebody_leaves:
                yield f"{each.name} keeps {', '.join(sorted(each.nodes))}, and nobody leaves"

    def nobody_stays_on_reserved_nodes(self) -> Wrong:
        """While a Reservation that evicts holds, nobody is on its nodes who may not be there."""
        for pod, node, kept in self.on_reserved_nodes():
            holds = kept.start + self.premises.notice <= self.date < kept.end
            if kept.evicts and holds and not kept.is_for(pod):
                yield f"{name_of(pod)} stays on {node}, which is reserved"

    def who_fits_is_placed(self) -> Wrong:
        """A lone pod waits only if each node is kept from it by a rule of Bindings.

        Only while no gang waits, as room may be kept free for one.
        """
        for pod in self.who_needs_but_a_node() if not self.a_gang_waits else ():
            if node := self.find_node(pod, AtABinding, Together, BesidePromises):
                yield f"{name_of(pod)} waits, but {node} has room for it"

    def nobody_left_for_nothing(self) -> Wrong:
        """No victim has left for a pod that waits still, although nothing has come between."""
        for victim, taker, since in self.evictions_in_vain():
            if not self.something_happened(since, m.priority_of(taker)):
                yield f"{name_of(victim)} left in vain: {name_of(taker)} still waits"
