"""No event, condition or message names what is in another namespace.

Random worlds of three tenants who get into each other's way: they evict each other, starve each
other and wait for each other's gangs. Names tell whose they are, so that each text can be searched.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence

import pytest

from arranger.api.effects import AnnotatePod, DeletePod, Effect, PatchPodStatus, PublishEvent
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group, a_queue
from tests.unit.engine.harness import EngineHarness

TENANTS = ("red", "green", "blue")
WORLDS = int(os.environ.get("ARRANGER_WORLDS", "150"))
ZONE = "topology.kubernetes.io/zone"


def secrets_of_others(namespace: str, text: str, allowed: Sequence[str] = ()) -> list[str]:
    """Names in a text that are of another namespace, but for those that may be said."""
    for name in allowed:
        text = text.replace(name, "")
    found = re.findall(r"\b(red|green|blue)(?:-secret|/)\S*", text)
    return [tenant for tenant in found if tenant != namespace]


def texts(effect: Effect) -> Iterator[tuple[str, str, str]]:
    """Namespace, name and text of all that an effect lets somebody read."""
    match effect:
        case PublishEvent(regarding=about, note=note, related=related):
            yield about.namespace, about.name, note
            if related is not None:
                yield about.namespace, about.name, f"{related.namespace}/{related.name}"
        case PatchPodStatus(pod=pod, condition=condition):
            yield pod.namespace, pod.name, condition.message if condition is not None else ""
        case DeletePod(pod=pod, condition=condition):
            yield pod.namespace, pod.name, condition.message if condition is not None else ""
        case AnnotatePod(pod=pod, annotations=annotations):
            yield pod.namespace, pod.name, str(annotations)


class World:
    """What the tenants do, at random."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._made = rng, 0
        self.harness = EngineHarness(
            default_profile(),
            gangs=GangPolicy(starvation_after=30, wait_time=60, reservation_max_nodes_percent=100),
        )
        #: Namespace → names of others that its own objects spell.
        self.spelled: dict[str, set[str]] = {tenant: set() for tenant in TENANTS}
        self._pods: list[PodBuilder] = []

    def play(self) -> None:
        rng = self._rng
        zones = ("a", "b")
        for n in range(rng.randint(1, 4)):
            self.harness.observe(
                a_node(f"n{n}").in_zone(rng.choice(zones)).offers(cpu=rng.randint(2, 6))
            )
        if rng.random() < 0.6:
            for name in ("q0", "q1"):
                limits = {"capability": {"cpu": rng.randint(1, 8)}} if rng.random() < 0.5 else {}
                shares = {"deserved": {"cpu": rng.randint(1, 3)}} if rng.random() < 0.5 else {}
                if limits and shares:
                    limits = {}
                self.harness.observe(a_queue(name, priority=rng.randint(0, 2), **limits, **shares))
        for _ in range(rng.randint(4, 12)):
            rng.choice((self._lone, self._lone, self._gang, self._group, self._leave))()
            effects = self.harness.run()
            if rng.random() < 0.6:
                self.harness.settle_all(effects)
            self.harness.advance_to(self.harness.now + rng.choice((0.0, 1.0, 31.0, 61.0)))

    def _pod(self, tenant: str) -> PodBuilder:
        rng, self._made = self._rng, self._made + 1
        pod = a_pod(f"{tenant}-secret-{self._made}").in_namespace(tenant)
        pod = pod._set("metadata", uid=f"uid-{self._made}")
        pod = pod.needs(cpu=rng.randint(1, 4)).with_priority(rng.choice((0, 0, 10, 20)))
        if rng.random() < 0.5:
            pod = pod.in_queue(rng.choice(("q0", "q1", "nowhere")))
        if rng.random() < 0.2:
            pod = pod.serving(rng.choice(("inference", "training")))
        if rng.random() < 0.1:
            pod = pod.with_claim(f"{tenant}-secret-claim")
        if rng.random() < 0.1:
            pod = pod.apart(ZONE, {"app": "x"}).labelled({"app": "x"})
        return pod

    def _observe(self, *pods: PodBuilder) -> None:
        self._pods += pods
        self.harness.observe(*pods)

    def _lone(self) -> None:
        self._observe(self._pod(self._rng.choice(TENANTS)))

    def _gang(self) -> None:
        rng, tenant = self._rng, self._rng.choice(TENANTS)
        size, name = rng.randint(1, 4), f"{tenant}-secret-gang-{self._made}"
        alike = self._pod(tenant)
        least = size + (rng.random() < 0.1)
        if rng.random() < 0.4:
            group = a_pod_group(name, least=least)._set("metadata", namespace=tenant)
            self.harness.observe(group)
            pods = [self._like(alike, tenant).in_pod_group(name) for _ in range(size)]
        else:
            mode = rng.choice(("Strict", "NonStrict"))
            pods = [self._like(alike, tenant).in_gang(name, size, mode=mode) for _ in range(size)]
        if rng.random() < 0.2:
            pods = [pod.annotated({"arranger.io/topology": f"required={ZONE}"}) for pod in pods]
        self._observe(*pods)

    def _like(self, pod: PodBuilder, tenant: str) -> PodBuilder:
        self._made += 1
        manifest = pod.manifest()
        name = f"{tenant}-secret-{self._made}"
        manifest["metadata"].update(name=name, uid=f"uid-{self._made}")
        return PodBuilder(manifest)

    def _group(self) -> None:
        """Gangs of all tenants that are placed together, each knowing the next of them only."""
        rng = self._rng
        chain = [(t, f"{t}-secret-team-{self._made}") for t in rng.sample(TENANTS, 3)]
        names = [f"{tenant}/{gang}" for tenant, gang in chain]
        for place, (tenant, gang) in enumerate(chain):
            near = [n for at, n in enumerate(names) if abs(at - place) == 1]
            if rng.random() < 0.1:
                near.append(f"{tenant}/{tenant}-secret-missing")
            self.spelled[tenant].update(near)
            words = '["' + '","'.join([names[place], *near]) + '"]'
            pods = [self._pod(tenant).in_gang(gang, 2, groups=words) for _ in range(2)]
            if rng.random() < 0.9:
                self._observe(*pods)

    def _leave(self) -> None:
        if self._pods:
            gone = self._pods.pop(self._rng.randrange(len(self._pods)))
            self.harness.observe_deleted(gone)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_nobody_is_told_names_of_other_namespaces(seed: int) -> None:
    world = World(random.Random(seed))
    world.play()
    for effect in world.harness.effects:
        for namespace, name, text in texts(effect):
            others = secrets_of_others(namespace, text, sorted(world.spelled.get(namespace, ())))
            assert not others, f"{namespace}/{name} is told: {text}"


def test_the_worlds_tell_something_of_every_kind() -> None:
    said = ""
    for seed in range(150):
        world = World(random.Random(seed))
        world.play()
        said += "\n".join(t for effect in world.harness.effects for _, _, t in texts(effect))
    for words in (
        "of other namespaces",
        "the gang of pod",
        "gang group of 3 gangs in 3 namespaces",
        "in arranger memory",
        "one of its pods",
        "gave its nodes back",
    ):
        assert words in said, words


@pytest.mark.parametrize(
    ("tenant", "title"),
    {"red": "gang red/red-secret-gang", "blue": "a gang of another namespace"}.items(),
)
def test_for_whom_nodes_are_kept_is_told_to_its_own_namespace(tenant: str, title: str) -> None:
    harness = EngineHarness(default_profile(), gangs=GangPolicy(starvation_after=30))
    members = (a_pod(f"red-secret-{n}").in_gang("red-secret-gang", 4) for n in range(4))
    harness.observe(a_node("n0").offers(cpu=4), a_pod("old").needs(cpu=2).on("n0"))
    harness.observe(*(pod.needs(cpu=1).in_namespace("red") for pod in members))
    harness.run()
    harness.advance_to(40)
    harness.observe(a_pod("small").needs(cpu=1).in_namespace(tenant))
    told = [text for effect in harness.run() for _, _, text in texts(effect)]
    assert any(f"1 node(s) reserved for {title}." in text for text in told), told
