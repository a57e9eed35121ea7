"""Bugs where an outcome is settled: of gangs, quotas, devices, leases and faults of our own."""

from __future__ import annotations

from tests.seeded_bugs.bug import SeededBug

BUGS = (
    # Gangs.
    SeededBug(
        "half-a-gang-keeps-its-nodes",
        "a Strict gang that fits in part keeps the nodes of that part",
        "arranger/engine/gang/attempt/scheduling_cycle.py",
        "if result.error or group.is_strict:",
        "if result.error:",
        ("tests/unit/engine/gang/test_gangs.py",),
    ),
    SeededBug(
        "one-member-is-not-taken-back",
        "of a gang that does not fit one member keeps its place",
        "arranger/engine/gang/attempt/scheduling_cycle.py",
        "        self._cycle.unreserve_all(members)\n",
        "        self._cycle.unreserve_all(members[1:])\n",
        ("tests/unit/engine/gang/test_gangs.py",),
    ),
    SeededBug(
        "short-gang-holds-on",
        "a Strict gang that has lost a held member keeps the nodes of the others",
        "arranger/engine/gang/manager.py",
        "elif group.is_strict and group.lacks_members(group.count_by_bundle(hold.members)):",
        "elif group.is_strict and group.missing_partners:",
        (
            "tests/unit/engine/gang/test_held_nodes.py",
            "tests/unit/engine/gang/test_holds.py",
        ),
    ),
    SeededBug(
        "edit-starts-the-wait-anew",
        "an edit of a gang's wait time starts it anew",
        "arranger/engine/gang/state/holds.py",
        "        hold.entity.group = group\n        hold.deadline = hold.since + ",
        "        hold.entity.group = group\n        hold.deadline = hold.deadline + ",
        ("tests/unit/engine/gang/test_held_nodes.py",),
    ),
    SeededBug(
        "gang-falls-apart",
        "a victim's gang stays, though it is below its minimum without it",
        "arranger/engine/gang/links.py",
        "            leaving |= {pod.uid: pod for pod in pods if pod is not None}\n",
        "",
        (
            "tests/unit/engine/pod/test_preemption_by_gangs.py",
            "tests/unit/engine/gang/test_evictions.py",
            "tests/unit/engine/gang/test_preemption.py",
        ),
    ),
    SeededBug(
        "bound-counts-before-its-answer",
        "a member counts as bound from the moment its Binding is sent",
        "arranger/engine/gang/manager.py",
        """        self._registry.mark_binding(member.uid for member in members)
        self._ready_to_bind += members
""",
        """        for member in members:
            self._registry.mark_bound(member.uid)
        self._ready_to_bind += members
""",
        (
            "tests/unit/engine/gang/test_gangs.py",
            "tests/unit/engine/gang/test_changes.py",
        ),
    ),
    # Quotas.
    SeededBug(
        "charge-is-not-given-back",
        "a pod that leaves is given back in its own queue only, and not in those above it",
        "arranger/quota/charging/placed_charges.py",
        """        for state in path_of(queue):
            for name, n in amounts.items():
                state.used[name] += sign * n
""",
        """        for state in path_of(queue):
            for name, n in amounts.items():
                state.used[name] += sign * n
            if sign < 0:
                break
""",
        ("tests/unit/quota/test_ledger.py",),
    ),
    SeededBug(
        "limits-above-are-not-asked",
        "a pod is placed beyond what the queues above its own may use",
        "arranger/quota/charging/queue_limits.py",
        """        for state in self._path_of(queue):
            for name, n in demand.items():
""",
        """        for state in list(self._path_of(queue))[:1]:
            for name, n in demand.items():
""",
        ("tests/unit/quota/test_ledger.py",),
    ),
    SeededBug(
        "edited-queue-keeps-its-charges",
        "pods of a queue that is deleted stay charged to the queues above it",
        "arranger/quota/ledger.py",
        "            self.rights.on_queues_changed()\n        self._stale = True\n",
        "            self.rights.on_queues_changed()\n",
        (
            "tests/unit/quota/test_ledger.py",
            "tests/unit/engine/queue/test_queue_edits.py",
        ),
    ),
    SeededBug(
        "admitted-for-ever",
        "cards are kept for a PodGroup whose pods never come",
        "arranger/quota/admission.py",
        "            if complete(name):\n",
        "            if name:\n",
        ("tests/unit/quota/test_admission.py",),
    ),
    SeededBug(
        "rights-are-asked-once",
        "who may use a queue is not asked anew when the queue is edited",
        "arranger/quota/queue_rights.py",
        "        self._selectors.clear()\n        self._may_use.clear()\n",
        "        self._selectors.clear()\n",
        ("tests/unit/quota/test_queue_rights.py", "tests/unit/engine/test_tenants.py"),
        only=("queues", "tenants", "rights"),
    ),
    # Devices.
    SeededBug(
        "device-is-free-too-early",
        "a device is given to others before the API shows that it was taken back",
        "arranger/cluster/resource_claim_tracker.py",
        "        if unseen:\n            self._unconfirmed_releases",
        "        if not claim:\n            self._unconfirmed_releases",
        ("tests/unit/cluster/test_resource_claim_tracker.py",),
    ),
    SeededBug(
        "refused-claim-keeps-its-device",
        "a device stays taken by a claim whose write was refused",
        "arranger/cluster/resource_claim_tracker.py",
        """        if not isinstance(outcome, Applied):
            self._drop_reservation(reservation)
            return True
""",
        """        if not isinstance(outcome, Applied):
            return True
""",
        (
            "tests/unit/cluster/test_resource_claim_tracker.py",
            "tests/unit/engine/pod/test_devices.py",
        ),
    ),
    # The Lease.
    SeededBug(
        "writes-after-its-deadline",
        "a leader that could not renew its Lease in time may go on writing",
        "arranger/kube/leader_election.py",
        "return self._leading and not self._stalled and in_time and renewed",
        "return self._leading and not self._stalled and in_time",
        ("tests/unit/kube/test_leader_election.py",),
    ),
    SeededBug(
        "lease-by-its-own-clock",
        "a Lease counts from when it was read, so that one that nobody renews is never taken",
        "arranger/kube/leader_election.py",
        """        if self._observed is None or lease.spec != self._observed.spec:
            self._observed_at = self._now()
""",
        """        self._observed_at = self._now()
""",
        ("tests/unit/kube/test_leader_election.py",),
    ),
    SeededBug(
        "writes-without-the-lease",
        "whether we lead is not asked before each write",
        "arranger/kube/writes/call.py",
        "        if not self.may_write():\n            raise NotLeaderError\n",
        "",
        ("tests/unit/kube/writes/test_dispatcher.py",),
    ),
    # Faults of our own.
    SeededBug(
        "innocents-are-forgotten",
        "when one member makes an attempt raise, the others of its gang are not queued again",
        "arranger/engine/faults/barrier.py",
        "        rest = [member for uid, member in members.items() if uid not in accused]\n",
        "        rest: list[QueuedPod] = []\n",
        ("tests/simulation/faults/test_injected_faults.py",),
    ),
    SeededBug(
        "never-tried-again",
        "an object that was set aside is not looked at again, even when its owner changes it",
        "arranger/engine/faults/barrier.py",
        "return found.about.uid == meta.uid and found.content == content_of(obj)",
        "return found.about.uid == meta.uid",
        ("tests/unit/daemon/test_set_aside.py",),
    ),
    SeededBug(
        "promise-is-forgotten",
        "a pod that is set aside while its Binding is on its way takes nothing from its node",
        "arranger/engine/faults/held_room.py",
        '        return cluster.node_of(uid) or ""\n',
        '        return ""\n',
        ("tests/unit/daemon/test_set_aside.py",),
    ),
)
