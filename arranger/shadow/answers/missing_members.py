"""The pods that a gang still needs, as far as those that are there tell what they look like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from arranger.engine.context.entity import QueuedEntity
from arranger.engine.engine import Engine
from arranger.gangs.gang import Gang
from arranger.shadow.forecasts.changes import ClusterChange, more_members

#: More are not tried: nobody waits for so many at once.
_MOST: Final = 32


def is_incomplete(entity: QueuedEntity, engine: Engine) -> bool:
    """Whether it waits for members that have not arrived; those that hold nodes have."""
    return any(count for _, _, count in _missing(entity, engine))


def arrival(entity: QueuedEntity, engine: Engine) -> ClusterChange | None:
    """The members that are missing arrive; each asks for what another of its bundle asks for.

    None if none are missing, if nobody knows what they look like, or if they are too many.
    """
    copies: dict[str, int] = {}
    told: list[str] = []
    for gang, bundle, count in _missing(entity, engine):
        like = _one_of(gang, bundle, entity, engine)
        if like is None:
            return None
        copies[like] = copies.get(like, 0) + count
        of = f"bundle {bundle} of " if bundle is not None else ""
        told.append(f"{count} more pod{'s' * (count > 1)} of {of}gang {gang.name}")
    if not 0 < sum(copies.values()) <= _MOST:
        return None
    return more_members(copies, " and ".join(told))


def _missing(entity: QueuedEntity, engine: Engine) -> Iterator[tuple[Gang, str | None, int]]:
    """(gang, bundle, how many): None stands for any bundle, beyond those that are named."""
    group = entity.group
    if group is None or group.missing_partners:
        return
    arrived = engine.holds.arrived_counts(entity)
    for gang in group.gangs:
        missing = gang.missing_members(arrived.get(gang.name, {}))
        of_any = missing.pop(None, 0) - sum(missing.values())
        for bundle, count in sorted((str(name), n) for name, n in missing.items()):
            yield gang, bundle, count
        if of_any > 0:
            yield gang, None, of_any


def _one_of(gang: Gang, bundle: str | None, entity: QueuedEntity, engine: Engine) -> str | None:
    """The first pod of a bundle, by name; one that waits if there is one."""
    uids = [
        uid for uid, each in gang.memberships.items() if bundle is None or each.bundle == bundle
    ]
    waiting = [entity.members[uid].pod.key for uid in uids if uid in entity.members]
    placed = (engine.cluster.pod(uid) for uid in uids)
    return min(waiting or [pod.key for pod in placed if pod is not None], default=None)
