"""For each rule about a cluster at rest a trace that breaks it, and one near it that does not."""

from __future__ import annotations

from tests.specification.traces import (
    TIME_IS_OVER,
    Trace,
    a_pod,
    a_queue,
    preempted,
)
from tests.specification.worlds import (
    a_bound_gang,
    a_gang,
    a_gang_that_holds,
    a_gang_that_needs_more_after,
    beside_a_part,
    beside_a_part_of_its_queue,
    evicting,
    one_node,
    stays_on_reserved,
    two_that_start_together,
)

#: What is wrong → (the rule that says so, a trace in which it happens, one in which it does not).
AT_REST: dict[str, tuple[str, Trace, Trace]] = {
    "a gang is in pieces": ("gangs_are_whole", a_gang(3, 0, 1), a_gang(2, 0, 1)),
    "a gang is in pieces; one that came to need more while it was bound is not": (
        "gangs_are_whole",
        a_gang_that_needs_more_after(60),
        a_gang_that_needs_more_after(0.5),
    ),
    "a gang was broken and stays so": (
        "gangs_are_whole",
        a_bound_gang(2, 0, 1),
        a_bound_gang(2, 0, 1, 2),
    ),
    "of a gang that was broken one stays that runs; who has ended cannot leave": (
        "gangs_are_whole",
        a_bound_gang(2, 0, 1).edits("Pod", "g-2", {"status": {"phase": "Running"}}),
        a_bound_gang(2, 0, 1).edits("Pod", "g-2", {"status": {"phase": "Succeeded"}}),
    ),
    "a gang is broken; one of which a member has run for as long as it may is not": (
        "gangs_are_whole",
        a_bound_gang(2, 0, 1),
        a_bound_gang(2, 0)
        .edits("Pod", "g-1", {"status": {"conditions": [TIME_IS_OVER]}})
        .edits("Pod", "g-1", {"metadata": {"deletionTimestamp": "now"}}, by="one"),
    ),
    "a gang is broken of which one has ended; who has ended cannot leave": (
        "gangs_are_whole",
        a_bound_gang(3).edits("Pod", "g-2", {"status": {"phase": "Succeeded"}}).evicts("g-0"),
        a_bound_gang(3)
        .edits("Pod", "g-2", {"status": {"phase": "Succeeded"}})
        .evicts("g-0", "g-1"),
    ),
    "one of two gangs that start together is bound alone": (
        "gangs_are_whole",
        two_that_start_together("a"),
        two_that_start_together("a", "b"),
    ),
    "a gang is bound before others that it names; a list of more than 1,000 counts for nothing": (
        "gangs_are_whole",
        two_that_start_together("a", "b", strangers=999),
        two_that_start_together("a", "b", strangers=1000),
    ),
    "a pod waits though it fits": (
        "who_fits_is_placed",
        one_node(a_pod("p", cpu=4)),
        one_node(a_pod("p", cpu=5)),
    ),
    "a pod waits beside what queues in others deserve only": (
        "who_fits_is_placed",
        beside_a_part(deserved={"cpu": "3"}),
        beside_a_part(guarantee={"resource": {"cpu": "3"}}),
    ),
    "a pod waits beside what another part of its queue is guaranteed": (
        "who_fits_is_placed",
        beside_a_part_of_its_queue(1),
        beside_a_part_of_its_queue(2),
    ),
    "a pod waits beside what queues that are no parts are guaranteed": (
        "who_fits_is_placed",
        one_node(a_pod("p", cpu=4), a_queue("q", guarantee={"resource": {"cpu": "0"}})),
        one_node(a_pod("p", cpu=4), a_queue("q", guarantee={"resource": {"cpu": "3"}})),
    ),
    "a pod stays on a node that is reserved for others": (
        "nobody_stays_on_reserved_nodes",
        stays_on_reserved(evict=True),
        stays_on_reserved(),
    ),
    "a pod is promised room on a node that has gone": (
        "nobody_waits_for_what_has_gone",
        one_node(a_pod("p", cpu=5)).nominates("p", "n1").deletes("Node", "n1"),
        one_node(a_pod("p", cpu=5)).deletes("Node", "n1"),
    ),
    "a pod keeps a node that nobody leaves": (
        "who_is_nominated_waits_for_somebody",
        one_node(a_pod("p", cpu=5)).nominates("p", "n1"),
        one_node(a_pod("p", cpu=5), a_pod("v")).nominates("p", "n1").binds("v", "n1").evicts("v"),
    ),
    "a gang keeps nodes and does not say so": (
        "who_is_nominated_waits_for_somebody",
        a_gang_that_holds({}),
        a_gang_that_holds({"waitingSince": "1970-01-01T00:00:00Z"}),
    ),
    "somebody has left for one that waits still": (
        "nobody_left_for_nothing",
        evicting(a_pod("taker", cpu=9, priority=4)).has(preempted("victim", "taker")),
        evicting(a_pod("taker", priority=4)).has(preempted("victim", "taker")).binds("taker", "n1"),
    ),
}
