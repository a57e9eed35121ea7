"""Which pods are in which gang, as the controllers count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from arranger.api.settings.gang_membership import GangMembership, gang_membership
from arranger.api.types.core import Pod
from arranger.controllers.gang.members import MemberSummary, summarize_member


class GangMembers:
    """The members of gangs: the pods of our schedulers, and of others those that have a node.

    A gang that has no pod of ours is another scheduler's: nothing is written of it.
    """

    def __init__(self, schedulers: Collection[str]) -> None:
        self._schedulers = schedulers
        #: Gang → uid → member.
        self._of_gang: dict[str, dict[str, MemberSummary]] = {}
        #: Gang → how many of its members are pods of ours.
        self._ours: Counter[str] = Counter()
        #: The uids of members that are pods of other schedulers.
        self._others: set[str] = set()

    def __len__(self) -> int:
        return len(self._of_gang) + len(self._ours) + len(self._others)

    def membership_of(self, pod: Pod) -> GangMembership | None:
        """The gang that a pod is a member of, and what it says of it."""
        counts = pod.spec.node_name or pod.spec.scheduler_name in self._schedulers
        return gang_membership(pod) if counts else None

    def update(self, pod: Pod, membership: GangMembership) -> bool:
        """A member appeared or was edited; whether that changes what is counted."""
        uid, member = pod.metadata.uid, summarize_member(pod, membership)
        members = self._of_gang.setdefault(membership.gang, {})
        if uid not in members:
            if pod.spec.scheduler_name in self._schedulers:
                self._ours[membership.gang] += 1
            else:
                self._others.add(uid)
        changed = members.get(uid) != member
        members[uid] = member
        return changed

    def remove(self, gang: str, uid: str) -> bool:
        """A pod is no member any more; whether the gang has lost its last pod of ours by that.

        Does no harm where it is none.
        """
        members = self._of_gang.get(gang, {})
        if members.pop(uid, None) is None:
            return False
        if not members:
            del self._of_gang[gang]
        if uid in self._others:
            self._others.discard(uid)
            return False
        self._ours[gang] -= 1
        if self._ours[gang]:
            return False
        del self._ours[gang]
        return True

    def has_ours(self, gang: str) -> bool:
        """Whether any member is a pod of ours."""
        return gang in self._ours

    def gangs(self) -> Iterable[str]:
        """The gangs that have pods of ours."""
        return self._ours.keys()

    def of(self, gang: str) -> list[MemberSummary]:
        """All members of a gang; none where no pod of ours is among them."""
        return list(self._of_gang[gang].values()) if gang in self._ours else []
