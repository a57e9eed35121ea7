"""``python -m tests.differential.cel 10000``: selectors beside Kubernetes on fresh seeds.

Ends with status 1 if one was judged differently.
"""

from __future__ import annotations

import random
import sys

from tests.differential.cel.judge import Judge, differences, our_answer
from tests.differential.cel.recorded import random_question


def main(count: int) -> int:
    """Compare so many random expressions."""
    first = random.SystemRandom().randrange(10**9)
    found = 0
    with Judge() as judge:
        for seed in range(first, first + count):
            expression, devices = random_question(seed)
            ours = our_answer(expression, devices)
            if different := differences(judge.ask(expression, devices), ours):
                found += 1
                sys.stdout.write(f"seed {seed}: {expression}\n  {different[0]}\n")
    sys.stdout.write(f"{count} selectors from seed {first} on: {found or 'none'} differ\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
