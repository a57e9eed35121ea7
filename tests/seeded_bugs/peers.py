"""Bugs that we had, found by playing the scenarios of other schedulers."""

from __future__ import annotations

from tests.seeded_bugs.bug import SeededBug

BUGS = (
    SeededBug(
        "one-version-of-podgroups",
        "PodGroups of Kubernetes are read in one version, whatever the server serves",
        "arranger/daemon/informers.py",
        "other_paths=OTHER_VERSIONS.get(kind, ()),",
        "other_paths=(),",
        ("tests/unit/daemon/test_informers.py",),
        only=("duels", "early-groups"),
    ),
    SeededBug(
        "spared-beside-their-company",
        "a victim is spared without a look at those who then stay with it, so that one is evicted "
        "in vain",
        "arranger/preemption/victim_search.py",
        "if more is not None and (yield from self._can_do_without(more)):",
        "if more is not None and (yield from self._can_do_without({**spared, pod.uid: pod})):",
        ("tests/unit/preemption/test_victim_search.py", "tests/simulation/peers"),
        only=("duels",),
    ),
    SeededBug(
        "smallest-role-decides",
        "one place that is needed costs a whole gang, as its smallest role has nobody to spare",
        "arranger/gangs/gang.py",
        "any(self._with_node(b) - evicted.get(b, 0) < minimum for b, minimum in minimums)",
        "any(self._with_node(b) - lost < minimum for b, minimum in minimums)",
        ("tests/unit/gangs", "tests/simulation/peers"),
        only=("duels",),
    ),
    SeededBug(
        "first-victims-found",
        "the first set of victims that is found is taken, though it breaks a gang and another "
        "would not",
        "arranger/preemption/victim_search.py",
        "if not any(self._is_older(pod.uid, uid) for uid in spared):",
        "if not self._best.victims and not any(self._is_older(pod.uid, uid) for uid in spared):",
        ("tests/unit/preemption/test_victim_search.py", "tests/simulation/peers"),
        only=("duels",),
    ),
    SeededBug(
        "vain-nomination-stays",
        "a nomination stays whose room others have taken, and keeps lower pods from it",
        "arranger/engine/pod/preemption_executor.py",
        """                enough = self._release.fits_nominee(member, node) or (
                    entity.state is QueueState.UNSCHEDULABLE and not self._awaits_victims(node)
                )
""",
        """                enough = self._release.fits_nominee(member, node)
""",
        ("tests/unit/engine/pod/test_nominations.py", "tests/unit/engine/pod"),
        only=("duels",),
    ),
    SeededBug(
        "svc-flag-is-ignored",
        "the flag inject-hosts-env of the plugin svc is taken and does nothing",
        "arranger/controllers/vcjob/svc_plugin.py",
        'if _flags(job)["inject-hosts-env"]:',
        'if "inject-hosts-env" in _flags(job):',
        ("tests/unit/controllers/vcjob/test_manifests.py",),
        only=("duels",),
    ),
    SeededBug(
        "never-unknown",
        "a Volcano PodGroup that has lost a running member stays Running for ever",
        "arranger/controllers/gang/status.py",
        """        if _is_unschedulable(gang):
            return UNKNOWN
""",
        "",
        ("tests/unit/controllers/gang/test_status.py",),
        only=("duels",),
    ),
    SeededBug(
        "nomination-by-others",
        "a nominatedNodeName that somebody else sets is not looked at",
        "arranger/engine/handlers/pod_handlers.py",
        """        self._nominator.update(member)
        if nominated:
            self._follow_nomination(member, now)
""",
        """        self._nominator.update(member)
""",
        ("tests/unit/engine/pod/test_nominations.py", "tests/unit/engine/pod"),
        only=("duels",),
    ),
    SeededBug(
        "basic-groups-are-meek",
        "members of a PodGroup that needs nobody evict nobody until one of them has a node",
        "arranger/gangs/registry.py",
        "if not new or one_domain or not all(gang.has_minimum for gang in new):",
        "if not new or one_domain or not any(gang.has_begun for gang in new):",
        ("tests/unit/engine/gang/test_no_minimum.py", "tests/simulation/peers"),
        only=("duels",),
    ),
)
