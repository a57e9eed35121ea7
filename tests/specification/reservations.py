"""Reservations: for whom nodes are kept, and when.

Nothing is said of windows that come again, nor of some of a selector's nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from tests.specification.bindings import Binding
from tests.specification.gangs import gang_of
from tests.specification.manifests import (
    Object,
    is_leaving,
    labels_of,
    name_of,
    node_of,
    notes_of,
    seconds_in,
    selects,
)
from tests.specification.premises import Premises
from tests.specification.queues import all_known, job_of, queue_of, run_time_limit
from tests.specification.trace import NAMESPACES, NODES, QUEUES, World

RESERVATIONS = "arranger.io/reservations"
_ASKED = "arranger.io/reservation"
_HOUR = 3600.0


def its_node_is_not_reserved_for_others(b: Binding) -> Iterator[str]:
    """No pod comes to a node that is kept for others, or that it would not leave in time.

    Without a maximum run time it is kept away from ``drainBefore`` on.
    """
    if b.premises.calendar is None or b.node is None or not b.knows(NODES, b.node):
        return
    limit = run_time_limit(b.world, b.was)
    for each in _known(b):
        spec, window = each["spec"], window_of(each)
        if window is None or not _reserves(each, b.node) or _is_user(b.world, each, b.was):
            continue
        drain = _HOUR if not spec.get("drainBefore") else seconds_in(spec["drainBefore"]) or 0.0
        start, end = window[0] - (drain if limit is None else limit), window[1]
        if start < _decided(b) and b.premises.calendar + b.at < end:
            yield f"it is reserved by {each['metadata']['name']} for others"


def it_has_the_reservation_that_it_asks_for(b: Binding) -> Iterator[str]:
    """Who asks for a Reservation comes to one of its nodes, within its window, as its user."""
    wanted = notes_of(b.was).get(_ASKED)
    if not wanted or b.premises.calendar is None or b.node is None:
        return
    found = b.world.get(RESERVATIONS, wanted)
    if found is None and not b.world.was_gone_since(b.at - b.premises.notice, RESERVATIONS):
        yield f"Reservation {wanted}, which it asks for, is not there"
    if found not in _known(b) or found is None or (window := window_of(found)) is None:
        return
    if not _is_user(b.world, found, b.was):
        yield f"it may not use Reservation {wanted}"
    if b.knows(NODES, b.node) and not _reserves(found, b.node):
        yield f"it is not of Reservation {wanted}"
    if b.premises.calendar + b.at < window[0] or _decided(b) >= window[1]:
        yield f"the window of Reservation {wanted} is not open"


BY_RESERVATIONS = (its_node_is_not_reserved_for_others, it_has_the_reservation_that_it_asks_for)


def may_be_reserved(world: World, premises: Premises, pod: Object, at: float) -> bool:
    """Whether a Reservation has a pod leave its node, or did lately, as far as can be told."""
    lately, node = at - premises.notice, world.get(NODES, node_of(pod))
    if premises.calendar is None or node is None:
        return True
    kinds = (RESERVATIONS, NODES, QUEUES, NAMESPACES)
    if world.was_gone_since(lately, *kinds):
        return True
    if any(when >= lately for (kind, _), (when, _) in world.changed.items() if kind in kinds):
        return True
    windows = map(window_of, _evicting(world, node, pod))
    now, ended = premises.calendar + at + 1, premises.calendar + lately  # clocks of whole seconds
    return any(each is None or (each[0] <= now and ended < each[1]) for each in windows)


def nobody_stays_on_reserved_nodes(world: World, premises: Premises) -> Iterator[str]:
    """While a Reservation that evicts holds, nobody is on its nodes who may not be there."""
    if premises.calendar is None:
        return
    now = premises.calendar + world.now
    for node in world.of(NODES).values():
        for pod in world.pods_on.get(node["metadata"]["name"], {}).values():
            if pod["spec"].get("schedulerName") not in premises.scheduler_names or is_leaving(pod):
                continue
            for each in _evicting(world, node, pod):
                window = window_of(each)
                if window is not None and window[0] + premises.notice <= now < window[1]:
                    yield f"{name_of(pod)} stays on {node['metadata']['name']}, which is reserved"


def _evicting(world: World, node: Object, pod: Object) -> Iterator[Object]:
    """The Reservations of a node that evict, and of which a pod is no user."""
    for each in world.of(RESERVATIONS).values():
        if each["spec"].get("evict") and _reserves(each, node) and not _is_user(world, each, pod):
            yield each


def window_of(reservation: Object) -> tuple[float, float] | None:
    """From when to when its nodes are kept, in seconds since 1970; None where that is not said."""
    spec = reservation["spec"]
    users, window = spec.get("users") or {}, spec["window"]
    chosen = any(spec["nodes"].get(each) for each in ("count", "resources", "cards"))
    if window.get("recurrence") or chosen:
        return None
    if any(users.values()) == bool(spec.get("maintenance")):
        return None  # it is for nobody, and not for nobody either
    start = datetime.fromisoformat(window["start"]).astimezone(UTC).timestamp()
    if window.get("end"):
        return start, datetime.fromisoformat(window["end"]).astimezone(UTC).timestamp()
    return start, start + (seconds_in(window["duration"]) or 0.0)


def _reserves(reservation: Object, node: Object) -> bool:
    nodes = reservation["spec"]["nodes"]
    named = node["metadata"]["name"] in (nodes.get("names") or ())
    return named or selects(nodes.get("selector"), labels_of(node))


def _is_user(world: World, reservation: Object, pod: Object) -> bool:
    users, space = reservation["spec"].get("users") or {}, pod["metadata"]["namespace"]
    labels = {"kubernetes.io/metadata.name": space, **world.namespaces().get(space, {})}
    return (
        queue_of(world, pod) in (users.get("queues") or ())
        or gang_of(pod)[0] in (users.get("gangs") or ())
        or selects(users.get("namespaceSelector"), labels)
    )


def _decided(b: Binding) -> float:
    """When it was decided, at the earliest, in seconds since 1970.

    Gangs may hold nodes, and volumes may be bound, for long before the Binding: since the pod came.
    """
    assert b.premises.calendar is not None
    came = datetime.fromisoformat(b.was["metadata"]["creationTimestamp"]).timestamp()
    if gang_of(b.was)[0] or job_of(b.world, b.was) or b.was["spec"].get("volumes"):
        return came
    return max(came, b.premises.calendar + b.at - b.premises.notice)


def _known(b: Binding) -> list[Object]:
    """Those of which a scheduler must have known when it decided, and for whom they are.

    Gangs that start together may be users by each other, so nothing is said of gangs by name.
    """
    assert b.premises.calendar is not None
    known, decided = [], _decided(b) - b.premises.calendar
    for name, each in b.world.of(RESERVATIONS).items():
        since, _ = b.world.changed.get((RESERVATIONS, name), (float("-inf"), None))
        users = each["spec"].get("users") or {}
        unsure = users.get("gangs") and gang_of(b.was)[0] not in users["gangs"]
        unsure = unsure or (users.get("queues") and not all_known(b))
        if since + b.premises.notice <= decided and not unsure:
            known.append(each)
    return known
