"""What the API server's own package has answered.

``python -m tests.differential.cel.rules.recorded`` asks it again, and writes that down.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.differential.cel.judge import Judge
from tests.differential.cel.rules.judge import Json, their_answer
from tests.differential.cel.rules.questions import questions

ANSWERS: Final = Path(__file__).parent / "answers.jsonl"


def answers() -> list[Json]:
    """The answers to all questions, in their order."""
    return [json.loads(line) for line in ANSWERS.read_text().splitlines()]


def main() -> None:
    """Ask again."""
    with Judge() as judge:
        lines = [json.dumps(their_answer(judge, each)) for each in questions()]
    ANSWERS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
