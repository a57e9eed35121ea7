"""Plays worlds for some time: ``python -m tests.swarm --seconds 60 --seed 1``.

Says what was violated and by which seed, what was covered, and how many cluster-years a night of
eight hours on two cores would be at this rate. Which features a world has depends on what those
before it have entered: of a violation keep the world (``--keep``). With ``--seeds`` it depends on
its seed alone.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from pathlib import Path
from time import perf_counter, process_time

from tests.swarm.coverage import Coverage
from tests.swarm.play import Outcome, be_quiet, play
from tests.swarm.world import World, dump, load
from tests.swarm.worlds.generate import FEATURES, generate, stated_world

NIGHT, CORES = 8 * 3600, 2
YEAR = 365.25 * 86400


def main() -> int:
    options = _options()
    be_quiet()
    logging.disable(logging.CRITICAL)
    gc.set_threshold(100_000, 20, 100)  # there is little garbage in circles, and much that stays
    if options.world:
        outcome = play(load(options.world.read_text()))
        print(*(outcome.trace if options.trace else ()), *outcome.violations, sep="\n")
        return bool(outcome.violations)
    if options.rate:
        stated = stated_world(options.seed, seconds=options.rate * 3600)
        cpu = process_time()
        outcome = play(stated, judged=False)
        rate = _rate(outcome.seconds, outcome.wall, process_time() - cpu)
        print(*outcome.violations, f"the stated world: {rate}", sep="\n")
        return bool(outcome.violations)
    began, cpu = perf_counter(), process_time()
    coverage = Coverage()
    seed, bad, seconds = options.seed, 0, 0.0
    while (
        seed < options.seed + options.seeds
        if options.seeds
        else perf_counter() - began < options.seconds
    ):
        # So many worlds by their seeds alone, or for some time those that promise most.
        weights = None if options.seeds else coverage.weights(FEATURES)
        world = generate(seed, weights=weights)
        outcome = play(world, coverage=coverage)
        seconds += outcome.seconds
        if outcome.violations:
            bad += 1
            _tell(world, outcome, options.keep)
            if options.first:
                break
        seed += 1
    wall = perf_counter() - began
    print(f"{seed - options.seed} worlds, {bad} with violations, in {wall:.0f} s")
    print(*coverage.summary(), sep="\n")
    print(_rate(seconds, wall, process_time() - cpu))
    return bool(bad)


def _rate(seconds: float, wall: float, cpu: float) -> str:
    """What is said of the rate; by the time of the processor, too, as others may use it."""
    years, alone = (seconds / each * NIGHT * CORES / YEAR for each in (wall, cpu))
    return (
        f"{seconds:.0f} virtual seconds in {wall:.0f} s: {years:.2f} cluster-years a night"
        f" ({alone:.2f} by {cpu:.0f} s of the processor)"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.swarm", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="real seconds to go on for")
    parser.add_argument("--seeds", type=int, help="so many worlds instead, however long it takes")
    parser.add_argument("--first", action="store_true", help="end at the first violation")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--rate", type=float, help="hours of the stated world instead: how fast")
    parser.add_argument("--keep", type=Path, help="a folder for the worlds that were violated")
    parser.add_argument("--world", type=Path, help="play this world, as --keep wrote it, instead")
    parser.add_argument("--trace", action="store_true", help="with --world: show every write")
    return parser.parse_args()


def _tell(world: World, outcome: Outcome, keep: Path | None) -> None:
    print(f"seed {world.seed}:", *outcome.violations, sep="\n  ", flush=True)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{world.seed}.yaml").write_text(dump(world))
        (keep / f"{world.seed}.txt").write_text("\n".join(map(str, outcome.violations)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
