"""``make corpus``: ask the oracle again about every snapshot of the conformance corpora.

An entry with a ``seed`` gets the snapshot that the seed gives today; the others keep theirs. A
verdict that the oracle still gives stays as it is written, so that a run with nothing new changes
no file. Files may be named as arguments; ``--seeds N`` first makes ``random.jsonl.gz`` one of the
seeds below N.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.conformance.corpus import FILES, lines, write
from tests.conformance.verdict_diff import differences
from tests.differential.generator import random_snapshot
from tests.differential.oracle import Oracle

RANDOM = "random.jsonl.gz"


def judged(line: str, oracle: Oracle) -> str:
    """The line as the generator and the oracle have it today."""
    entry: dict[str, Any] = json.loads(line)
    snapshot = random_snapshot(entry["seed"]) if "seed" in entry else entry["snapshot"]
    verdicts, known = oracle.evaluate(snapshot), entry.get("verdicts", [])
    if len(known) == len(verdicts) and not any(map(differences, known, verdicts)):
        verdicts = known
    today = {**entry, "snapshot": snapshot, "verdicts": verdicts}
    return line if today == entry else json.dumps(today)


def main(arguments: list[str]) -> None:
    """Write the corpora named, or all."""
    drawn: list[str] = []
    if arguments[:1] == ["--seeds"]:
        drawn = [json.dumps({"seed": seed}) for seed in range(int(arguments[1]))]
        arguments = [RANDOM]
    with Oracle() as oracle:
        for file in arguments or FILES:
            before = drawn or lines(file)
            after = [judged(line, oracle) for line in before]
            changed = sum(old != new for old, new in zip(before, after, strict=True))
            if changed:
                write(file, after)
            sys.stdout.write(f"{file}: {changed} of {len(after)} entries changed\n")


if __name__ == "__main__":
    main(sys.argv[1:])
