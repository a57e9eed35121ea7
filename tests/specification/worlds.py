"""Traces of small worlds, for the cases of each rule."""

from __future__ import annotations

from typing import Any

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
)
from tests.specification.vocabulary.manifests import Object

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


def beside_a_part(**part: Any) -> Trace:
    """A pod waits that asks for all there is, beside a queue that is part of another."""
    return one_node(a_pod("p", cpu=4), a_queue("q"), a_queue("part", parent="q", **part))


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


def beside_a_part_of_its_queue(cpu: int, own: int = 0) -> Trace:
    """A pod waits in a part of a queue of 4, of which 3 are guaranteed to another part."""
    queues = (
        a_queue("team", capability={"cpu": "4"}),
        a_queue("kept", parent="team", guarantee={"resource": {"cpu": "3"}}),
        a_queue("q", parent="team", guarantee={"resource": {"cpu": str(own)}}),
    )
    return one_node(*queues, a_pod("p", cpu=cpu, annotations=in_queue("q")), cpu=64).passes(60)


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


def a_gang_that_needs_more_after(seconds: float) -> Trace:
    """Two were enough until so many seconds before they are bound, and are not now."""
    trace = one_node(*(a_member("g", n, 2) for n in range(3))).passes(60)
    for number in range(3):
        more = {"gang.scheduling.koordinator.sh/min-available": "3"}
        trace.edits("Pod", f"g-{number}", {"metadata": {"annotations": more}})
    return trace.passes(seconds).binds("g-0", "n1").binds("g-1", "n1").passes(60)


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
