"""What is kept about victims says the same as looking anew with every quota counted everywhere."""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable
from datetime import UTC, datetime

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import LimitsAfterEvictions
from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins import default_profile
from arranger.preemption.candidate_cache import CandidateCache
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption.eviction_protection import EvictionProtection
from arranger.quota.preemption.leaving_charges import LeavingCharges, LeavingLimits
from arranger.quota.preemption.policy import QueuePreemptionPolicy, QuotaConfig
from arranger.quota.quota_plugin import with_quota
from tests.builders import PodBuilder, a_queue
from tests.queueing import CARD, gpu_node, inference, training

PROFILE = default_profile()


class ExceededEverywhere:
    """Says of every node that its quotas are exceeded, and never the same version twice."""

    def __init__(self, limits: LimitsAfterEvictions) -> None:
        self._limits = limits
        self._times = itertools.count()
        self.remaining = limits.remaining
        self.released_by = limits.released_by

    def exceeded_rows(self, pod: PodInfo) -> tuple[Hashable, BoolArray]:
        _, rows = self._limits.exceeded_rows(pod)
        return next(self._times), np.ones_like(rows)


class Everywhere(QueuePreemptionPolicy):
    """Has every quota counted on every node."""

    def __init__(
        self,
        ledger: QuotaLedger,
        rules: QuotaConfig,
        leaving: set[str],
        sparing: EvictionProtection,
    ) -> None:
        super().__init__(ledger, rules, leaving, sparing)
        self._exceeded = ExceededEverywhere(LeavingLimits(ledger, LeavingCharges(ledger, leaving)))

    @property
    def quota_after_evictions(self) -> ExceededEverywhere | None:
        return None if self.quota is None else self._exceeded


class RandomClusterWithQueues:
    """Nodes, pods and queues at random, and surveys for two takers of one queue."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        table = NodeTable()
        self.ledger = QuotaLedger(table)
        self.cluster = Cluster(table, self.ledger)
        self.profile = with_quota(PROFILE, self.ledger)
        self.leaving: set[str] = set()
        self.now = 0.0
        self.sparing = EvictionProtection(
            self,
            reclaim_min_runtime=100 if seed % 2 else 0,
            preempt_min_runtime=50,
            cool_down=0,
        )
        self.policy = QueuePreemptionPolicy(self.ledger, QuotaConfig(), self.leaving, self.sparing)
        self.everywhere = Everywhere(self.ledger, QuotaConfig(), self.leaving, self.sparing)
        self.takers = [inference("low", 2, 40000).info(), inference("high", 2, 80000).info()]
        self.evaluations = [Evaluation(self.profile, self.cluster, pod) for pod in self.takers]
        self.placed: list[PodInfo] = []
        self.edit_queues()

    @property
    def unix_now(self) -> float:
        return self.now

    def is_being_bound(self, uid: str) -> bool:
        return False

    def edit_queues(self) -> None:
        rng = self.rng
        quota = {CARD: rng.randint(0, 16), "H200": rng.randint(0, 4)}
        self.ledger.set_queue(a_queue("team", capability={"cpu": rng.randint(1, 9)}))
        self.ledger.set_queue(a_queue("inference", cards=quota, parent="team"))
        guarantee = {"resource": {CARD: rng.choice([0, 0, 4])}}
        parent = rng.choice(["", "team"])
        self.ledger.set_queue(a_queue("training", guarantee=guarantee, parent=parent))

    def happen(self, number: int) -> None:
        rng = self.rng
        self.now += rng.choice([0, 1, 10])
        match rng.randrange(12):
            case 0:
                self.edit_queues()
            case 1 | 2:
                name, card = f"n{rng.randrange(6)}", rng.choice([CARD, CARD, "H200"])
                self.cluster.set_node(gpu_node(name, rng.randint(2, 8), card).build())
                self.ledger.mark_stale()
            case 3 | 4 if self.placed:
                gone = self.placed.pop(rng.randrange(len(self.placed)))
                self.leaving.discard(gone.uid)
                self.cluster.remove_pod(gone.uid)
            case 5 if self.placed:
                self.leaving.add(rng.choice(self.placed).uid)
            case _:
                node, cpu = f"n{rng.randrange(6)}", rng.choice(["100m", "1"])
                made = datetime.fromtimestamp(self.now, UTC).isoformat()
                pod = self.a_pod(f"p{number}").needs(cpu=cpu).on(node).created(made).info()
                self.cluster.assume_pod(pod, node)
                self.placed.append(pod)

    def a_pod(self, name: str) -> PodBuilder:
        make = self.rng.choice([inference, training, training])
        return make(name, self.rng.randint(1, 3), self.rng.choice([20000, 40000, 60000]))

    def look(
        self, number: int, survey: CandidateCache, policy: QueuePreemptionPolicy
    ) -> tuple[object, ...]:
        evaluation = self.evaluations[number]
        evaluation.refresh()
        what_if = DryRun(
            self.profile,
            self.cluster,
            self.takers[number],
            evaluation,
            policy=policy,
        )
        rows = evaluation.diagnosis().resolvable()
        survey.update(what_if, rows, lambda _: True, 10**6)
        found = [(each.row, each.victims) for each in survey.candidates()]
        return (found,) if found else survey.reasons()


def test_what_is_kept_is_what_would_be_found_anew() -> None:
    found = refused = 0
    for seed in range(10):
        world = RandomClusterWithQueues(seed)
        for number in range(100):
            world.happen(number)
            if world.rng.random() < 0.4:
                world.ledger.refresh(world.cluster)
                taker = world.rng.randrange(2)
                kept = world.evaluations[taker]
                kept.refresh()
                survey = kept.state.setdefault("survey", CandidateCache())
                assert isinstance(survey, CandidateCache)
                seen = world.look(taker, survey, world.policy)
                assert seen == world.look(taker, CandidateCache(), world.everywhere), (seed, number)
                found += len(seen) == 1
                refused += len(seen) == 2
    assert min(found, refused) > 40, "both have to happen"
