"""Jobs and TYJobs of any shape, with pods, as far as their controllers plan for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import convert_object
from arranger.api.types.tyjob import TYJob, TYJobPod, parse_tyjob, validate_tyjob
from arranger.api.types.volcano_job import JobPod, VolcanoJob
from arranger.controllers.runtime.objects import UnstructuredObject
from arranger.controllers.tyjob.observed_state import ObservedState
from arranger.controllers.tyjob.state_machine import plan as plan_tyjob
from arranger.controllers.vcjob.cache import JobCache
from arranger.controllers.vcjob.manifests import pod_group_of, pod_of
from arranger.controllers.vcjob.plan import plan
from tests.fuzz.choices import Choices
from tests.fuzz.objects import an_object

_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_OWNER: Final = {"controller": True, "uid": "uid-evil-0", "name": "evil-0"}


def play_job(data: bytes) -> None:
    """One Job and a pod of it."""
    choices, cache = Choices(data), JobCache()
    body, pod = an_object(choices, VolcanoJob), an_object(choices, JobPod)
    body["metadata"] |= {"name": "evil-0", "uid": "uid-evil-0"}
    owner = {**_OWNER, "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    pod["metadata"]["ownerReferences"] = [owner]
    try:
        cache.on_job_updated(convert_object(body, UnstructuredObject))
        cache.on_pod_updated(convert_object(pod, JobPod))
    except ParseError:
        pass
    snapshot = cache.snapshot("evil/evil-0", _NOW)
    if snapshot is not None:
        planned = plan(snapshot)
        if planned.create_pods:
            pod_group_of(snapshot)
        for index in planned.create_pods[:5]:
            pod_of(snapshot, index, scheduler="arranger")


def play_tyjob(data: bytes) -> None:
    """One TYJob and a pod of it."""
    choices = Choices(data)
    body, pod = an_object(choices, TYJob), an_object(choices, TYJobPod)
    try:
        job = parse_tyjob(body)
    except ParseError:
        return
    validate_tyjob(job)
    observed = [ObservedState({}, None, None, None, None)]
    try:
        there = convert_object(pod, TYJobPod)
    except ParseError:
        pass
    else:
        names = [replica.pod for replica in job.replicas[:2]] if not validate_tyjob(job) else []
        observed.append(ObservedState(dict.fromkeys(names, there), None, None, None, None))
    for each in observed:
        plan_tyjob(job, each, _NOW)
