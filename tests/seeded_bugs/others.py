"""Bugs about what others do: what of it voids what is known of whom, and who is woken by it."""

from __future__ import annotations

from typing import Final

from tests.seeded_bugs.bug import SeededBug

_UNCONCERNED: Final = "tests/simulation/unconcerned/test_unconcerned.py"

BUGS = (
    SeededBug(
        "a-class-goes-by-its-first-pod",
        "a class of pods is judged by the queue of its first pod's PodGroup",
        "arranger/framework/runtime/evaluation_cache.py",
        "if found.pod is not pod and self._group_of(found.pod) is not self._group_of(pod):",
        "if found.pod is None:",
        ("tests/unit/framework/test_evaluation_cache.py", "tests/unit/engine/queue"),
    ),
    SeededBug(
        "an-image-counts-for-one-node",
        "an image that a node pulls makes no other scores for those that have it",
        "arranger/framework/runtime/evaluation.py",
        "        score_anew = node_changed and self._node_sensitive\n",
        "        score_anew = RowChange.NODE in kinds and self._node_sensitive\n",
        ("tests/unit/framework/test_evaluation.py",),
        only=("life",),
    ),
    SeededBug(
        "its-own-services-void-nothing",
        "a Service of its namespace changes nothing for a class that is known",
        "arranger/cluster/object_store.py",
        "        return self.version, self._changes_in[namespace]\n",
        "        return self.version, len(namespace)\n",
        ("tests/unit/framework/test_evaluation.py", "tests/unit/cluster"),
        only=("life", "owners"),
    ),
    SeededBug(
        "an-image-is-a-change-of-the-node",
        "an attempt begins anew for each image that is pulled on any node",
        "arranger/cluster/nodes/row_change.py",
        "        return RowChange.IMAGES\n",
        "        return RowChange.NODE\n",
        (_UNCONCERNED,),
    ),
    SeededBug(
        "any-object-wakes-who-asks-for-one",
        "who waits for a Service or a Namespace is tried again for objects of any kind",
        "arranger/framework/cluster_event.py",
        "        if asked == ActionType.OTHER.value and self.resources:\n",
        "        if asked == ActionType.OTHER.value and event.resource in self.resources:\n",
        ("tests/unit/framework/test_framework_parts.py",),
    ),
    SeededBug(
        "whatever-was-missed-may-have-helped",
        "a gang backs off for whatever happened while it was tried in steps",
        "arranger/engine/queue/in_flight_events.py",
        "number > since and asked.may_help(entity) for number",
        "number > since for number",
        (_UNCONCERNED, "tests/unit/engine/queue/test_in_flight_events.py"),
    ),
    SeededBug(
        "a-pod-group-of-nobody-wakes-all",
        "an edit of a PodGroup without pods has everybody tried again",
        "arranger/engine/handlers/gang_handlers.py",
        "return (was_known or self._ledger.active) and self._has_placed_pods(name)",
        "return was_known or self._has_placed_pods(name)",
        (_UNCONCERNED,),
    ),
    SeededBug(
        "a-placed-pod-goes-where-it-says",
        "a pod on a node is charged to the queue that it names now, whether or not that takes it",
        "arranger/quota/ledger.py",
        "        if known and (named := self._pod_queues.named_by(pod)) != before:\n",
        "        if known and not (named := self._pod_queues.named_by(pod)):\n",
        ("tests/unit/engine/queue/test_kept_queues.py",),
    ),
    SeededBug(
        "an-owner-says-nothing-of-lone-pods",
        "the queue of a job does not count for those of its pods that are in no gang",
        "arranger/quota/pod_annotations.py",
        "        if group is None and self._lone_pods is not None:\n",
        "        if group is None and self._pod_groups is None and self._lone_pods is not None:\n",
        ("tests/unit/engine/gang/test_pods_in_no_gang.py",),
    ),
    SeededBug(
        "who-waits-is-tried-with-old-charges",
        "nobody is woken when the last of many pods has been charged to another queue",
        "arranger/engine/quota/recharging.py",
        "        if self._runs and (not self.ready or self._runs >= MOST_RUNS):\n",
        "        if self._runs >= MOST_RUNS:\n",
        ("tests/unit/engine/gang/test_edits_of_many_pods.py",),
    ),
)
