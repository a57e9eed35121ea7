"""Play the scenarios on the real control plane, and write down what was seen.

``python -m tests.workload_scenarios.record [WORD…]`` plays those whose names have a word.
"""

from __future__ import annotations

import asyncio
import json
import sys

from tests.controlplane.harness import ControlPlane
from tests.workload_scenarios.play import RECORDED, SCENARIOS, play_for_real, recorded


async def main(words: list[str]) -> None:
    chosen = {
        name: each
        for name, each in SCENARIOS.items()
        if not words or any(word in name for word in words)
    }
    before = recorded() if RECORDED.exists() else {}
    async with ControlPlane(controllers=True) as plane:
        seen = before | await play_for_real(plane, chosen)
    kept = {name: seen[name] for name in SCENARIOS if name in seen}
    RECORDED.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
