"""Edits of what pods and PodGroups say about gangs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from arranger.api import annotations as keys
from tests.builders import PodBuilder, a_node, a_pod
from tests.simulation.edits.edit import (
    Edits,
    NoMeaning,
    Outcome,
    Step,
    TakesEffect,
    create,
    evicted,
    label,
    note,
    patch,
    placed,
    steps,
)
from tests.simulation.edits.fields import Field
from tests.simulation.harnesses.preemption import pod
from tests.simulation.harnesses.simulation import Object

#: What is said of a gang's placement, once the gang has been placed.
DONE: Final = NoMeaning(
    "the gang has had its minimum, after which its rules bind no more; it counts again when the "
    "gang has lost all its nodes and begins anew"
)
UNUSED: Final = Edits.both(NoMeaning("members are counted, not declared"))
MADE_BY_JOB: Final = Edits.both(NoMeaning("its controller writes it, and by it knows the pod"))
_BY_ANNOTATION: Final = {keys.GANG_NAME: "g"}
_BY_LABEL: Final = "scheduling.sigs.k8s.io/v1alpha1", keys.POD_GROUP
_ZONE: Final = "topology.kubernetes.io/zone"


def a_group(version: str, least: int = 2, notes: Mapping[str, str] | None = None) -> Object:
    """The PodGroup ``g`` of a dialect."""
    meta = {"name": "g", "namespace": "default", "annotations": dict(notes or {})}
    return {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": least},
    }


def group_path(version: str) -> str:
    """Where it is."""
    return f"/apis/{version}/namespaces/default/podgroups/g"


@dataclass(frozen=True, slots=True)
class Source:
    """Somewhere that a setting of the gang ``g`` can be written.

    Attributes:
        notes: annotations of its pods.
        labels: labels of its pods.
        key: the annotation, or the field of ``spec``, with the setting.
        group: the apiVersion of the PodGroup that has it; "" for the pods.
        in_spec: whether it is a field of ``spec``.
    """

    key: str
    notes: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    in_spec: bool = False

    def pods(self, count: int, value: object = None, *, least: int = 2) -> list[PodBuilder]:
        """The first so many pods of the gang."""
        notes = dict(self.notes)
        if not self.group:
            notes.setdefault(keys.GANG_MIN, str(least))
            if value is not None:
                notes[self.key] = str(value)
        return [pod(f"g-{n}").annotated(notes).labelled(self.labels) for n in range(count)]

    def groups(self, value: object = None, *, least: int = 2) -> list[Object]:
        """The PodGroup with the setting, if one has it."""
        if not self.group:
            return []
        made = a_group(self.group, least)
        if value is not None and self.in_spec:
            made["spec"][self.key] = value
        elif value is not None:
            made["metadata"]["annotations"][self.key] = str(value)
        return [made]

    def gang(self, count: int, value: object = None, *, least: int = 2) -> Step:
        """Its pods, and its PodGroup if it has one."""
        groups, pods = self.groups(value, least=least), self.pods(count, value, least=least)
        return create(*groups, *pods)

    def write(self, value: object, count: int = 2) -> Step:
        """The edit."""
        if not self.group:
            text = None if value is None else str(value)
            return note(self.key, text, *(f"g-{n}" for n in range(count)))
        if self.in_spec:
            return patch(group_path(self.group), {"spec": {self.key: value}})
        notes = {self.key: None if value is None else str(value)}
        return patch(group_path(self.group), {"metadata": {"annotations": notes}})


def on_pods(key: str, **more: str) -> Source:
    """An annotation of the pods."""
    return Source(key, {**_BY_ANNOTATION, **more})


def in_bundle(key: str) -> Source:
    """The same in the dialect of bundles; the minimum is that of the one bundle."""
    return Source(key, {keys.BUNDLE_GANG: "g", keys.BUNDLE_MIN: "2", keys.GANG_MIN: ""})


def on_group(key: str) -> Source:
    """An annotation of the PodGroup."""
    return Source(key, labels={keys.POD_GROUP: "g"}, group="scheduling.sigs.k8s.io/v1alpha1")


def in_spec(key: str, version: str, member: str) -> Source:
    """A field of a PodGroup, whose pods name it by a label, or by an annotation (Volcano's)."""
    named = {member: "g"}
    if version.startswith("scheduling.volcano.sh"):
        return Source(key, notes=named, group=version, in_spec=True)
    return Source(key, labels=named, group=version, in_spec=True)


# --- the stories ---------------------------------------------------------------------------------


def minimum(source: Source) -> Edits:
    """With a smaller minimum those that are there start, and the surplus may be evicted."""
    waiting = TakesEffect(
        given=steps(create(a_node("n1").offers(cpu=2)), source.gang(2, 3, least=3)),
        edit=source.write(2),
        look=placed("g-0", "g-1"),
        without=set(),
        seen={"g-0", "g-1"},
    )
    running = TakesEffect(
        given=steps(create(a_node("n1").offers(cpu=3)), source.gang(3, 3, least=3)),
        edit=source.write(2, 3),
        later=create(pod("high", 9)),
        look=lambda sim: len(evicted(sim)),
        without=3,
        seen=1,
    )
    return Edits(waiting, running)


def wait_time(source: Source, short: object = "20s", long: object = "1h") -> Edits:
    """Half a gang that holds a node gives it back when the shorter time is over."""
    strict = {keys.BUNDLE_STRICT: "false", keys.GANG_MODE: "NonStrict"}
    group = [{"metadata": {"annotations": {keys.GANG_MODE: "NonStrict"}}}] if source.group else []
    waiting = TakesEffect(
        given=steps(
            create(a_node("n1").offers(cpu=1), *source.groups(long)),
            *(patch(group_path(source.group), change) for change in group),
            create(*(p.annotated(strict) for p in source.pods(2, long))),
        ),
        edit=source.write(short),
        later=create(a_pod("behind").needs(cpu=1)),
        look=placed("behind"),
        without=set(),
        seen={"behind"},
        seconds=60,
    )
    return Edits(waiting, DONE)


def mode(source: Source, strict: str = "Strict", not_strict: str = "NonStrict") -> Edits:
    """Half a gang that becomes NonStrict holds a node, which others then do not get."""
    waiting = TakesEffect(
        given=steps(create(a_node("n1").offers(cpu=1)), source.gang(2, strict)),
        edit=source.write(not_strict),
        later=create(a_pod("behind").needs(cpu=1)),
        look=placed("behind"),
        without={"behind"},
        seen=set(),
    )
    return Edits(waiting, DONE)


def groups(source: Source) -> Edits:
    """A gang whose partner has not come waits, until it names the partner no more."""
    partners = json.dumps(["default/g", "default/late"])
    waiting = TakesEffect(
        given=steps(create(a_node("n1").offers(cpu=2)), source.gang(2, partners)),
        edit=source.write(None),
        look=placed("g-0", "g-1"),
        without=set(),
        seen={"g-0", "g-1"},
    )
    return Edits(waiting, DONE)


def match_policy(source: Source) -> Edits:
    """A pod that comes after its gang has run waits for another by ``only-waiting`` alone."""
    before = steps(create(a_node("n1").offers(cpu=4)), source.gang(2, "only-waiting"))
    waiting = TakesEffect(
        given=before,
        edit=steps(create(source.pods(3, "only-waiting")[2]), source.write("once-satisfied", 3)),
        later=nothing_but(create(source.pods(3, "only-waiting")[2])),
        look=placed("g-2"),
        without=set(),
        seen={"g-2"},
    )
    running = TakesEffect(
        given=before,
        edit=source.write("once-satisfied"),
        later=create(source.pods(3)[2]),
        look=placed("g-2"),
        without=set(),
        seen={"g-2"},
    )
    return Edits(waiting, running)


def nothing_but(step: Step) -> Step:
    """The step, unless what it makes is there already."""

    def once(sim: object) -> None:
        if not any(p["metadata"]["name"] == "g-2" for p in sim.cluster.objects("pods")):  # type: ignore[attr-defined]
            step(sim)

    return once


def topology(source: Source) -> Edits:
    """A gang that no zone has room for is placed once it need not be in one."""
    zones = [a_node(f"n{z}").in_zone(f"z{z}").offers(cpu=1) for z in (1, 2)]
    waiting = TakesEffect(
        given=steps(create(*zones), source.gang(2, f"required={_ZONE}")),
        edit=source.write(f"preferred={_ZONE}"),
        look=placed("g-0", "g-1"),
        without=set(),
        seen={"g-0", "g-1"},
    )
    return Edits(waiting, DONE)


def membership(key: str, *, by_label: bool = False, group: str = "") -> Edits:
    """A pod that names its gang no more waits for nobody, and is not evicted with the others."""
    least = {} if group else {keys.GANG_MIN: "2"}
    made = [a_group(group)] if group else []

    def member(name: str) -> PodBuilder:
        one = pod(name).annotated(least)
        return one.labelled({key: "g"}) if by_label else one.annotated({key: "g"})

    leave = (label if by_label else note)(key, None, "g-1")
    waiting = TakesEffect(
        given=create(a_node("n1").offers(cpu=1), *made, member("g-1")),
        edit=leave,
        look=placed("g-1"),
        without=set(),
        seen={"g-1"},
    )
    running = TakesEffect(
        given=create(a_node("n1").offers(cpu=2), *made, member("g-0"), member("g-1")),
        edit=leave,
        later=create(pod("high", 9)),
        look=lambda sim: len(evicted(sim)),
        without=2,
        seen=1,
    )
    return Edits(waiting, running)


def timed_out(key: str, *, bundle: bool = False) -> Edits:
    """A gang that is marked is not tried; without the mark it is."""
    names = {keys.BUNDLE_GANG: "g", keys.BUNDLE_MIN: "2"} if bundle else {}
    source = Source(key, names or _BY_ANNOTATION)
    waiting = TakesEffect(
        given=steps(create(a_node("n1").offers(cpu=2)), source.gang(2, "true")),
        edit=source.write(None),
        look=placed("g-0", "g-1"),
        without=set(),
        seen={"g-0", "g-1"},
    )
    return Edits(waiting, NoMeaning("written on gangs that wait; one that runs holds nothing"))


# --- bundles -------------------------------------------------------------------------------------


def role(first: PodBuilder, second: PodBuilder, edit: Step, *group: Object) -> Edits:
    """A role that misses a pod gets it from another role."""
    waiting = TakesEffect(
        given=create(a_node("n1").offers(cpu=2), *group, first, second),
        edit=edit,
        look=placed("p-0", "p-1"),
        without=set(),
        seen={"p-0", "p-1"},
    )
    return Edits(waiting, DONE)


def _task(name: str, task: str) -> PodBuilder:
    notes = {keys.VOLCANO_GROUP: "g", keys.TASK_SPEC: task}
    return a_pod(name).needs(cpu=1).annotated(notes)


_TASKS: Final = a_group("scheduling.volcano.sh/v1beta1")
_TASKS["spec"]["minTaskMember"] = {"ps": 1, "worker": 1}
_SIGS, _X = "scheduling.sigs.k8s.io/v1alpha1", "scheduling.x-k8s.io/v1alpha1"
_VOLCANO = "scheduling.volcano.sh/v1beta1"
_PODS: Final[dict[str, Edits]] = {
    keys.GANG_NAME: membership(keys.GANG_NAME),
    keys.POD_GROUP: membership(keys.POD_GROUP, by_label=True, group=_SIGS),
    keys.POD_GROUP_NAME: membership(keys.POD_GROUP_NAME, by_label=True, group=_SIGS),
    keys.POD_GROUP_X: membership(keys.POD_GROUP_X, by_label=True, group=_X),
    keys.BUNDLE_GANG: membership(keys.BUNDLE_GANG),
    keys.VOLCANO_GROUP: membership(keys.VOLCANO_GROUP, group=_VOLCANO),
    keys.VOLCANO_GROUP_LONG: membership(keys.VOLCANO_GROUP_LONG, group=_VOLCANO),
    keys.GANG_MIN: minimum(on_pods(keys.GANG_MIN)),
    keys.POD_GROUP_MIN: minimum(on_pods(keys.POD_GROUP_MIN, **{keys.GANG_MIN: ""})),
    keys.BUNDLE_MIN: minimum(Source(keys.BUNDLE_MIN, {keys.BUNDLE_GANG: "g", keys.GANG_MIN: ""})),
    keys.GANG_WAIT: wait_time(on_pods(keys.GANG_WAIT)),
    keys.BUNDLE_WAIT: wait_time(in_bundle(keys.BUNDLE_WAIT)),
    keys.GANG_MODE: mode(on_pods(keys.GANG_MODE)),
    keys.BUNDLE_STRICT: mode(in_bundle(keys.BUNDLE_STRICT), "true", "false"),
    keys.GANG_GROUPS: groups(on_pods(keys.GANG_GROUPS)),
    keys.GANG_GROUPS_ALIAS: groups(on_pods(keys.GANG_GROUPS_ALIAS)),
    keys.GANG_MATCH: match_policy(on_pods(keys.GANG_MATCH)),
    keys.POD_GROUP_MATCH: match_policy(on_pods(keys.POD_GROUP_MATCH)),
    keys.GANG_TIMEOUT: timed_out(keys.GANG_TIMEOUT),
    keys.BUNDLE_TIMEOUT: timed_out(keys.BUNDLE_TIMEOUT, bundle=True),
    keys.TOPOLOGY: topology(on_pods(keys.TOPOLOGY)),
    keys.BUNDLE_NAME: role(
        a_pod("p-0").needs(cpu=1).in_bundle("g", "ps", 2),
        a_pod("p-1").needs(cpu=1).in_bundle("g", "worker", 1),
        steps(note(keys.BUNDLE_MIN, "2", "p-1"), note(keys.BUNDLE_NAME, "ps", "p-1")),
    ),
    keys.TASK_SPEC: role(
        _task("p-0", "ps"), _task("p-1", "ps"), note(keys.TASK_SPEC, "worker", "p-1"), _TASKS
    ),
    keys.GANG_TOTAL: UNUSED,
    keys.BUNDLE_TOTAL: UNUSED,
}
_GROUPS: Final[dict[str, Edits]] = {
    keys.GANG_MIN: minimum(on_group(keys.GANG_MIN)),
    keys.POD_GROUP_MIN: minimum(on_group(keys.POD_GROUP_MIN)),
    keys.GANG_WAIT: wait_time(on_group(keys.GANG_WAIT)),
    keys.GANG_MODE: mode(on_group(keys.GANG_MODE)),
    keys.GANG_GROUPS: groups(on_group(keys.GANG_GROUPS)),
    keys.GANG_GROUPS_ALIAS: groups(on_group(keys.GANG_GROUPS_ALIAS)),
    keys.GANG_MATCH: match_policy(on_group(keys.GANG_MATCH)),
    keys.POD_GROUP_MATCH: match_policy(on_group(keys.POD_GROUP_MATCH)),
    keys.TOPOLOGY: topology(on_group(keys.TOPOLOGY)),
    keys.GANG_TOTAL: UNUSED,
}


def _specs() -> dict[Field, Edits]:
    rows: dict[Field, Edits] = {}
    for version, member in ((_SIGS, keys.POD_GROUP), (_X, keys.POD_GROUP_X)):
        kind = f"PodGroup of {version.partition('/')[0]}"
        rows[kind, "spec.minMember"] = minimum(in_spec("minMember", version, member))
        timeout = in_spec("scheduleTimeoutSeconds", version, member)
        rows[kind, "spec.scheduleTimeoutSeconds"] = wait_time(timeout, 20, 3600)
    volcano = in_spec("minMember", _VOLCANO, keys.VOLCANO_GROUP)
    rows["PodGroup of scheduling.volcano.sh", "spec.minMember"] = minimum(volcano)
    return rows


_MIRROR: Final[Outcome] = NoMeaning(
    "a Gang is what the pods and their PodGroup ask for, written by `arranger controllers`"
)
_MIRRORED: Final = (
    "mode",
    "matchPolicy",
    "waitTimeSeconds",
    "group",
    "source",
    "topology.key",
    "topology.required",
    "bundles[].name",
    "bundles[].minMember",
)
ROWS: Final[dict[Field, Edits]] = {
    **{("pod", key): edits for key, edits in _PODS.items()},
    **{("PodGroup", key): edits for key, edits in _GROUPS.items()},
    **_specs(),
    **{("Gang", f"spec.{path}"): Edits.both(_MIRROR) for path in _MIRRORED},
}
