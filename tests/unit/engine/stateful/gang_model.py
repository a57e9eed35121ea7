"""What a life of gangs is made of: claims, a plugin of changing moods, pods and writes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from arranger.api.effects import Bind, Outcome
from arranger.api.settings.gang_settings import MatchPolicy
from arranger.api.types.core import ObjectMeta, Pod
from arranger.api.types.pod_groups import (
    CommunityPodGroup,
    GangBundle,
    GangObject,
    GangSpec,
    GangStatus,
    SigsPodGroup,
    VolcanoPodGroup,
)
from arranger.cluster.pod_info import PodInfo
from arranger.framework.cluster_event import ActionType, QueueingHint
from arranger.framework.interface import DependsOn, Plugin, Wait
from arranger.framework.status import CycleState, Status
from tests.builders import PodBuilder

NAMES = [f"p{n}" for n in range(8)]
PLUGIN_ANSWERS = [
    *[("permit", "wait")] * 4,
    *(("permit", "refuse"), ("permit", "raise"), ("reserve", "refuse"), ("reserve", "raise")),
    *(("pre_bind", "refuse"), ("pre_bind", "raise")),
]
#: What may happen to a pod on the server.
EVENTS = [
    *("deleted", "deleting", "edited", "freed", "freed"),
    *("Succeeded", "Failed", "bound by another"),
]
NODES = st.sampled_from(["n0", "n1", "n2"])
KINDS = (SigsPodGroup, CommunityPodGroup, VolcanoPodGroup)
PICK = st.integers(0, 99)
BOTH = '["default/a", "default/b"]'
TIMEOUT_ANNOTATIONS = ("gang.scheduling.koordinator.sh/timeout", "gang.koordinater.io/timeOut")
#: Dialects that need a PodGroup, and of what kind.
DEFINED = {"sigs": SigsPodGroup, "x": CommunityPodGroup, "volcano": VolcanoPodGroup}
LABELS = ("pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group")


@dataclass(frozen=True)
class GangSettings:
    """What a pod says about its gang, and what else it is like."""

    dialect: str
    gang: str
    least: int
    mode: str
    wait: str
    match: str
    partners: str
    topology: str
    cpu: int
    gated: bool

    @staticmethod
    def random(rng: random.Random) -> GangSettings:
        pick = rng.choice
        return GangSettings(
            dialect=pick(["annotations"] * 3 + ["sigs", "x", "volcano", "ps", "worker", ""]),
            gang=pick("abcd"),
            least=pick(range(5)),
            mode=pick(["Strict", "Strict", "NonStrict", "NonStrict", "loose"]),
            wait=pick(["", "", "5s", "2h", "soon"]),
            match=pick(["", "", *(policy.value for policy in MatchPolicy)]),
            partners=pick([""] * 5 + [BOTH, BOTH, '["default/nobody"]']),
            topology=pick(["", "", "", "preferred=zone"]),
            cpu=pick([1, 1, 1, 2]),
            gated=rng.random() < 0.15,
        )

    @property
    def annotations(self) -> dict[str, str]:
        words = {"mode": self.mode, "waiting-time": self.wait, "groups": self.partners}
        words["match-policy"] = self.match
        return {f"gang.scheduling.koordinator.sh/{word}": text for word, text in words.items()}


RNG = random.Random(0)
#: One draw for a whole claim: more of them fit into a second.
GANG_SETTINGS = st.sampled_from([GangSettings.random(RNG) for _ in range(500)])
#: Some of the pods' names, in a row.
NAMED = st.sampled_from(
    [[NAMES[(first + n) % 7] for n in range(size)] for first in range(7) for size in range(1, 5)]
)


def with_gang_settings(pod: PodBuilder, claim: GangSettings) -> PodBuilder:
    """The pod with nothing but this claim."""
    manifest = pod.manifest()
    manifest["metadata"]["labels"] = {}
    manifest["metadata"]["annotations"] = {
        "arranger.io/topology": claim.topology,
        **claim.annotations,
    }
    pod, gang = PodBuilder(manifest), claim.gang
    match claim.dialect:
        case "":
            return pod
        case "annotations":
            return pod.in_gang(gang, claim.least)
        case "sigs" | "x":
            return pod.in_pod_group(gang, label=LABELS[claim.dialect == "x"])
        case "volcano":
            return pod.annotated({"scheduling.k8s.io/group-name": gang})
        case role:
            return pod.in_bundle(gang, role, min(claim.least, 2))


def gang_object(name: str, minima: Mapping[str, int], *, satisfied: bool = False) -> GangObject:
    """The Gang object of a gang whose bundles have these minima."""
    namespace, _, gang = name.partition("/")
    return GangObject(
        ObjectMeta(gang, namespace),
        GangSpec([GangBundle(*bundle) for bundle in minima.items()], source="gang.koordinater.io"),
        GangStatus(resource_satisfied=satisfied),
    )


class UnreliablePlugin(Plugin):
    """Refuses or delays the pods of some names at any extension point."""

    depends_on = DependsOn.USAGE
    queueing_hints = (QueueingHint(ActionType.NODE_CHANGED),)

    def __init__(self) -> None:
        #: Extension point → pod → what becomes of it there.
        self.moods: dict[str, dict[str, str]] = {}

    def answer(self, point: str, pod: PodInfo) -> Any:
        mood = self.moods.get(point, {}).get(pod.pod.metadata.name)
        if mood == "raise":
            raise RuntimeError("bad mood")
        if mood == "wait" and point == "permit":
            return Wait(7.0)
        return None if mood is None else self.reject("bad mood")

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return self.answer("reserve", pod)  # type: ignore[no-any-return]

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | Wait | None:
        return self.answer("permit", pod)  # type: ignore[no-any-return]

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return self.answer("pre_bind", pod)  # type: ignore[no-any-return]


@dataclass
class ServerPod:
    """A pod as the API server has it."""

    pod: PodBuilder
    uid: str
    node: str = ""
    phase: str = ""
    deleting: bool = False
    _built: Pod | None = None
    _built_of: tuple[object, ...] = ()

    def build(self) -> Pod:
        """As the watch shows it; built anew only when something has changed."""
        state = (id(self.pod), self.node, self.phase, self.deleting)
        if state != self._built_of:
            pod = self.pod.deleting() if self.deleting else self.pod
            pod = pod.on(self.node) if self.node else pod
            self._built = (pod.in_phase(self.phase) if self.phase else pod).build()
            self._built_of = state
        assert self._built is not None, "built above"
        return self._built


@dataclass
class PendingBinding:
    """A Binding on its way; ``done`` is what the server did with it, unknown to the engine."""

    bind: Bind
    done: Outcome | None = None
