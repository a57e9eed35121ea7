"""One valid object of every kind that tenants write, with every field that somebody reads."""

from __future__ import annotations

from typing import Any

from tests.simulation.quarantine.harness import CULPRIT, a_vcjob
from tests.tyjobs import a_template, a_tyjob

Object = dict[str, Any]


def a_full_template() -> Object:
    """A template with every field that is read."""
    template = a_template(gang_min_available="2")
    container = template["spec"]["containers"][0]
    container |= {
        "env": [{"name": "A", "value": "b"}],
        "ports": [{"name": "master", "containerPort": 1}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    container["resources"]["limits"] = {"cpu": "2"}
    template["metadata"] |= {"labels": {"app": "a"}, "finalizers": ["example.com/f"]}
    template["spec"] |= {
        "initContainers": [{**container, "name": "init"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "priorityClassName": "p",
        "hostname": "h",
        "subdomain": "s",
    }
    return template


def objects() -> dict[str, Object]:
    """Kind → a valid object of the culprit's."""
    vcjob = a_vcjob("bad", CULPRIT, maxRetry=2, ttlSecondsAfterFinished=100, minAvailable=2)
    policy = {"event": "PodFailed", "action": "RestartJob", "timeout": "10s"}
    vcjob["metadata"]["annotations"] = {"arranger.io/action": "AbortJob"}
    vcjob["spec"] |= {
        "policies": [policy, {"events": ["PodEvicted"], "action": "AbortJob"}],
        "volumes": [{"mountPath": "/v", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}],
    }
    vcjob["spec"]["tasks"][0] |= {"template": a_full_template(), "minAvailable": 1, "maxRetry": 3}
    vcjob["spec"]["tasks"][1] |= {
        "dependsOn": {"name": ["master"], "iteration": "any"},
        "policies": [{"exitCode": 3, "action": "RestartTask"}],
    }
    tyjob = a_tyjob(
        "bad",
        leader=a_full_template(),
        worker=a_full_template(),
        volumes=[{"name": "data", "emptyDir": {}}],
        schedulerPolicy={"basicPolicy": ["Gang"], "jobQueuePolicy": "DRF"},
        schedulingTimeoutSeconds=60,
        terminating=False,
        cleanPodPolicy="All",
        restartLimit=3,
        priority=5,
        queue="q",
    )
    tyjob["metadata"]["namespace"] = CULPRIT
    group = {"minMember": 2, "queue": "q", "minResources": {"cpu": "1"}, "minTaskMember": {"a": 1}}
    volcano = _object("scheduling.volcano.sh/v1beta1", "PodGroup", spec=group)
    volcano["metadata"]["annotations"] = {"volcano.sh/card.request": '{"a": 1}'}
    sigs = _object("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", spec={"minMember": 2})
    sigs["metadata"]["annotations"] = {"gang.scheduling.koordinator.sh/groups": '["a/b", "a/c"]'}
    bundles = [{"name": "a", "minMember": 1}]
    gang = _object("arranger.io/v1alpha1", "Gang", spec={"source": "annotations"})
    gang["spec"] |= {"minMember": 2, "bundles": bundles}
    gang["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "arranger"}
    queue = _object(
        "scheduling.volcano.sh/v1beta1",
        "Queue",
        spec={"weight": 1, "parent": "root", "capability": {"cpu": "1"}, "deserved": {"cpu": "1"}},
    )
    queue["metadata"] = {"name": "bad", "annotations": {"volcano.sh/card.quota": '{"a": 1}'}}
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "bad", "uid": "u"}
    command = _object("bus.volcano.sh/v1alpha1", "Command", action="AbortJob", target=target)
    return {
        "Job": vcjob,
        "TYJob": tyjob,
        "volcano PodGroup": volcano,
        "PodGroup": sigs,
        "Gang": gang,
        "Queue": queue,
        "Command": command,
    }


def statuses() -> dict[str, Object]:
    """Kind → a status that somebody may have written to its object."""
    condition = {"type": "Valid", "status": "False", "reason": "Refused", "message": "m"}
    condition |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    state = {"phase": "Running", "reason": "r", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    resources = {"arranger.io/state": '{"pods-since": "1", "pods-seen/worker": "0-1"}'}
    counts = {"running": 1, "succeeded": 1, "failed": 1}
    return {
        "Job": {
            "state": state,
            "version": 1,
            "retryCount": 1,
            "controlledResources": resources,
            "conditions": [{"status": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            **counts,
        },
        "TYJob": {
            "stage": "Running",
            "restarts": 1,
            "workerRestarts": {"bad-actor-0": 1},
            "conditions": [condition, {**condition, "type": "Scheduled"}],
            "startTime": "2026-01-01T00:00:00Z",
            "allocations": [{"pod": "p", "node": "n"}],
        },
        "volcano PodGroup": {"phase": "Inqueue", "conditions": [condition], **counts},
        "PodGroup": {"phase": "Finished", "scheduleStartTime": "x", **counts},
        "Gang": {"phase": "Failed", "bundles": [{"name": "a", "succeeded": 1}], **counts},
        "Queue": {"state": "Closing", "conditions": [condition], "allocated": {"cpu": "1"}},
        "Command": {},
    }


def _object(api_version: str, kind: str, **fields: Any) -> Object:
    meta = {"name": "bad", "namespace": CULPRIT}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}
