"""Which volumes a pod's claims get on each node, beside one node and claim after the other."""

from __future__ import annotations

import random
from typing import Any

import pytest

from arranger.api.selectors import Selector
from arranger.api.types.storage import PersistentVolume, PersistentVolumeClaim
from arranger.cluster import Cluster, NodeView
from arranger.plugins.volumes.claims import MAX_VOLUMES
from arranger.plugins.volumes.free_volumes import MAX_COMPARISONS, MAX_MATCHED, TooManyClaimsError
from arranger.plugins.volumes.matching import PodVolumeClaims
from arranger.plugins.volumes.volume_binding import TOO_MUCH_TO_MATCH, VolumeBinding
from tests.builders import Member, a_cluster, a_node, a_pod, expr
from tests.storage import ZONE, VolumeBuilder, a_claim, a_class, a_volume
from tests.unit.plugins.evaluation import evaluate_with

HOST = "kubernetes.io/hostname"
ZONES = ("a", "b")
SIZES = ("1Gi", "2Gi", "3Gi")
MODES = (["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"], ["ReadWriteMany"])


def a_random_volume(name: str, rng: random.Random) -> VolumeBuilder:
    volume = a_volume(name, size=rng.choice(SIZES), of=rng.choice(("late", "late", "other")))
    volume = volume.with_spec(accessModes=rng.choice(MODES)).labelled({"tier": rng.choice("xy")})
    volume = volume.with_status(phase=rng.choice(("Available", "Available", "Available", "Failed")))
    hosts = [f"n{n}" for n in rng.sample(range(5), 2)]
    terms: list[list[Any]] = [
        [expr(HOST, "In", hosts[0])],
        [expr(HOST, "In", *hosts)],
        [expr(ZONE, "In", rng.choice(ZONES)), expr(HOST, "NotIn", hosts[0])],
        [expr(ZONE, "Exists")],
        [expr("absent", "In", "x")],
    ]
    if rng.random() < 0.8:
        chosen = rng.sample(terms, rng.choice((1, 1, 1, 2)))
        selector = [{"matchExpressions": term} for term in chosen]
        required = {"nodeSelectorTerms": selector}
        volume = volume.with_spec(nodeAffinity={"required": required})
    if rng.random() < 0.2:
        volume = volume.kept_for(f"c{rng.randrange(6)}", uid=rng.choice((None, "uid-c1", "gone")))
    if rng.random() < 0.2:
        volume = volume.with_spec(volumeMode="Block")
    return volume


def a_random_claim(name: str, rng: random.Random) -> Any:
    claim = a_claim(name, size=rng.choice(SIZES), of=rng.choice(("late", "late", "other")))
    claim = claim.with_spec(accessModes=rng.choice(MODES[:2])[:1])
    if rng.random() < 0.3:
        claim = claim.with_spec(selector={"matchLabels": {"tier": rng.choice("xy")}})
    if rng.random() < 0.2:
        claim = claim.with_spec(volumeMode="Block")
    return claim


def usable(volume: PersistentVolume, labels: dict[str, str]) -> bool:
    """Whether a node of those labels is one of a volume's."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True

    def met(key: str, operator: str, values: list[str]) -> bool:
        match operator:
            case "In":
                return labels.get(key) in values
            case "NotIn":
                return labels.get(key) not in values
        return key in labels

    terms = affinity.required.node_selector_terms
    return any(all(met(e.key, e.operator, e.values) for e in t.match_expressions) for t in terms)


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    mine, theirs = volume.spec, claim.spec
    if mine.volume_mode != theirs.volume_mode or volume.class_name != claim.class_name:
        return False
    if volume.size < (claim.size or 0):
        return False
    if mine.claim_ref is not None:
        return volume.is_bound_to(claim)
    matches = theirs.selector is None or Selector(theirs.selector).matches(volume.metadata.labels)
    modes = set(theirs.access_modes) <= set(mine.access_modes)
    return volume.status.phase == "Available" and matches and modes


def one_by_one(
    claims: list[PersistentVolumeClaim], volumes: list[PersistentVolume], labels: dict[str, str]
) -> dict[str, str]:
    """Claim → volume on a node, as upstream finds them; none for those to be provisioned."""
    found: dict[str, str] = {}
    for claim in sorted(claims, key=lambda each: each.size or 0):
        kept = [v for v in volumes if v.spec.claim_ref is not None and fits(v, claim)]
        free = [v for v in volumes if v.spec.claim_ref is None and fits(v, claim)]
        for volume in kept[:1] or sorted(free, key=lambda v: (v.size, v.metadata.name)):
            name = volume.metadata.name
            if name not in found.values() and usable(volume, labels):
                found[claim.metadata.name] = name
                break
    return found


@pytest.mark.parametrize("seed", range(150))
def test_each_node_gets_what_it_would_get_alone(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [a_node(f"n{n}") for n in range(5)]
    nodes = [n.in_zone(rng.choice(ZONES)) if rng.random() < 0.8 else n for n in nodes]
    volumes = [a_random_volume(f"v{n}", rng) for n in range(rng.randrange(15))]
    claims = [a_random_claim(f"c{n}", rng) for n in range(rng.randrange(1, 7))]
    cluster = a_cluster(*nodes, *volumes, *claims, a_class(), a_class("other"))
    objects = cluster.objects
    asked = [c.build() for c in claims]
    made = [v.build() for v in volumes]
    pod_claims = PodVolumeClaims.look_up(objects, (), asked)
    for view in (all_of(cluster), NodeView(cluster.table, slice(2, 3))):
        found = pod_claims.match(view)
        for place, node in view.nodes():
            chosen = {
                wanted.claim.metadata.name: wanted.volumes[at[place]].metadata.name
                for wanted, at in found.chosen
                if at[place] >= 0
            }
            labels = node.node.metadata.labels
            assert chosen == one_by_one(asked, made, labels), (node.name, labels)


def all_of(cluster: Cluster) -> NodeView:
    return NodeView(cluster.table, slice(0, cluster.table.size))


def many(count: int, **spec: Any) -> list[Member]:
    return [a_claim(f"c{n}").with_spec(**spec) for n in range(count)]


def test_claims_beyond_a_bound_are_not_matched_with_volumes_that_exist() -> None:
    claims = [each.build() for each in many(MAX_MATCHED + 1)]  # type: ignore[attr-defined]
    free = a_cluster(a_node("n"), a_class(), a_volume("v"), *many(MAX_MATCHED + 1))
    PodVolumeClaims.look_up(free.objects, (), claims[:-1])
    with pytest.raises(TooManyClaimsError):
        PodVolumeClaims.look_up(free.objects, (), claims)
    none = a_cluster(a_node("n"), a_class(), *many(MAX_MATCHED + 1))
    assert PodVolumeClaims.look_up(none.objects, (), claims).unbound, "all are provisioned"


def test_claims_that_have_nothing_in_common_are_bounded_by_the_volumes_there_are() -> None:
    volumes = [a_volume(f"v{n}") for n in range(1000)]
    wanted = [
        a_claim(f"c{n}").with_spec(selector={"matchLabels": {f"k{m}": "v" for m in range(n + 1)}})
        for n in range(20)
    ]
    cluster = a_cluster(a_node("n"), a_class(), *volumes, *wanted)
    claims = [each.build() for each in wanted]
    assert PodVolumeClaims.look_up(cluster.objects, (), claims[:5]).unbound
    assert PodVolumeClaims.look_up(cluster.objects, (), claims[-1:]).unbound
    assert sum(range(2, 22)) * len(volumes) > MAX_COMPARISONS
    with pytest.raises(TooManyClaimsError):
        PodVolumeClaims.look_up(cluster.objects, (), claims)


def test_the_pod_is_told() -> None:
    pod = a_pod()
    for n in range(MAX_MATCHED + 1):
        pod = pod.with_claim(f"c{n}")
    world = [a_node("n"), a_class(), a_volume("v"), *many(MAX_MATCHED + 1)]
    assert evaluate_with(VolumeBinding(), pod, *world)["preFilter"]["reasons"] == [
        TOO_MUCH_TO_MATCH
    ]
    for n in range(MAX_MATCHED + 1, MAX_VOLUMES + 1):
        pod = pod.with_claim(f"c{n}")
    why = f"pod has {MAX_VOLUMES + 1} volumes, and at most {MAX_VOLUMES} are looked at"
    assert evaluate_with(VolumeBinding(), pod, *world)["preFilter"]["reasons"] == [why]
