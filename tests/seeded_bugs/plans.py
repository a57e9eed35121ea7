"""Bugs in plans of starts: who goes before, what is kept, and what a restart brings back."""

from __future__ import annotations

from tests.seeded_bugs.bug import SeededBug

_STARTS = "tests/unit/engine/gang/test_planned_starts.py"
_IN_STEPS = "tests/unit/engine/gang/test_starts_in_steps.py"
_VOLUMES = "tests/unit/engine/gang/test_volumes_in_steps.py"
_PLANNER = "arranger/engine/gang/planning/start_planner.py"

BUGS = (
    SeededBug(
        "backfill-delays-a-planned-start",
        "a pod that ends late goes before a planned gang, whose room it takes",
        "arranger/backfill/spare.py",
        "full |= room < (0 if there else amount)",
        "full |= room < 0",
        (_STARTS, "tests/unit/backfill/test_planner.py"),
    ),
    SeededBug(
        "whoever-is-tried-is-planned",
        "when the planned gang starts, the one that is tried next is planned, not the first",
        _PLANNER,
        "others = (*known, *self._starving.next_in_turn(now), failed)",
        "others = (*known, failed)",
        (_STARTS,),
    ),
    SeededBug(
        "a-turn-is-left-out",
        "when the planned gang starts nobody is planned until somebody is tried",
        _PLANNER,
        """before, now)
            self._plan_next(now)
""",
        """before, now)
""",
        (_STARTS,),
    ),
    SeededBug(
        "a-restart-forgets-plans",
        "after a restart a gang with a planned start has to wait long once more",
        _PLANNER,
        "waited = self._promises.was_planned(entity.group)",
        "waited = False",
        (_STARTS,),
    ),
    SeededBug(
        "a-restart-forgets-run-times",
        "pods that ended before the scheduler started tell nothing of run times",
        "arranger/engine/handlers/pod_handlers.py",
        "elif earlier != meta.uid and (ended := pod.ended_at) is not None:",
        "elif earlier == meta.uid and (ended := pod.ended_at) is not None:",
        (_STARTS,),
    ),
    SeededBug(
        "watched-rows-are-missed",
        "of the rows that a plan is about, changes are left to a later look",
        "arranger/backfill/timeline.py",
        "        rows = self._watched_pending\n",
        "        rows = set[int]()\n",
        (_STARTS, "tests/unit/backfill/test_timeline.py"),
    ),
    SeededBug(
        "what-goes-is-not-seen",
        "a plan is not made anew when pods have ended",
        "arranger/backfill/timeline.py",
        "        return not slots.keys() <= self.table.pods[row].keys()\n",
        "        return False\n",
        (_STARTS, "tests/unit/backfill/test_timeline.py"),
    ),
    # Parts of nodes that Reservations keep.
    SeededBug(
        "part-is-kept-twice",
        "what users of a Reservation have taken of its part is kept for them once more",
        "arranger/engine/reservations/kept_room.py",
        "left[column] -= requests[column]",
        "left[column] -= 0 * requests[column]",
        ("tests/unit/engine/reservations/test_parts_of_nodes.py",),
    ),
    SeededBug(
        "parts-one-by-one",
        "a pod need only fit beside each part that is reserved of a node, not beside all of them",
        "arranger/engine/reservations/kept_room.py",
        "taken[column] = taken.get(column, 0) + kept\n",
        "taken[column] = kept\n",
        ("tests/unit/engine/reservations/test_parts_of_nodes.py",),
    ),
    SeededBug(
        "planned-start-on-a-part",
        "a gang is promised a start for which a part that is reserved leaves too little",
        "arranger/backfill/planner.py",
        "                left = left - kept[: left.shape[0], : left.shape[1]]\n",
        "                pass\n",
        ("tests/unit/engine/gang/test_planned_around_reservations.py",),
    ),
    SeededBug(
        "a-domain-that-was-passed-over-wakes-nobody",
        "a gang is not woken by room in a domain that was too small to be tried",
        "arranger/engine/gang/attempt/scheduling_cycle.py",
        "rejected_by, blockers = masks.passed_over_by, dict[str, PodInfo]()",
        "rejected_by, blockers = frozenset[str](), dict[str, PodInfo]()",
        ("tests/unit/engine/queue/test_behind_what_rejected.py",),
    ),
    SeededBug(
        "a-trial-that-raises-leaves-members-on-nodes",
        "a plugin that raises while a start is tried leaves members in the books",
        "arranger/engine/gang/planning/trials.py",
        "                        self._take_off(entity, nominated)\n",
        "",
        (_IN_STEPS,),
    ),
    SeededBug(
        "who-has-heard-of-its-start-waits-again",
        "a gang that would rather wait than evict is told of its start for ever",
        _PLANNER,
        "                self._has_heard.add(key)\n",
        "",
        (_IN_STEPS,),
    ),
    SeededBug(
        "a-plan-takes-new-columns",
        "a resource that no node had ends the process while a start is planned",
        "arranger/backfill/planner.py",
        "        room[: len(self.amounts), self.rows[here]] -= self.amounts[:, here]\n",
        "        room[:, self.rows[here]] -= self.amounts[:, here]\n",
        (_STARTS,),
    ),
    SeededBug(
        "what-was-chosen-is-kept-between-steps",
        "volumes chosen for members stay assumed while they are off their nodes",
        "arranger/engine/pod/reserve_and_permit.py",
        "    if (plugin := member.profile.by_name.get(_VOLUMES)) is not None:\n",
        "    if (plugin := None) is not None:\n",
        (_VOLUMES,),
    ),
    SeededBug(
        "who-is-beside-a-new-pod-keeps-its-volumes",
        "members beside whom a pod has come are not looked at again",
        "arranger/engine/gang/attempt/suspended_members.py",
        "        for row in changed:\n            for pod",
        "        for row in ():\n            for pod",
        (_VOLUMES,),
    ),
)
