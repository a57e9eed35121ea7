"""For each rule of the specification a trace that breaks it, and one near it that does not."""

from __future__ import annotations

from typing import Any

from tests.specification.manifests import Object
from tests.specification.traces import (
    EVICTED,
    Trace,
    a_lease,
    a_member,
    a_node,
    a_pod,
    a_queue,
    a_reservation,
    anything,
    in_queue,
    preempted,
)

GPU, CARD = "nvidia.com/gpu", "NVIDIA-H200"
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
TOLERATION = {"key": "k", "operator": "Equal", "value": "v"}
ALLOCATED = {"allocation": {"devices": {}}, "reservedFor": [{"uid": "Pod-p"}]}
WEB, APP_WEB = {"app": "web"}, {"matchLabels": {"app": "web"}}
NEAR = {"topologyKey": "zone", "labelSelector": APP_WEB}


def required(kind: str, said: Any) -> Object:
    """Affinity."""
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": said}}}


def one_node(*pods: Object, **node: Any) -> Trace:
    """A node of 4 CPU, and pods that wait."""
    return Trace().has(a_node("n1", **node), *pods)


def two_zones(*pods: Object) -> Trace:
    """Nodes in zones, which everybody knows, and pods that wait."""
    nodes = (a_node(f"n{n}", labels={"zone": zone}) for n, zone in enumerate("aab"))
    return Trace().has(*nodes, *pods).passes(60)


def web(*names: str, **more: Any) -> list[Object]:
    """Pods of one application."""
    return [a_pod(name, labels=WEB, **more) for name in names]


def spread(**more: Any) -> Object:
    """At most one more in a zone than in another."""
    rule = {**NEAR, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **more}
    return {"topologySpreadConstraints": [rule]}


def a_port(address: str = "") -> Object:
    """A pod's port of its node."""
    return {"containers": [{"name": "c", "ports": [{"hostPort": 80, "hostIP": address}]}]}


def with_volume(*zones: str, claimed: bool = True) -> Trace:
    """A pod whose volume is in zone b, and nodes in zones."""
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    rules = [{"key": "zone", "operator": "In", "values": list(zones)}]
    where = {"required": {"nodeSelectorTerms": [{"matchExpressions": rules}]}}
    claim = anything("PersistentVolumeClaim", "data", {"volumeName": "pv"} if claimed else {})
    volume = anything("PersistentVolume", "pv", {"nodeAffinity": where})
    if not claimed:
        return two_zones(volume).has(claim, a_pod("p", volumes=volumes))
    return two_zones(claim, volume, a_pod("p", volumes=volumes))


def a_gang_that_holds(status: Object) -> Trace:
    """One of two members has come, and a node is kept for it."""
    gang = anything("Gang", "g", status=status)
    return one_node(gang, a_member("g", 0, 2)).nominates("g-0", "n1")


def with_devices(status: Object, *, seen: int = 60) -> Trace:
    """A pod with a claim that is so many seconds old."""
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    claim = anything("ResourceClaim", "c", status=status)
    return one_node(claim, a_pod("p", resourceClaims=claims)).passes(seen).binds("p", "n1")


def promised(priority: int) -> Trace:
    """A node of 4 with 2 that were freed for one of priority 5, and one that takes them."""
    pods = (a_pod("old", cpu=2), a_pod("taker", cpu=2, priority=5))
    trace = one_node(*pods).binds("old", "n1").nominates("taker", "n1").passes(60)
    return trace.has(a_pod("thief", cpu=2, priority=priority)).binds("thief", "n1").passes(60)


def in_a_queue(cpu: int, *, exists: bool = True, **spec: Any) -> Trace:
    """A pod of so many CPUs beside one of 2, in a queue of 3."""
    queue = a_queue("q" if exists else "other", **{"capability": {"cpu": "3"}, **spec})
    pods = (a_pod(name, cpu=n, annotations=in_queue("q")) for name, n in (("a", 2), ("b", cpu)))
    trace = one_node(queue, *pods, cpu=64).passes(60)
    return trace.binds("a", "n1").binds("b", "n1")


def of_cards(quota: int) -> Trace:
    """A pod with two cards, in a queue that may have so many."""
    note = {"volcano.sh/card.quota": f'{{"{CARD}": {quota}}}'}
    pod = a_pod("p", asks={GPU: "2"}, annotations=in_queue("q"))
    node = {"offers": {GPU: "8"}, "labels": {f"{GPU}.product": CARD}}
    return one_node(a_queue("q", annotations=note), pod, **node).passes(60).binds("p", "n1")


def beside_a_guarantee(cpu: int) -> Trace:
    """A node of 4 of which 3 are guaranteed to somebody else."""
    kept = a_queue("kept", guarantee={"resource": {"cpu": "3"}})
    pod = a_pod("p", cpu=cpu, annotations=in_queue("q"))
    return one_node(kept, a_queue("q"), pod).passes(60).binds("p", "n1")


def evicting(taker: Object, *, told: bool = True, **victim: Any) -> Trace:
    """Somebody has to leave, and this is who waits."""
    pod = a_pod("victim", **{"priority": 3, **victim})
    trace = one_node(pod, taker).binds("victim", "n1").passes(60)
    return trace.evicts("victim", told=told)


def asking(notice: float | None, *, asks: str = "60s", saves: bool = False) -> Trace:
    """Somebody who asks for time has to leave, so many seconds after the notice."""
    key = "arranger.io/checkpoint-before-eviction"
    pod = a_pod("victim", priority=3, annotations={key: asks})
    trace = one_node(pod, a_pod("taker", priority=4)).binds("victim", "n1").passes(60)
    trace.edits("Pod", "victim", {"status": {"startTime": "1970-01-01T00:00:00Z"}})
    told = {"type": "arranger.io/EvictionNotice", "status": "True"}
    if notice is not None:
        trace.edits("Pod", "victim", {"status": {"conditions": [told]}}, by="one").passes(notice)
    if saves:
        saved = {"arranger.io/checkpointed-at": "1970-01-01T00:01:00Z"}
        trace.edits("Pod", "victim", {"metadata": {"annotations": saved}})
    conditions = [EVICTED] if notice is None else [told, EVICTED]
    trace.edits("Pod", "victim", {"status": {"conditions": conditions}}, by="one")
    gone = {"metadata": {"deletionTimestamp": "1970-01-01T01:00:00Z"}}
    return trace.edits("Pod", "victim", gone, by="one")


def ending(ran: int, *, limit: str = "", of_queue: str = "") -> Trace:
    """A pod of a queue is ended after so many seconds."""
    key = "arranger.io/max-run-time"
    queue = a_queue("q", annotations={key: of_queue} if of_queue else {})
    pod = a_pod("p", annotations={**in_queue("q"), **({key: limit} if limit else {})})
    return one_node(queue, pod).binds("p", "n1").passes(ran).ends("p", ran)


def of_a_job(priority: int, *, alone: str = "true") -> Trace:
    """A pod of a PyTorchJob, whose queue the job names, has another of that queue leave."""
    policy = {"runPolicy": {"schedulingPolicy": {"queue": "q"}}}
    job = anything("PyTorchJob", "job", policy, annotations={"arranger.io/gang-by-owner": alone})
    taker = a_pod("taker", priority=priority, owner=job)
    victim = a_pod("victim", priority=3, annotations=in_queue("q"))
    queue = a_queue("q", reclaimable=False)
    return one_node(queue, job, taker, victim).binds("victim", "n1").passes(60).evicts("victim")


def reserved(at: int = 100, note: str = "", limit: str = "", **spec: Any) -> Trace:
    """A pod comes to a node that is kept from the 90th second on, in 50 minutes for a namespace."""
    users = {"users": {"namespaceSelector": {"matchLabels": {"team": "a"}}}}
    kept = a_reservation(**{"start": 90, "lasts": "50m", **users, **spec})
    notes = {"arranger.io/reservation": note, "arranger.io/max-run-time": limit}
    trace = one_node(kept).passes(at).has(a_pod("p", annotations=notes))
    return trace.passes(6).binds("p", "n1")


def emptied(at: int = 150, **spec: Any) -> Trace:
    """A pod leaves a node that is kept for others from the 90th second on."""
    users = {"users": {"namespaceSelector": {"matchLabels": {"team": "a"}}}}
    kept = a_reservation(**{"start": 90, "lasts": "50m", **users, **spec})
    return one_node(kept, a_pod("p")).binds("p", "n1").passes(at).empties("p")


def stays_on_reserved(**spec: Any) -> Trace:
    """A pod of others is on a node when its window has opened."""
    kept = a_reservation(maintenance=True, start=90, **spec)
    return one_node(kept, a_pod("p")).binds("p", "n1").passes(200)


OURS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}


def between_queues(priority: int, *, reclaimable: bool = True, note: str = "true") -> Trace:
    """Inference of a queue takes from training of another."""
    trace = one_node(
        a_queue("inference", reclaimable=False),
        a_queue("training", reclaimable=reclaimable),
        a_pod("taker", priority=priority, annotations=in_queue("inference", "inference")),
        a_pod(
            "victim",
            priority=3,
            annotations={**in_queue("training", "training"), "volcano.sh/preemptable": note},
        ),
    )
    return trace.binds("victim", "n1").passes(60).evicts("victim")


def a_gang(least: int, *bound: int, within: float = 0.5, **more: Any) -> Trace:
    """A gang of three of which these are bound, one after the other."""
    trace = one_node(*(a_member("g", n, least, **more) for n in range(3))).passes(60)
    for number in bound:
        trace.binds(f"g-{number}", "n1").passes(within)
    return trace.passes(60)


def a_bound_gang(least: int, *victims: int) -> Trace:
    """A gang of three that runs, and loses these for somebody more important."""
    trace = one_node(
        a_pod("taker", cpu=4, priority=9), *(a_member("g", n, least) for n in range(3))
    )
    for number in range(3):
        trace.passes(0.1).binds(f"g-{number}", "n1")
    return trace.passes(60).evicts(*(f"g-{n}" for n in victims)).passes(60)


def two_that_start_together(*bound: str, strangers: int = 0) -> Trace:
    """Gangs of one pod that name each other, and so many that there are not."""
    key = "gang.scheduling.koordinator.sh/groups"
    other = {"a": "b", "b": "a"}
    more = "".join(f', "default/s{n}"' for n in range(strangers))
    pods = (a_member(g, 0, 1, annotations={key: f'["default/{other[g]}"{more}]'}) for g in other)
    trace = one_node(*pods).passes(60)
    for name in bound:
        trace.binds(f"{name}-0", "n1")
    return trace.passes(60)


def led(by: str, writer: str) -> Trace:
    """Somebody writes while a scheduler holds the Lease."""
    trace = one_node(a_pod("p")).has(a_lease("")).edits("Lease", "arranger", held("one"), by="one")
    trace.edits("Lease", "arranger", held(by), by=by)
    return trace.binds("p", "n1", by=writer)


def held(by: str) -> Object:
    return {"spec": {"holderIdentity": by}}


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
    "a pod comes before the window has ended": (
        "its_node_is_not_reserved_for_others",
        reserved(at=3080),
        reserved(at=3085),
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
    "a pod that is in no gang by its job takes from the queue that the job names": (
        "it_may_be_evicted",
        of_a_job(priority=4, alone="false"),
        of_a_job(priority=4),
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

#: The same, of what must have come about at rest.
AT_REST: dict[str, tuple[str, Trace, Trace]] = {
    "a gang is in pieces": ("gangs_are_whole", a_gang(3, 0, 1), a_gang(2, 0, 1)),
    "a gang was broken and stays so": (
        "gangs_are_whole",
        a_bound_gang(2, 0, 1),
        a_bound_gang(2, 0, 1, 2),
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
