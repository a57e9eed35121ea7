"""``make differential N=1000``: compare with the oracle on fresh seeds.

Give seeds as arguments to see those again. Ends with status 1 if a snapshot was evaluated
differently.
"""

from __future__ import annotations

import random
import sys

from tests.differential.comparison import compare_with_oracle
from tests.differential.generator import random_snapshot
from tests.differential.oracle import Oracle


def main(arguments: list[str]) -> int:
    """Run the seeds given, or ``-n N`` fresh ones."""
    if arguments[:1] == ["-n"]:
        first = random.SystemRandom().randrange(10**9)
        seeds = list(range(first, first + int(arguments[1])))
    else:
        seeds = [int(seed) for seed in arguments]
    found = 0
    with Oracle() as oracle:
        for seed in seeds:
            if (finding := compare_with_oracle(random_snapshot(seed), oracle)) is not None:
                found += 1
                sys.stdout.write(f"seed {seed}:\n{finding}\n\n")
                sys.stdout.flush()
    sys.stdout.write(
        f"{len(seeds)} snapshots from seed {seeds[0]} on: {found or 'none'} judged differently\n"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
