"""What the engine did, beside the best that could have been done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from tests.differential.gang_preemption.brute_force import BruteForce, Victims
from tests.differential.gang_preemption.play import Played, play
from tests.differential.gang_preemption.world import World, random_world

#: The parts of :meth:`BruteForce.cost`, in their order.
ORDER = ("budgets", "most important", "gangs broken", "pods", "youngest")


@dataclass
class Comparison:
    """One world, judged."""

    world: World
    played: Played = field(init=False)

    def __post_init__(self) -> None:
        self.played = play(self.world)

    @cached_property
    def brute_force(self) -> BruteForce:
        return BruteForce(self.world)

    @property
    def best(self) -> Victims | None:
        """The best set of victims; empty where nobody has to leave, None where it is in vain."""
        return self.brute_force.best

    @property
    def bound(self) -> bool:
        """Whether what the taker needs has got nodes."""
        bound = self.played.bound
        members = [pod for pod in self.world.taker.members if pod.name in bound]
        return self.brute_force.taker_stands(members)

    @property
    def verdict(self) -> str:
        """What has become of the world, in a word or two."""
        evicted = self.played.evicted
        if evicted and not self.brute_force.is_legal(evicted):
            return "illegal"
        if (evicted and not self.bound) or self.played.later:
            return "in vain"
        if self.best is None:
            return "evicted or bound against all odds" if evicted or self.bound else "no way"
        if not self.best:
            if evicted:
                return "evicted though it fits"
            return "fits" if self.bound else "not placed though it fits"
        if not evicted:
            return "not found"
        return "best" if not self.worse_in else "not the best"

    @property
    def worse_in(self) -> str:
        """The first part of the order in which the engine's victims cost more than the best."""
        assert self.best is not None, "there is a best one"
        pairs = zip(*map(self.brute_force.cost, (self.played.evicted, self.best)), strict=True)
        different = (name for name, (o, b) in zip(ORDER, pairs, strict=True) if o != b)
        return next(different, "")

    @property
    def more_pods(self) -> int:
        """How many pods more than the best were evicted; less than 0 where others cost more."""
        return len(self.played.evicted) - len(self.best or ())


#: What must never happen.
FAULTS = (
    "illegal",
    "in vain",
    "not found",
    "evicted though it fits",
    "not placed though it fits",
    "evicted or bound against all odds",
)


def judge(seeds: Iterable[int]) -> Table:
    """The table of the worlds of these seeds."""
    table = Table()
    for seed in seeds:
        table.add(seed)
    return table


@dataclass
class Table:
    """Counts of many worlds, for gangs and for lone pods.

    Attributes:
        seeds: (who takes, verdict) → seeds of worlds that ended so.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    worse: Counter[tuple[str, str]] = field(default_factory=Counter)
    more_pods: Counter[str] = field(default_factory=Counter)
    seeds: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add(self, seed: int) -> None:
        """Judge one more world."""
        judged = Comparison(random_world(seed))
        who, verdict = "gangs" if judged.world.taker.gang else "lone pods", judged.verdict
        self.counts[who, verdict] += 1
        self.seeds.setdefault((who, verdict), []).append(seed)
        if verdict == "not the best":
            self.worse[who, judged.worse_in] += 1
            self.more_pods[who] = max(self.more_pods[who], judged.more_pods)
            self.seeds.setdefault((who, judged.worse_in), []).append(seed)

    def include(self, other: Table) -> None:
        """Add what another table has counted."""
        self.counts.update(other.counts)
        self.worse.update(other.worse)
        for who, pods in other.more_pods.items():
            self.more_pods[who] = max(self.more_pods[who], pods)
        for key, seeds in other.seeds.items():
            self.seeds.setdefault(key, []).extend(seeds)

    def faults(self, who: str) -> list[str]:
        """What must not happen and has.

        For lone pods victims are sought node by node, which need not find those on several nodes.
        """
        faults = FAULTS if who == "gangs" else (f for f in FAULTS if f != "not found")
        return [fault for fault in faults if self.counts[who, fault]]

    def share_of_best(self, who: str) -> float:
        """Of the worlds in which somebody was evicted, in how many the best set was."""
        best, other = self.counts[who, "best"], self.counts[who, "not the best"]
        return best / max(best + other, 1)

    def lines(self) -> Iterable[str]:
        """The table, for people."""
        worlds = sum(self.counts.values())
        yield f"{worlds} worlds"
        for who in ("gangs", "lone pods"):
            mine = {v: n for (w, v), n in self.counts.items() if w == who}
            yield f"{who}: {sum(mine.values())} worlds"
            yield f"  fit at once {mine.get('fits', 0)}, fit in no way {mine.get('no way', 0)}"
            evicting = mine.get("best", 0) + mine.get("not the best", 0)
            parts = [f"{name} {n}" for (w, name), n in sorted(self.worse.items()) if w == who]
            yield (
                f"  evicted somebody {evicting}, the best set {self.share_of_best(who):.2%}; "
                f"worse first in: {', '.join(parts) or 'nothing'}; "
                f"at most {self.more_pods[who]} pods more than the best"
            )
            if seeds := self.seeds.get((who, "not the best")):
                yield f"  not the best: seeds {seeds[:8]}"
            for fault in FAULTS:
                seeds = self.seeds.get((who, fault), [])[:8]
                yield f"  {fault}: {mine.get(fault, 0)}" + (f"  seeds {seeds}" if seeds else "")
