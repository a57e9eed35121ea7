"""``arranger queue``: what people see of queues and of what waits in them."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from arranger.cli.main import main
from arranger.cli.output.queue_tables import print_queues
from arranger.cli.output.screen import Screen
from arranger.cli.queues import QueueView, load_queue_cache, queue_views
from arranger.controllers.queue.cache import QueueCache
from arranger.controllers.queue.entries import ObservedQueue
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.http import serve
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.kube.client.transport import Request, Response
from tests.builders import PodBuilder, a_pod
from tests.queueing import (
    CARD,
    a_queue_manifest,
    gpu_node,
    inference,
    priority_classes,
    training,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def born(pod: PodBuilder, hour: int) -> PodBuilder:
    """Created at that hour of the first of January."""
    return pod.created(f"2026-01-01T{hour:02}:00:00Z")


def told(pod: PodBuilder, message: str) -> PodBuilder:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return pod.with_status(conditions=[condition])


def a_book(queues: Iterable[dict[str, Any]], *pods: PodBuilder) -> QueueCache:
    book = QueueCache()
    for queue in queues:
        book.on_queue_updated(msgspec.convert(queue, ObservedQueue))
    book.on_node_updated(gpu_node().build())
    for pod in pods:
        book.on_pod_updated(pod.build())
    return book


def two_queues() -> list[dict[str, Any]]:
    return [
        a_queue_manifest("training", cards={CARD: 8}, priority=20000),
        a_queue_manifest("inference", cards={CARD: 8}, priority=80000, reclaimable=False),
    ]


def by_name(views: list[QueueView]) -> dict[str, QueueView]:
    return {view.name: view for view in views}


def printed(views: list[QueueView], *, width: int = 120) -> str:
    screen = Screen(file=io.StringIO(), width=width)
    print_queues(views, screen, now=NOW)
    return screen.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_what_waits_stands_in_the_order_of_the_queue_with_the_scheduler_s_words() -> None:
    book = a_book(
        two_queues(),
        born(told(training("late"), "0/1 nodes"), 3),
        born(training("early"), 1),
        born(training("important", priority=60000), 5),
        *(born(told(training(f"g-{n}").in_gang("g", 3), "no room"), 2) for n in range(3)),
        training("running").on("n"),
    )
    waiting = by_name(queue_views(book))["training"].waiting
    assert [(w.position, w.name, w.pods, w.reason) for w in waiting] == [
        (1, "default/important", 1, "has not been tried yet"),
        (2, "default/early", 1, "has not been tried yet"),
        (3, "default/g", 3, "no room"),
        (4, "default/late", 1, "0/1 nodes"),
    ]


def test_the_priority_of_a_job_goes_before_its_age_as_in_the_scheduler() -> None:
    def job(name: str, priority: str) -> PodBuilder:
        notes = {"arranger.io/job-priority": priority}
        return training(f"{name}-0").of_tyjob().in_gang(name, 2).annotated(notes)

    book = a_book(
        two_queues(),
        born(training("pod"), 2),
        born(job("unread", "high"), 3),
        born(job("low", "4"), 1),
        born(job("high", "9"), 4),
        *(born(training(f"least-{n}", priority=1).in_gang("least", 2), 1) for n in range(2)),
    )
    views = queue_views(book)
    waiting = by_name(views)["training"].waiting
    names = ["default/high", "default/pod", "default/unread", "default/low", "default/least"]
    assert [w.name for w in waiting] == names
    assert [w["jobPriority"] for w in by_name(views)["training"].as_json()["waiting"]] == [
        9,
        5,
        5,
        4,
        5,
    ]
    assert "priority 20000 (job 9)," in printed(views, width=80)


def test_who_has_been_promised_a_node_says_so() -> None:
    book = a_book(two_queues(), inference("i").with_status(nominatedNodeName="n"))
    (waits,) = by_name(queue_views(book))["inference"].waiting
    assert waits.reason == "waits for its victims to leave n"


def test_the_more_important_queue_is_served_and_shown_first_and_children_under_their_parents() -> (
    None
):
    queues = [
        a_queue_manifest("a", priority=1),
        a_queue_manifest("b", priority=2),
        a_queue_manifest("a2", parent="a"),
        a_queue_manifest("a1", parent="a", priority=9),
        a_queue_manifest("lost", parent="nowhere"),
        a_queue_manifest("x", parent="y"),
        a_queue_manifest("y", parent="x"),
    ]
    names = [view.name for view in queue_views(a_book(queues))]
    assert names == ["b", "a", "a1", "a2", "lost", "x", "y"]
    assert [view.name for view in queue_views(a_book(queues), "a")] == ["a", "a1", "a2"]


def test_what_waits_for_a_queue_that_is_not_there_is_shown_too() -> None:
    book = a_book([], a_pod("p").in_queue("typo"), a_pod("q"))
    views = by_name(queue_views(book))
    assert views["typo"].phase == "there is no such queue"
    assert views["default"].phase == "Open"
    with pytest.raises(LookupError, match="there is no queue other"):
        queue_views(book, "other")


def test_bars_say_how_full_a_queue_is() -> None:
    queue = a_queue_manifest("training", cards={CARD: 8, "H200": 0}, capability={"cpu": 4})
    view = by_name(queue_views(a_book([queue], training("t", 6).on("n"))))["training"]
    assert list(view.usage_rows()) == [
        ("cpu", 100, 4000, "100m/4"),
        ("H200", 0, 0, "0/0"),
        (CARD, 6, 8, "6/8"),
        ("nvidia.com/gpu", 6, None, "6/-"),
    ]
    text = printed([view])
    assert f"{CARD} {'█' * 15}{'░' * 5} 6/8" in text
    assert "training Open, priority 0, weight 1, 1 running" in text


def test_the_table_of_what_waits_is_readable() -> None:
    pod = born(told(training("t"), "0/1 nodes are [available]"), 1)
    text = printed(
        queue_views(a_book([*two_queues(), a_queue_manifest("bad", parent="gone")], pod))
    )
    assert "│ 1 │ default/t │ 1    │ 20000    │ 23h │ 0/1 nodes are [available] │" in text
    assert "spec.parent: there is no queue gone" in text
    assert "inference Open, priority 80000, weight 1, not reclaimable" in text


def test_a_narrow_terminal_cuts_nothing_off() -> None:
    name, word = "training-of-a-large-model-worker1-0", "gangs/" + "x" * 60
    text = printed(queue_views(a_book(two_queues(), born(told(training(name), word), 1))), width=80)
    assert "…" not in text
    assert text.count("x") == 60


def test_on_eighty_columns_a_reason_has_lines_of_its_own() -> None:
    reason = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu [of all], and so on."
    pods = [born(told(training(name), reason), 1) for name in ("a", "b")]
    lines = printed(queue_views(a_book(two_queues(), *pods)), width=80).splitlines()
    first = lines.index("1. default/a  1 pod, priority 20000, for 23h")
    assert lines[first + 1].rstrip() == f"   {reason}"
    assert lines[first + 2].startswith("2. default/b  1 pod")


def test_what_is_guaranteed_and_deserved_is_shown() -> None:
    queue = a_queue_manifest("training", capability={"cpu": 8, "memory": "32Gi"})
    queue["spec"] |= {"guarantee": {"resource": {"cpu": "1500m"}}}
    queue["spec"] |= {"deserved": {"cpu": 4, "memory": "16Gi"}}
    (view,) = (v for v in queue_views(a_book([queue])) if v.name == "training")
    lines = [" ".join(line.split()) for line in printed([view]).splitlines()]
    assert any(line.endswith("guarantee cpu 1500m") for line in lines)
    assert any(line.endswith("deserved cpu 4, memory 16Gi") for line in lines)
    shown = view.as_json()
    assert shown["guarantee"] == {"cpu": 1500}
    assert shown["deserved"] == {"cpu": 4000, "memory": 16 * 1024**3}


def test_nothing_to_show() -> None:
    assert printed([]) == "no queues, and nothing waits\n"


# --- the command ---------------------------------------------------------------------------------


def a_cluster(*definitions: dict[str, Any]) -> EmbeddedCluster:
    cluster = EmbeddedCluster()
    for manifest in (*definitions, *priority_classes(), gpu_node().manifest()):
        cluster.create(manifest)
    return cluster


async def run(cluster: EmbeddedCluster, folder: Path, *args: str) -> Result:
    async with serve(cluster) as url:
        file = folder / "kubeconfig"
        named = {"name": "c", "cluster": {"server": url}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [named],
            "contexts": [context],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        file.write_text(yaml.safe_dump(content))
        command = ["queue", f"--kubeconfig={file}", *args]
        return await asyncio.to_thread(CliRunner().invoke, main, command)


async def test_the_command_reads_a_cluster_page_by_page(tmp_path: Path) -> None:
    cluster = a_cluster(*bundled_crds())
    cluster.create(a_queue_manifest("training", cards={CARD: 8}))
    for n in range(501):
        manifest = training(f"t{n:03}").manifest()
        del manifest["metadata"]["uid"]
        cluster.create(manifest)
    result = await run(cluster, tmp_path, "training", "-o", "json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.output)["queues"]
    assert found["use"] == [{"name": CARD, "used": 0, "limit": 8}]
    assert [each["position"] for each in found["waiting"]] == list(range(1, 502))


async def test_the_command_does_without_definitions_and_names_what_is_not_there(
    tmp_path: Path,
) -> None:
    cluster = a_cluster()
    assert "no queues, and nothing waits" in (await run(cluster, tmp_path)).output
    result = await run(cluster, tmp_path, "x")
    assert (result.exit_code, result.output) == (1, "Error: there is no queue x\n")


async def test_a_refusal_names_what_may_not_be_read() -> None:
    class Forbids(InProcessTransport):
        async def send(self, request: Request) -> Response:
            return await super().send(msgspec.structs.replace(request, method="PUT"))

    with pytest.raises(LookupError, match=r"^/apis/.*/queues: "):
        await load_queue_cache(Forbids(a_cluster(*bundled_crds())))


async def test_what_cannot_be_decoded_is_named() -> None:
    class Spoils(InProcessTransport):
        async def send(self, request: Request) -> Response:
            response = await super().send(request)
            body = response.body.replace(b'"requests":{"cpu":"1"}', b'"requests":[]')
            return replace(response, body=body)

    cluster = a_cluster(*bundled_crds())
    for name, cpu in (("odd", 1), ("even", 2)):
        manifest = a_pod(name).in_namespace("default").needs(cpu=cpu).manifest()
        del manifest["metadata"]["uid"]
        cluster.create(manifest)
    unread: list[str] = []
    cache = await load_queue_cache(Spoils(cluster), unread=unread.append)
    assert [line[:27] for line in unread] == ["/api/v1/pods: default/odd: "]
    assert len(queue_views(cache)[0].waiting) == 1
