"""For each rule of the specification a trace that breaks it, and one near it that does not."""

from __future__ import annotations

from tests.specification.traces import (
    Trace,
    a_lease,
    a_pod,
    preempted,
)
from tests.specification.worlds import (
    ALLOCATED,
    GPU,
    NEAR,
    OURS,
    TAINT,
    TOLERATION,
    a_bound_gang,
    a_gang,
    a_port,
    asking,
    beside_a_guarantee,
    beside_a_part_of_its_queue,
    between_queues,
    emptied,
    ending,
    evicting,
    held,
    in_a_queue,
    led,
    of_a_job,
    of_cards,
    one_node,
    promised,
    required,
    reserved,
    spread,
    two_zones,
    web,
    with_devices,
    with_volume,
)

#: What is wrong → (the rule that says so, a trace in which it happens, one in which it does not).
CASES: dict[str, tuple[str, Trace, Trace]] = {
    "a node is given more CPU than it has": (
        "it_fits",
        one_node(a_pod("a", cpu=3), a_pod("b", cpu=2)).binds("a", "n1").binds("b", "n1"),
        one_node(a_pod("a", cpu=3), a_pod("b", cpu=1)).binds("a", "n1").binds("b", "n1"),
    ),
    "a node is given more pods than it takes": (
        "it_fits",
        one_node(a_pod("a"), a_pod("b"), pods=1).binds("a", "n1").binds("b", "n1"),
        one_node(a_pod("a"), a_pod("b"), pods=2).binds("a", "n1").binds("b", "n1"),
    ),
    "what others placed long ago is not counted; what they place at this moment need not be": (
        "it_fits",
        one_node(a_pod("a", cpu=3), a_pod("b", cpu=2))
        .binds("a", "n1", by="")
        .passes(60)
        .binds("b", "n1"),
        one_node(a_pod("a", cpu=3), a_pod("b", cpu=2)).binds("a", "n1", by="").binds("b", "n1"),
    ),
    "a resource that the node does not have is given": (
        "it_fits",
        one_node(a_pod("a", asks={GPU: "1"})).binds("a", "n1"),
        one_node(a_pod("a", asks={GPU: "1"}), offers={GPU: "1"}).binds("a", "n1"),
    ),
    "a pod is moved": (
        "a_pod_is_bound_once",
        one_node(a_pod("a")).binds("a", "n1").binds("a", "n2"),
        one_node(a_pod("a")).binds("a", "n1").edits("Pod", "a", {"status": {"phase": "Running"}}),
    ),
    "a pod is bound to a node that is gone": (
        "the_node_is_there",
        one_node(a_pod("a")).deletes("Node", "n1").passes(60).binds("a", "n1"),
        one_node(a_pod("a")).passes(60).deletes("Node", "n1").binds("a", "n1"),
    ),
    "a pod is on a node that its selector does not mean": (
        "it_may_be_on_the_node",
        one_node(a_pod("a", nodeSelector={"disk": "ssd"})).binds("a", "n1"),
        one_node(a_pod("a", nodeSelector={"disk": "ssd"}), labels={"disk": "ssd"}).binds("a", "n1"),
    ),
    "a pod is on a node whose taint it does not tolerate": (
        "it_may_be_on_the_node",
        one_node(a_pod("a"), taints=[TAINT]).binds("a", "n1"),
        one_node(a_pod("a", tolerations=[TOLERATION]), taints=[TAINT]).binds("a", "n1"),
    ),
    "a pod is on a node that was cordoned long ago": (
        "it_may_be_on_the_node",
        one_node(a_pod("a"))
        .edits("Node", "n1", {"spec": {"unschedulable": True}})
        .passes(60)
        .binds("a", "n1"),
        one_node(a_pod("a"))
        .passes(60)
        .edits("Node", "n1", {"spec": {"unschedulable": True}})
        .binds("a", "n1"),
    ),
    "a pod with a gate is bound": (
        "no_gate_holds_it",
        one_node(a_pod("a", schedulingGates=[{"name": "later"}])).binds("a", "n1"),
        one_node(a_pod("a", schedulingGates=[])).binds("a", "n1"),
    ),
    "two pods have one port": (
        "its_ports_are_free",
        one_node(a_pod("a", **a_port()), a_pod("b", **a_port("10.0.0.1")))
        .binds("a", "n1")
        .binds("b", "n1"),
        one_node(a_pod("a", **a_port("10.0.0.2")), a_pod("b", **a_port("10.0.0.1")))
        .binds("a", "n1")
        .binds("b", "n1"),
    ),
    "a pod is beside one that it keeps away from": (
        "nobody_keeps_away",
        two_zones(*web("a"), a_pod("b", **required("podAntiAffinity", [NEAR])))
        .binds("a", "n0")
        .binds("b", "n1"),
        two_zones(*web("a"), a_pod("b", **required("podAntiAffinity", [NEAR])))
        .binds("a", "n0")
        .binds("b", "n2"),
    ),
    "a pod is beside one that keeps away from it": (
        "nobody_keeps_away",
        two_zones(*web("a"), a_pod("b", **required("podAntiAffinity", [NEAR])))
        .binds("b", "n0")
        .binds("a", "n1"),
        two_zones(*web("a"), a_pod("b", **required("podAntiAffinity", [NEAR])))
        .binds("b", "n0")
        .binds("a", "n2"),
    ),
    "a pod is not beside those that it must be near": (
        "it_is_beside_its_friends",
        two_zones(*web("a"), a_pod("b", **required("podAffinity", [NEAR])))
        .binds("a", "n0")
        .binds("b", "n2")
        .passes(60),
        two_zones(*web("a"), a_pod("b", **required("podAffinity", [NEAR])))
        .binds("b", "n1")
        .binds("a", "n0")
        .passes(60),
    ),
    "pods are not spread": (
        "it_is_spread",
        two_zones(*web("a", "b", **spread())).binds("a", "n0").binds("b", "n1").passes(60),
        two_zones(*web("a", "b", "c", **spread()))
        .binds("a", "n0")
        .binds("b", "n1")
        .binds("c", "n2")
        .passes(60),
    ),
    "a pod is where its volume is not": (
        "its_volumes_are_here",
        with_volume("a").binds("p", "n2"),
        with_volume("b").binds("p", "n2"),
    ),
    "a pod is bound before its claim, which is new": (
        "its_volumes_are_here",
        with_volume("b", claimed=False).binds("p", "n2"),
        with_volume("b").binds("p", "n2"),
    ),
    "a pod is bound before its new claim has devices": (
        "its_devices_are_its_own",
        with_devices({}, seen=0),
        with_devices({"allocation": {"devices": {}}}, seen=0),
    ),
    "a pod is bound before its devices are reserved for it": (
        "its_devices_are_its_own",
        with_devices({**ALLOCATED, "reservedFor": []}),
        with_devices(ALLOCATED),
    ),
    "room that was made for a pod is given to one no more important": (
        "no_promised_room_is_taken",
        promised(priority=5),
        promised(priority=6),
    ),
    "a queue uses more than its capability": ("its_queue_may_use_it", in_a_queue(2), in_a_queue(1)),
    "a queue uses more cards than its quota": ("its_queue_may_use_it", of_cards(1), of_cards(2)),
    "a pod runs in a queue that there is not": (
        "its_queue_takes_it",
        in_a_queue(1, exists=False),
        in_a_queue(1),
    ),
    "a pod runs in a queue that is not for its namespace": (
        "its_queue_takes_it",
        in_a_queue(1, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team"}}),
        in_a_queue(
            1, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "default"}}
        ),
    ),
    "what is guaranteed to a queue is given to another": (
        "the_guarantees_of_others_are_kept",
        beside_a_guarantee(2),
        beside_a_guarantee(1),
    ),
    "what is guaranteed to a part of a queue is given to another part": (
        "the_guarantees_of_others_are_kept",
        beside_a_part_of_its_queue(2).binds("p", "n1"),
        beside_a_part_of_its_queue(1).binds("p", "n1"),
    ),
    "a part of a queue gets more than it is guaranteed itself": (
        "the_guarantees_of_others_are_kept",
        beside_a_part_of_its_queue(2, own=1).binds("p", "n1"),
        beside_a_part_of_its_queue(2, own=2).binds("p", "n1"),
    ),
    "somebody is evicted for nobody more important": (
        "it_may_be_evicted",
        evicting(a_pod("taker", priority=3)),
        evicting(a_pod("taker", priority=4)),
    ),
    "somebody is evicted for one that never preempts": (
        "it_may_be_evicted",
        evicting(a_pod("taker", priority=4, preemptionPolicy="Never")),
        evicting(a_pod("taker", priority=4, preemptionPolicy="PreemptLowerPriority")),
    ),
    "somebody is evicted and not told": (
        "it_may_be_evicted",
        evicting(a_pod("taker", priority=4), told=False),
        evicting(a_pod("taker", priority=4)),
    ),
    "inference takes from training that is more important": (
        "it_may_be_evicted",
        between_queues(priority=2),
        between_queues(priority=4),
    ),
    "a node that is kept for others is given away": (
        "its_node_is_not_reserved_for_others",
        reserved(),
        reserved(users=OURS),
    ),
    "a node that nobody may have now is given away": (
        "its_node_is_not_reserved_for_others",
        reserved(users={}, maintenance=True, nodes={"selector": {}}),
        reserved(users={}, maintenance=True, nodes={"selector": {"matchLabels": {"no": "node"}}}),
    ),
    "a pod that may run for ever comes shortly before a node is kept for others": (
        "its_node_is_not_reserved_for_others",
        reserved(at=82),
        reserved(at=70),
    ),
    "a pod comes that would not leave in time": (
        "its_node_is_not_reserved_for_others",
        reserved(at=20, limit="80s"),
        reserved(at=20, limit="60s"),
    ),
    "a pod comes that would not leave in time, by digits that count": (
        "its_node_is_not_reserved_for_others",
        reserved(at=20, limit="80s"),
        reserved(at=20, limit="\u0668\u0660s"),
    ),
    "a pod comes before the window has ended": (
        "its_node_is_not_reserved_for_others",
        reserved(at=3080),
        reserved(at=3085),
    ),
    "what is reserved of a node is given away": (
        "it_leaves_the_parts_that_are_reserved_of_its_node",
        reserved(nodes={"names": ["n1"], "perNode": {"cpu": 4}}),
        reserved(nodes={"names": ["n1"], "perNode": {"cpu": 1}}),
    ),
    "a pod asks for a Reservation that there is not": (
        "it_has_the_reservation_that_it_asks_for",
        reserved(note="other", users=OURS),
        reserved(note="kept", users=OURS),
    ),
    "a pod does not wait for its Reservation to begin": (
        "it_has_the_reservation_that_it_asks_for",
        reserved(at=30, note="kept", users=OURS),
        reserved(at=85, note="kept", users=OURS),
    ),
    "a pod is not on a node of its Reservation": (
        "it_has_the_reservation_that_it_asks_for",
        reserved(note="kept", users=OURS, nodes={"names": ["n2"]}),
        reserved(note="kept", users=OURS, nodes={"names": ["n1", "n2"]}),
    ),
    "a job's pod takes from a more important one of the queue that the job names": (
        "it_may_be_evicted",
        of_a_job(priority=2),
        of_a_job(priority=4),
    ),
    "a pod that is in no gang by its job takes from a more important one of the job's queue": (
        "it_may_be_evicted",
        of_a_job(priority=2, alone="false"),
        of_a_job(priority=4, alone="false"),
    ),
    "a queue loses what cannot be reclaimed": (
        "it_may_be_evicted",
        between_queues(priority=4, reclaimable=False),
        between_queues(priority=4),
    ),
    "a pod is evicted that must not be": (
        "it_may_be_evicted",
        between_queues(priority=4, note="false"),
        between_queues(priority=4),
    ),
    "a pod that asks for time is given none": (
        "it_had_time_to_save_its_state",
        asking(None),
        asking(None, asks="a while"),
    ),
    "a pod that asks for time is given less": (
        "it_had_time_to_save_its_state",
        asking(50),
        asking(60),
    ),
    "a pod is given less than the most there is": (
        "it_had_time_to_save_its_state",
        asking(500, asks="1h"),
        asking(600, asks="1h"),
    ),
    "a pod that has not saved its state is deleted early": (
        "it_had_time_to_save_its_state",
        asking(10),
        asking(10, saves=True),
    ),
    "a pod is ended before its time is over": (
        "its_time_is_over",
        ending(88, limit="90s"),
        ending(90, limit="90s"),
    ),
    "a pod is ended before the time of its queue is over": (
        "its_time_is_over",
        ending(50, limit="2m", of_queue="1m"),
        ending(60, limit="2m", of_queue="1m"),
    ),
    "a pod is ended that may run for ever": (
        "its_time_is_over",
        ending(3000, limit="a day"),
        ending(3000, limit="50m"),
    ),
    "a pod is ended by a limit in digits that do not count": (
        "its_time_is_over",
        ending(3000, limit="\u0665\u0660m"),
        ending(3000, limit="50m"),
    ),
    "a pod leaves for a Reservation that evicts nobody": (
        "its_node_is_reserved",
        emptied(),
        emptied(evict=True),
    ),
    "a pod leaves before the window opens": (
        "its_node_is_reserved",
        emptied(85, evict=True),
        emptied(95, evict=True),
    ),
    "a pod leaves after the window": (
        "its_node_is_reserved",
        emptied(evict=True, lasts="20s"),
        emptied(evict=True, lasts="2m"),
    ),
    "a pod leaves another node": (
        "its_node_is_reserved",
        emptied(evict=True, nodes={"names": ["n2"]}),
        emptied(evict=True, nodes={"selector": {}}),
    ),
    "a user leaves": (
        "its_node_is_reserved",
        emptied(evict=True, users=OURS),
        emptied(evict=True, maintenance=True, users={}),
    ),
    "an Event names a taker that may not have the place": (
        "the_event_is_true",
        evicting(a_pod("taker", priority=4)).has(a_pod("low"), preempted("victim", "low")),
        evicting(a_pod("taker", priority=4)).has(a_pod("low"), preempted("victim", "taker")),
    ),
    "a gang takes long to be bound": (
        "gangs_are_whole",
        a_gang(3, 0, 1, 2, within=0.6),
        a_gang(3, 0, 1, 2, within=0.4),
    ),
    "a gang loses a member that it needs, and the others stay": (
        "gangs_are_whole",
        a_bound_gang(2, 0, 1).evicts("g-2"),
        a_bound_gang(2, 0),
    ),
    "a replica writes while another holds the Lease": (
        "it_writes_as_the_leader",
        led("two", writer="one"),
        led("two", writer="two"),
    ),
    "a replica writes after it has given the Lease back": (
        "it_writes_as_the_leader",
        one_node(a_pod("p"))
        .has(a_lease(""))
        .edits("Lease", "arranger", held("one"), by="one")
        .edits("Lease", "arranger", held(""), by="one")
        .binds("p", "n1"),
        led("one", writer="one"),
    ),
}
