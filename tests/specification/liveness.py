"""What must have come about once nothing happens any more.

To be asked of a world in which a scheduler is at work, no fault is left, and nothing was changed by
anybody else for longer than a scheduler waits before it tries again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.specification.bindings import AT_ONCE, BESIDE_PROMISES, WITH_OTHERS, Binding
from tests.specification.gangs import GangBook, gang_of
from tests.specification.manifests import (
    Object,
    is_leaving,
    labels_of,
    name_of,
    nominated_to,
    notes_of,
)
from tests.specification.premises import Premises
from tests.specification.queues import (
    IN_QUEUES,
    has_guarantees_below,
    job_of,
    path,
    queue_of,
)
from tests.specification.reservations import BY_RESERVATIONS, nobody_stays_on_reserved_nodes
from tests.specification.trace import NODES, QUEUES, World

GANGS = "arranger.io/gangs"
#: Who owns pods that are no gang for it.
_LOOSE = ("ReplicaSet", "StatefulSet", "DaemonSet")


def wrong_at_rest(world: World, gangs: GangBook, premises: Premises) -> Iterator[tuple[str, str]]:
    """(rule, what is wrong)."""
    for text in gangs.in_pieces(world):
        yield "gangs_are_whole", text
    for text in nobody_waits_for_what_has_gone(world):
        yield "nobody_waits_for_what_has_gone", text
    for text in who_is_nominated_waits_for_somebody(world, premises):
        yield "who_is_nominated_waits_for_somebody", text
    for text in nobody_stays_on_reserved_nodes(world, premises):
        yield "nobody_stays_on_reserved_nodes", text
    for text in who_fits_is_placed(world, premises):
        yield "who_fits_is_placed", text


def nobody_waits_for_what_has_gone(world: World) -> Iterator[str]:
    """No pod is promised room on a node that is not there."""
    for pod in world.waiting.values():
        node = nominated_to(pod)
        if node and world.get(NODES, node) is None:
            yield f"{name_of(pod)} is nominated to {node}, which has gone"


def who_is_nominated_waits_for_somebody(world: World, premises: Premises) -> Iterator[str]:
    """Room is kept for a pod or a gang only while somebody leaves for it.

    Or its Gang says since when it waits: nothing is said of gangs that have no Gang. A pod that was
    tried in vain is nominated no more, as with kube-scheduler.
    """
    kept: dict[str, list[Object]] = {}
    for pod in world.waiting.values():
        ours = pod["spec"].get("schedulerName") in premises.scheduler_names
        if not ours or world.get(NODES, nominated_to(pod)) is None:
            continue
        name, gang = gang_of(pod)[0], world.get(GANGS, gang_of(pod)[0])
        silent = gang is not None and not (gang.get("status") or {}).get("waitingSince")
        if silent or not (name or job_of(world, pod)):
            kept.setdefault(f"gang {name}" if name else f"pod {name_of(pod)}", []).append(pod)
    for who, pods in kept.items():
        nodes = {nominated_to(pod) for pod in pods}
        if not any(is_leaving(p) for node in nodes for p in world.pods_on.get(node, {}).values()):
            yield f"{who} keeps {', '.join(sorted(nodes))}, and nobody leaves"


def who_fits_is_placed(world: World, premises: Premises) -> Iterator[str]:
    """A lone pod waits only if each node is kept from it by a rule of Bindings.

    Said of pods that need no more than a node: no volumes to be bound, no devices, no gang. And
    only while no gang waits, as room may be kept free for one, and where the rule of guarantees
    tells what is kept free for queues.
    """
    if has_guarantees_below(world):
        return
    ours = [
        p
        for p in world.waiting.values()
        if p["spec"].get("schedulerName") in premises.scheduler_names
    ]
    if any(gang_of(pod)[0] for pod in ours):
        return
    at_rest = replace(premises, notice=0.0, changing_nodes=set())
    rules = (*AT_ONCE, *WITH_OTHERS, *BESIDE_PROMISES, *IN_QUEUES, *BY_RESERVATIONS)
    for pod in ours:
        if not _is_simple(world, pod):
            continue
        for node in world.of(NODES):
            binding = Binding(world, at_rest, pod, node, world.now, None)
            if not any(wrong for rule in rules for wrong in rule(binding)):
                yield f"{name_of(pod)} waits, but {node} has room for it"
                break


def _is_simple(world: World, pod: Object) -> bool:
    spec, owners = pod["spec"], pod["metadata"].get("ownerReferences") or ()
    kinds = {kind for volume in spec.get("volumes") or () for kind in volume} - {"name"}
    plain = kinds <= {"configMap", "secret", "emptyDir", "hostPath", "projected", "downwardAPI"}
    queues = path(world, queue_of(world, pod)) if world.of(QUEUES) else []
    return (
        plain
        and not spec.get("resourceClaims")
        and all(each["kind"] in _LOOSE for each in owners)
        and not any("card" in key for key in (*notes_of(pod), *labels_of(pod)))
        and not any(queue["spec"].get("affinity") for queue in queues)
    )
