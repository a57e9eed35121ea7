"""``python -m tests.ui.large [NODES PODS]``: how long the pages of a large cluster take.

For each page the quickest and the slowest of three answers, each after a change, and its size; for
each form of what-if the median and the 95th percentile of twenty; then in a browser the load of a
page, and its longest frame while it follows three changes.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from aiohttp import ClientSession

from tests.ui.park import a_park
from tests.ui.rig import ChangingSource, asking_at, browser, chromium, opened, pages

PAGES: Final = (
    "",
    "queues",
    "gangs",
    "jobs",
    "pods",
    "pods?state=Waiting",
    "nodes",
    "search?q=vision",
    "pod?name=default/huge-0",
    "gang?name=default/large",
    "node?name=node-0001",
    "why?what=pod/default/huge-0",
)
FORMS: Final = (
    {"cordon": "node-0001"},
    {"delete": "pod/default-18571"},
    {"add_nodes": "4xnode-0001"},
    {"queues": "vision.capability=nvidia.com/gpu=10"},
)
TIMES: Final = 20
HERE: Final = {"Sec-Fetch-Site": "same-origin"}
FOLLOWED: Final = ("", "nodes", "pods", "gangs")
FRAMES: Final = """() => {
  window.longest = 0;
  let last = performance.now();
  const tick = (now) => {
    window.longest = Math.max(window.longest, now - last);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}"""


async def answers(ask: ClientSession, source: ChangingSource) -> None:
    for path in PAGES:
        spent, size = [], 0
        for _ in range(3):
            source.change()
            began = time.perf_counter()
            async with ask.get(f"/{path}") as answer:
                size = len(await answer.read())
            spent.append(1000 * (time.perf_counter() - began))
        print(f"{path:30} {min(spent):6.0f} to {max(spent):6.0f} ms {size / 1000:6.0f} kB")


async def forecasts(ask: ClientSession, source: ChangingSource) -> None:
    for form in FORMS:
        spent = []
        for _ in range(TIMES):
            source.change()
            began = time.perf_counter()
            async with ask.post("/what-if", data=form, headers=HERE) as answer:
                await answer.read()
                assert answer.ok, f"{form}: {answer.status}"
            spent.append(1000 * (time.perf_counter() - began))
        told = ", ".join(f"{name} {text}" for name, text in form.items())
        middle, high = statistics.median(spent), statistics.quantiles(spent, n=20)[-1]
        print(f"what if {told:30} median {middle:6.0f} ms, p95 {high:6.0f} ms")


async def frames(address: str, source: ChangingSource) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with browser(Path(folder)) as context:
            page, _ = await opened(context, address)
            for path in FOLLOWED:
                began = time.perf_counter()
                await page.goto(address + path)
                load = 1000 * (time.perf_counter() - began)
                await page.evaluate(FRAMES)
                for _ in range(3):
                    source.change()
                    await page.wait_for_timeout(2_600)
                longest = await page.evaluate("window.longest")
                print(f"browser {path:22} load {load:6.0f} ms, longest frame {longest:6.0f} ms")


async def main(nodes: int, pods: int) -> None:
    park = a_park(nodes, pods)
    began = time.perf_counter()
    async with pages(park) as (address, source), asking_at(address) as ask:
        print(f"{nodes} nodes, {pods} pods: read in {time.perf_counter() - began:.1f} s")
        await answers(ask, source)
        await forecasts(ask, source)
        if chromium():
            await frames(address, source)


if __name__ == "__main__":
    asyncio.run(main(*(int(each) for each in sys.argv[1:3] or ("5000", "50000"))))
