"""Whether placed members exceed a quota, to which pods on all nodes count."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from arranger.engine.context.entity import QueuedPod
from arranger.framework.preemption import EvictionPolicy, QuotaLimits


def one_of_each_charge(policy: EvictionPolicy, members: Iterable[QueuedPod]) -> list[QueuedPod]:
    """One of those that are charged alike: what exceeds no quota for it does so for no other.

    Who has claims is a class of its own, but charged as others that request as much.
    """
    quota = policy.quota
    if quota is None:
        return []
    first: dict[Hashable, QueuedPod] = {}
    for member in members:
        alone = member.equivalence_key == member.uid
        first.setdefault(_charge(quota, member) if alone else member.equivalence_key, member)
    return list(first.values())


def exceed_no_quota(policy: EvictionPolicy, members: Iterable[QueuedPod]) -> bool:
    """Whether there is enough of each quota for members on their nodes, counted as they are."""
    quota = policy.quota
    for member in members if quota is not None else ():
        assert quota is not None
        own = dict(quota.released_by(member.pod))
        remaining = quota.remaining(member.pod, member.node)
        if any(left + own.get(limit, 0) < 0 for limit, left in remaining.items()):
            return False
    return True


def _charge(quota: QuotaLimits, member: QueuedPod) -> Hashable:
    """What decides what it is charged; of cards that depends on those of its node."""
    requests = member.pod.requests
    cards = any("/" in resource for resource in requests)
    amounts = tuple(sorted(requests.items()))
    return frozenset(quota.queues_of(member.pod)), amounts, member.node if cards else ""
