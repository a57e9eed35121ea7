"""Workloads of a wrong shape, which the embedded server lets pass: their owner alone has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.embedded.workloads.harness import VERSIONS, WorkloadHarness, a_workload

pytestmark = pytest.mark.looptime(noop_cycles=0)

WRONG: list[dict[str, Any]] = [
    {"template": None},
    {"template": {}},
    {"template": {"spec": {}}},
    {"template": {"spec": {"containers": []}}},
    {"selector": None},
    {"selector": {"matchExpressions": [{"key": "app", "operator": "Resembles"}]}},
    {"selector": {"matchLabels": {"app": "another"}}},
    {"replicas": -5, "completions": -5, "parallelism": -5, "backoffLimit": -5},
    {"replicas": None, "completions": None, "parallelism": None},
    {"strategy": {"rollingUpdate": {"maxSurge": "much", "maxUnavailable": "-5%"}}},
    {"strategy": {"type": "Sideways"}, "updateStrategy": {"type": "Sideways"}},
    {"strategy": {}, "updateStrategy": {"rollingUpdate": {"partition": -1}}},
    {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "x", "maxSurge": "x"}}},
    {"ordinals": {"start": -1}, "volumeClaimTemplates": [{}]},
    {"minReadySeconds": -1, "activeDeadlineSeconds": -1, "ttlSecondsAfterFinished": -1},
    {"activeDeadlineSeconds": 10**13, "progressDeadlineSeconds": 10**13},
    {"completionMode": "Indexed", "completions": None},
    {"completionMode": "Odd", "backoffLimitPerIndex": -1, "maxFailedIndexes": -1},
    {"podFailurePolicy": {"rules": [{}]}, "successPolicy": {"rules": [{}]}},
    {"podFailurePolicy": {"rules": [{"onExitCodes": {}}]}},
    {"podFailurePolicy": None, "successPolicy": {}, "podReplacementPolicy": "Odd"},
    {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": "x-"}]}},
    {"jobTemplate": None},
    {"jobTemplate": {}},
    {"jobTemplate": {"spec": {}}},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
async def test_one_of_a_wrong_shape_keeps_nobody_from_his_pods(
    at_work: WorkloadHarness, wrong: dict[str, Any]
) -> None:
    for kind in VERSIONS.keys() - ({"ReplicationController"} if "selector" in wrong else set()):
        workload = a_workload(kind, f"wrong-{kind.lower()}")
        workload["spec"] |= wrong
        at_work.apply(workload)
    cron_job = a_workload("Job", "wrong-cronjob")
    at_work.apply({**cron_job, "kind": "CronJob", "spec": wrong})
    at_work.apply(a_workload("Deployment", "good", replicas=2))
    await at_work.after(30)
    for name in at_work.names("Running"):
        at_work.evict(name)
    await at_work.after(30)
    assert sum(name.startswith("good-") for name in at_work.names("Running")) == 2


async def test_its_owner_is_told(at_work: WorkloadHarness) -> None:
    workload = a_workload("Deployment")
    workload["spec"]["template"] = None
    at_work.apply(workload)
    await at_work.after(5)
    (event,) = at_work.cluster.objects("events", "events.k8s.io")
    assert event["regarding"]["name"] == "w"
    assert event["note"].startswith("it is malformed: ")
