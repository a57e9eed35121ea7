"""What nobody has tried yet: pages say what will become of it, and ask no oftener than needed."""

from __future__ import annotations

import asyncio

from arranger.cli.cockpit import FileSource
from arranger.cli.shadow import Source
from arranger.daemon.config.schema import Config
from arranger.shadow import Shadow
from arranger.shadow.forecasts.comparison import PresentState
from arranger.ui.foretelling import Foretelling
from arranger.ui.source import QuestionError
from arranger.ui.views.observed import Observed
from arranger.ui.views.workloads import waiting_rows
from tests.builders import a_node, a_pod, a_pod_group


def foretold(*given: object) -> dict[str, str]:
    """Row → reason, of a cluster of files that no scheduler has seen."""
    manifests = [each.manifest() for each in given]  # type: ignore[attr-defined]  # builders
    shadow = Shadow.from_manifests(manifests, Config())
    source = FileSource(Source(shadow, []), "files")
    observed = Observed(shadow.objects, shadow.engine)
    assert observed.counted.has_untried
    texts = asyncio.run(Foretelling(source, lambda: 0.0).texts())
    seen = Observed(shadow.objects, shadow.engine, foretold=texts)
    return {row.name: row.reason for row in waiting_rows(seen, 10)[0]}


def test_a_pod_and_a_gang_that_nobody_has_tried_say_what_becomes_of_them() -> None:
    node = a_node("n1").offers(cpu=4, pods=20)
    members = [a_pod(f"m{n}").needs(cpu=3).in_pod_group("g") for n in range(2)]
    told = foretold(node, a_pod("small").needs(cpu=1), a_pod_group("g", least=2), *members)
    assert told["default/small"] == "goes to node n1 when it is tried"
    assert "2 Insufficient cpu" in told["default/g"] or "blocked by pod" in told["default/g"]


class Asked:
    """Counts questions; answers late, or not at all."""

    def __init__(self) -> None:
        self.version, self.count, self.fails = 1, 0, False

    async def present(self) -> PresentState:
        self.count += 1
        if self.fails:
            raise QuestionError("there was no answer in time")
        return PresentState({}, {}, {}, {"a/b": f"answer {self.count}"}, {}, unfinished=False)


def test_it_is_asked_again_after_a_change_and_not_oftener_than_every_ten_seconds() -> None:
    async def play() -> None:
        source, now = Asked(), [0.0]
        foretelling = Foretelling(source, lambda: now[0])
        for at, version, answer in (
            (0.0, 1, "answer 1"),
            (60.0, 1, "answer 1"),
            (61.0, 2, "answer 2"),
            (65.0, 3, "answer 2"),
            (71.0, 3, "answer 3"),
        ):
            now[0], source.version = at, version
            assert await foretelling.texts() == {"a/b": answer}, at
        source.fails, now[0], source.version = True, 99.0, 4
        assert await foretelling.texts() == {"a/b": "answer 3"}

    asyncio.run(play())
