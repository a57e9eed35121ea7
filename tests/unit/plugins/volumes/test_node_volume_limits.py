"""NodeVolumeLimits: what is attached is counted once, and only where there is a limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arranger.cluster.cluster import Cluster
from arranger.framework import ActionType, ClusterEvent
from arranger.plugins.volumes.attachments import AttachmentIndex
from arranger.plugins.volumes.csi_migration import translate_topology
from arranger.plugins.volumes.node_volume_limits import NodeVolumeLimits
from arranger.plugins.volumes.topology import volume_node_terms
from tests.builders import Member, PodBuilder, StoredBuilder, a_cluster, a_node, a_pod, expr
from tests.storage import (
    DRIVER,
    ZONE,
    a_claim,
    a_class,
    a_csi_node,
    a_volume,
    attached,
)
from tests.unit.plugins.evaluation import evaluate_with, rejected

N1, N2 = a_node("n1"), a_node("n2")
TOO_MANY = ("node(s) exceed max volume count",)
POD = a_pod().with_claim("mine")
EBS = "ebs.csi.aws.com"


def limit(driver: str = DRIVER, count: int | None = 2, node: str = "n1") -> StoredBuilder:
    return a_csi_node(node, **{driver.replace(".", "_"): count})


def volume(name: str, driver: str = DRIVER) -> StoredBuilder:
    return a_volume(f"v-{name}").served_by(driver, f"h-{name}")


def bound(*names: str, driver: str = DRIVER) -> list[Member]:
    """Claims with volumes of the driver."""
    claims: list[Member] = [a_claim(name).bound_to(f"v-{name}") for name in names]
    return [*claims, *(volume(name, driver) for name in names)]


def using(name: str, *claims: str) -> PodBuilder:
    pod = a_pod(name)
    for claim in claims:
        pod = pod.with_claim(claim)
    return pod.on("n1")


def disk(name: str, source: str, **fields: Any) -> PodBuilder:
    return a_pod(name).with_spec(volumes=[{"name": "disk", source: fields}])


FULL = using("p1", "a", "b")
CASES: dict[str, tuple[PodBuilder, list[Member], dict[str, tuple[str, ...]]]] = {
    "no volumes": (a_pod(), [limit(count=0)], {}),
    "room for one more": (POD, [limit(), using("p1", "a"), *bound("a", "mine")], {}),
    "no room": (POD, [limit(), FULL, *bound("a", "b", "mine")], {"n1": TOO_MANY}),
    "no room for two": (
        POD.with_claim("more"),
        [limit(), using("p1", "a"), *bound("a", "mine", "more")],
        {"n1": TOO_MANY},
    ),
    "no limit": (POD, [limit(count=None), FULL, *bound("a", "b", "mine")], {}),
    "no word of the node's drivers": (POD, [FULL, *bound("a", "b", "mine")], {}),
    "the limit of another driver": (POD, [limit("x.org"), FULL, *bound("a", "b", "mine")], {}),
    "volumes of another driver do not count": (
        POD,
        [limit(), FULL, *bound("a", "b", driver="x.org"), *bound("mine")],
        {},
    ),
    "two pods share a volume": (
        POD,
        [limit(), using("p1", "a"), using("p2", "a"), *bound("a", "mine")],
        {},
    ),
    "the volume is there already": (POD, [limit(count=1), using("p1", "mine"), *bound("mine")], {}),
    "attached for no pod we know of": (
        POD,
        [limit(), attached("v-x", "n1"), attached("v-y", "n1"), *bound("x", "y", "mine")],
        {"n1": TOO_MANY},
    ),
    "attached for the pod that uses it": (
        POD,
        [limit(), using("p1", "a"), attached("v-a", "n1"), *bound("a", "mine")],
        {},
    ),
    "attached to another node": (
        POD,
        [limit(), attached("v-x", "n2"), attached("v-y", "n2"), *bound("x", "y", "mine")],
        {},
    ),
    "attached by nobody, or not by a driver": (
        POD,
        [
            limit(count=1),
            attached("v-x", "n1", by=""),
            attached("plain", "n1"),
            attached("gone", "n1"),
            a_volume("plain"),
            *bound("x", "mine"),
        ],
        {},
    ),
    "unbound claims count by their class": (
        POD,
        [limit(), FULL, a_class(), a_claim("a"), a_claim("b"), *bound("mine")],
        {"n1": TOO_MANY},
    ),
    "a claim whose volume is gone counts by its class": (
        POD,
        [
            limit(count=1),
            using("p1", "a"),
            a_class(),
            a_claim("a").bound_to("gone"),
            a_claim("mine"),
        ],
        {"n1": TOO_MANY},
    ),
    "claims that nobody knows, or without a class or driver, do not count": (
        POD,
        [
            limit(count=1),
            using("p1", "gone", "classless", "plain"),
            a_claim("classless", of=""),
            a_claim("plain").bound_to("plain"),
            a_volume("plain"),
            *bound("mine"),
        ],
        {},
    ),
    "an ephemeral volume counts if it is the pod's": (
        POD,
        [
            limit(count=1),
            a_pod("p1").with_scratch("tmp").on("n1"),
            a_claim("p1-tmp").made_for(a_pod("p1")).bound_to("v-tmp"),
            volume("tmp"),
            *bound("mine"),
        ],
        {"n1": TOO_MANY},
    ),
    "an ephemeral volume of an earlier pod does not count": (
        POD,
        [
            limit(count=1),
            a_pod("p1").with_scratch("tmp").on("n1"),
            a_claim("p1-tmp").made_for(a_pod("p1").with_uid("earlier")).bound_to("v-tmp"),
            volume("tmp"),
            *bound("mine"),
        ],
        {},
    ),
    "disks of old count with the driver that serves them": (
        disk("new", "awsElasticBlockStore", volumeID="vol-1"),
        [limit(EBS, 1), disk("p1", "awsElasticBlockStore", volumeID="vol-2").on("n1")],
        {"n1": TOO_MANY},
    ),
    "an old name of a disk is the same disk": (
        disk("new", "awsElasticBlockStore", volumeID="vol-1"),
        [
            limit(EBS, 1),
            disk("p1", "awsElasticBlockStore", volumeID="aws://us-east-1a/vol-1").on("n1"),
        ],
        {},
    ),
    "a class of old days": (
        POD,
        [
            limit(EBS, 1),
            using("p1", "a"),
            a_class(by="kubernetes.io/aws-ebs"),
            a_claim("a"),
            a_claim("mine"),
        ],
        {"n1": TOO_MANY},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_rejects_nodes(
    case: tuple[PodBuilder, list[Member], dict[str, tuple[str, ...]]],
) -> None:
    pod, members, expected = case
    assert rejected(NodeVolumeLimits(), pod, N1, N2, *members) == expected


def test_a_missing_claim_is_told_of_every_node() -> None:
    verdict = evaluate_with(NodeVolumeLimits(), POD, N1)
    assert verdict["rejected"]["n1"] == {
        "plugin": "NodeVolumeLimits",
        "code": "UnschedulableAndUnresolvable",
        "reasons": ['looking up PVC default/mine: persistentvolumeclaim "mine" not found'],
    }


OLD_SOURCES: dict[str, tuple[StoredBuilder, str, str]] = {
    "a zonal disk of GCE": (
        a_volume("old").with_spec(gcePersistentDisk={"pdName": "d"}).labelled({ZONE: "us-east1-b"}),
        "pd.csi.storage.gke.io",
        "projects/UNSPECIFIED/zones/us-east1-b/disks/d",
    ),
    "a regional disk of GCE": (
        a_volume("old")
        .with_spec(gcePersistentDisk={"pdName": "d"})
        .labelled({ZONE: "us-east1-b__us-east1-c"}),
        "pd.csi.storage.gke.io",
        "projects/UNSPECIFIED/regions/us-east1/disks/d",
    ),
    "a disk of Azure": (
        a_volume("old").with_spec(azureDisk={"diskURI": "/d"}),
        "disk.csi.azure.com",
        "/d",
    ),
    "a volume of Cinder": (
        a_volume("old").with_spec(cinder={"volumeID": "c"}),
        "cinder.csi.openstack.org",
        "c",
    ),
    "a volume of Portworx": (
        a_volume("old").with_spec(portworxVolume={"volumeID": "x"}),
        "pxd.portworx.com",
        "x",
    ),
}


@pytest.mark.parametrize("case", OLD_SOURCES.values(), ids=OLD_SOURCES.keys())
def test_a_volume_of_old_is_the_same_as_its_drivers(case: tuple[StoredBuilder, str, str]) -> None:
    old, driver, handle = case
    members = [limit(driver, 1), using("p1", "a"), a_claim("a").bound_to("old"), old]
    same = [a_claim("mine").bound_to("new"), a_volume("new").served_by(driver, handle)]
    other = [a_claim("mine").bound_to("new"), a_volume("new").served_by(driver, "another")]
    assert rejected(NodeVolumeLimits(), POD, N1, *members, *same) == {}
    assert rejected(NodeVolumeLimits(), POD, N1, *members, *other) == {"n1": TOO_MANY}


KEY = "topology.ebs.csi.aws.com/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
REGION = "topology.kubernetes.io/region"
TRANSLATIONS: dict[str, tuple[Any, list[list[tuple[str, list[str]]]] | None]] = {
    "no word of zones": (a_volume(), None),
    "a zone": (a_volume().usable_in("a"), [[(KEY, ["a"])]]),
    "a zone and a region of old": (
        a_volume().usable(expr(BETA_ZONE, "In", "a"), expr(BETA_REGION, "In", "r")),
        [[(KEY, ["a"])], [(REGION, ["r"])]],
    ),
    "a label": (a_volume().labelled({ZONE: "b__a"}), [[(KEY, ["a", "b"])]]),
    "a label beside other terms": (
        a_volume().labelled({BETA_ZONE: "a"}).usable(expr("disk", "In", "ssd")),
        [[("disk", ["ssd"]), (KEY, ["a"])]],
    ),
    "what is said goes before labels": (
        a_volume().labelled({ZONE: "a"}).usable_in("b"),
        [[(KEY, ["b"])]],
    ),
}


@pytest.mark.parametrize("case", TRANSLATIONS.values(), ids=TRANSLATIONS.keys())
def test_zones_are_told_in_the_drivers_words(
    case: tuple[Any, list[list[tuple[str, list[str]]]] | None],
) -> None:
    built = case[0].build()
    terms = translate_topology(volume_node_terms(built), built, KEY)
    told = None if terms is None else [[(e.key, e.values) for e in term] for term in terms]
    assert told == case[1]


def _stored(after: StoredBuilder | None, before: StoredBuilder | None = None) -> ClusterEvent:
    built = (after or before or limit()).build()
    return ClusterEvent(
        ActionType.OTHER,
        resource=type(built).__name__,
        stored=None if after is None else after.build(),
        stored_before=None if before is None else before.build(),
    )


HINTS: dict[str, tuple[ClusterEvent, bool]] = {
    "a node's drivers came": (_stored(limit()), True),
    "a limit was raised": (_stored(limit(count=3), limit()), True),
    "a limit was removed": (_stored(a_csi_node("n1"), limit()), True),
    "a limit was lowered": (_stored(limit(count=1), limit()), False),
    "its claim came": (_stored(a_claim("mine")), True),
    "its claim changed": (_stored(a_claim("mine"), a_claim("mine")), False),
    "a volume was detached": (_stored(None, attached("v", "n1")), True),
    "a volume was attached": (_stored(attached("v", "n1")), False),
    "a pod with volumes went": (ClusterEvent(ActionType.POD_REMOVED, pod=FULL.build()), True),
    "a pod without volumes went": (
        ClusterEvent(ActionType.POD_REMOVED, pod=a_pod().build()),
        False,
    ),
}


@pytest.mark.parametrize("case", HINTS.values(), ids=HINTS.keys())
def test_wakes(case: tuple[ClusterEvent, bool]) -> None:
    event, expected = case
    assert (
        any(wake.matches(POD.info(), event) for wake in NodeVolumeLimits.queueing_hints) == expected
    )


names = st.sampled_from("abc")
node_names = st.sampled_from(["n1", "n2", "n3"])
stored = st.one_of(
    st.builds(lambda n, c: limit(count=c, node=n), node_names, st.integers(0, 3)),
    st.builds(lambda name: a_claim(name).bound_to(f"v-{name}"), names),
    names.map(a_claim),
    names.map(volume),
    st.builds(lambda name, n: attached(f"v-{name}", n), names, node_names),
    st.just(a_class()),
)
pods = st.builds(
    lambda name, claims, node: using(f"p{name}", *claims).on(node),
    st.integers(0, 3),
    st.sets(names),
    node_names,
)
changes = st.one_of(
    stored.map(lambda each: lambda cluster: cluster.objects.set(each.build())),
    stored.map(lambda each: lambda cluster: cluster.objects.remove(each.build())),
    pods.map(lambda pod: lambda cluster: cluster.observe_pod(pod.info())),
    st.integers(0, 3).map(lambda n: lambda cluster: cluster.remove_pod(f"uid-default-p{n}")),
    node_names.map(lambda name: lambda cluster: cluster.set_node(a_node(name).build())),
    node_names.map(lambda name: lambda cluster: cluster.remove_node(name)),
)


def _counted(use: AttachmentIndex, cluster: Cluster) -> dict[str, Any]:
    use.refresh(cluster)
    limits = use.limits(DRIVER)
    if limits is None:
        return {}
    return {
        name: (limits[row], use.counts(DRIVER)[row])
        for name, row in cluster.table.index.items()
        if limits[row] < 2**62
    }


@settings(max_examples=200, deadline=None)
@given(st.lists(changes, max_size=25))
def test_counts_kept_current_equal_counts_from_scratch(happenings: list[Any]) -> None:
    cluster = a_cluster(N1, N2)
    kept = AttachmentIndex(cluster)
    for change in happenings:
        change(cluster)
        assert _counted(kept, cluster) == _counted(AttachmentIndex(cluster), cluster)
