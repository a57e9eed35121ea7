"""Soft spreading against the rule of kube-scheduler's ``podtopologyspread/scoring.go``, by node."""

from __future__ import annotations

from math import floor, log

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from arranger.api.types.workloads import Service
from arranger.explain.evaluate import evaluate_pod
from arranger.plugins.topology.pod_topology_spread import PodTopologySpread
from tests.builders import PodBuilder, a_cluster, a_node, a_pod
from tests.unit.plugins.evaluation import single_plugin_profile

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}

#: Of each node: its zone ("" for none), whether it has a host name, and how many such pods.
Nodes = list[tuple[str, bool, int]]
#: (topology key, maxSkew).
Constraints = list[tuple[str, int]]


def points(nodes: Nodes, constraints: Constraints, *, require_all: bool) -> list[int]:
    """The normalised score of each node."""
    labels = [{ZONE: zone} if zone else {} for zone, _, _ in nodes]
    for n, (_, named, _) in enumerate(nodes):
        labels[n] |= {HOST: f"n{n}"} if named else {}
    ignored = [require_all and any(key not in own for key, _ in constraints) for own in labels]
    scored = [n for n in range(len(nodes)) if not ignored[n]]
    raw: dict[int, int] = {}
    for n in scored:
        total = 0.0
        for key, skew in constraints:
            if key not in labels[n]:
                continue
            if key == HOST:
                size, pods = len(scored), nodes[n][2]
            else:
                size = len({labels[other].get(key, "") for other in scored})
                alike = [o for o in scored if labels[o].get(key) == labels[n][key]]
                pods = sum(nodes[other][2] for other in alike)
            total += pods * log(size + 2) + (skew - 1)
        raw[n] = floor(total + 0.5)
    most, least = max(raw.values(), default=0), min(raw.values(), default=0)
    even = [100 if not most else 100 * (most + least - raw[n]) // most for n in scored]
    found = dict(zip(scored, even, strict=True))
    return [found.get(n, 0) for n in range(len(nodes))]


def judged(nodes: Nodes, pod: PodBuilder, *, service: bool) -> list[int | None]:
    """What the plugin says of each node."""
    plugin, cluster = PodTopologySpread(), a_cluster()
    for n, (zone, named, count) in enumerate(nodes):
        node = (a_node(f"n{n}").in_zone(zone) if zone else a_node(f"n{n}")).build()
        if not named:
            del node.metadata.labels[HOST]
        cluster.set_node(node)
        for k in range(count):
            cluster.observe_pod(a_pod(f"n{n}-{k}").labelled(WEB).on(f"n{n}").info())
    if service:
        made = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}}
        cluster.objects.set(msgspec.convert(made, Service))
    found = evaluate_pod(cluster, pod.with_uid("new").info(), single_plugin_profile(plugin))
    return [found["scores"][f"n{n}"].get(plugin.name) for n in range(len(nodes))]


NODES = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "c"]), st.booleans(), st.integers(0, 4)),
    min_size=1,
    max_size=8,
)


@given(NODES)
def test_by_default_nodes_score_by_the_rule(nodes: Nodes) -> None:
    expected = points(nodes, [(HOST, 3), (ZONE, 5)], require_all=False)
    assert judged(nodes, a_pod().labelled(WEB), service=True) == expected


@given(
    NODES,
    st.lists(st.tuples(st.sampled_from([HOST, ZONE]), st.integers(1, 4)), min_size=1, max_size=3),
)
def test_by_constraints_of_its_own_too(nodes: Nodes, constraints: Constraints) -> None:
    pod = a_pod().labelled(WEB)
    for key, skew in constraints:
        pod = pod.spreads(key, skew=skew, over=WEB, soft=True)
    expected = points(nodes, constraints, require_all=True)
    assert judged(nodes, pod, service=False) == expected
