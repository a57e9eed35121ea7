"""What Kubernetes says of selectors, as recorded: ``answers.jsonl.gz``.

``python -m tests.differential.cel.recorded`` asks again about each line of ``expressions.txt`` and
about the random expressions of the first seeds.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.differential.cel.generator import random_device, random_expression
from tests.differential.cel.judge import Judge

Json = dict[str, Any]
FOLDER = Path(__file__).parent
ANSWERS = FOLDER / "answers.jsonl.gz"
SEEDS = range(1000)
#: A device for the expressions that are written down.
DEVICE: Json = {
    "driver": "d",
    "attributes": {"model": {"string": "a100"}, "other/index": {"int": 3}},
    "capacity": {"memory": {"value": "80Gi"}},
}


def random_question(seed: int) -> tuple[str, list[Json]]:
    """An expression, and devices to evaluate it for."""
    random = Random(seed)
    return random_expression(random), [random_device(random) for _ in range(3)]


def questions() -> Iterator[tuple[str, list[Json]]]:
    """All that is recorded."""
    for line in (FOLDER / "expressions.txt").read_text().splitlines():
        yield line, [DEVICE]
    for seed in SEEDS:
        yield random_question(seed)


def answers() -> Iterator[Json]:
    """The lines of the record."""
    for line in gzip.decompress(ANSWERS.read_bytes()).decode().splitlines():
        yield json.loads(line)


def asked(expression: str, devices: list[Json], judge: Judge) -> Json:
    """A line of the record: the reasons are left out, as nobody compares them."""
    answer = judge.ask(expression, devices)
    for field in ("uncompiled", "refused"):
        if field in answer:
            answer[field] = answer[field].splitlines()[0][:80]
    return {"expression": expression, "devices": devices, "answer": answer}


def main() -> None:
    """Record."""
    with Judge() as judge:
        lines = [json.dumps(asked(*question, judge)) for question in questions()]
    text = "".join(f"{line}\n" for line in lines)
    ANSWERS.write_bytes(gzip.compress(text.encode(), mtime=0))
    sys.stdout.write(f"{len(lines)} answers\n")


if __name__ == "__main__":
    main()
