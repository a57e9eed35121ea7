"""What is wrong with a Job that its definition cannot see.

Volcano has a webhook for it; we say so on the object instead, and leave everything as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator
from typing import Final

from arranger.api.listing import first_names
from arranger.api.parsing.duration import parse_duration
from arranger.api.parsing.errors import ParseError
from arranger.api.types.job_limits import MAX_ADDED_BYTES
from arranger.api.types.pod_templates import depth_problem, encoded_bytes, template_problem
from arranger.api.types.volcano_job import (
    JobAction,
    JobSpec,
    LifecycleEvent,
    LifecyclePolicy,
    Task,
    VolcanoJob,
)
from arranger.controllers.vcjob import svc_plugin

#: Plugin → the flags that it takes.
PLUGINS: Final = {
    "env": frozenset[str](),
    "svc": frozenset(svc_plugin.FLAGS),
}
#: What a task's name must be, to be part of its pods'.
_TASK_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
#: Tasks that are named together.
_MAX_NAMED: Final = 5
#: Characters of a label's value, or of a host name, at most.
_MAX_NAME: Final = 63
#: Characters of the name of a claim, at most.
_MAX_CLAIM_NAME: Final = 253
#: Bytes of a mount, beside its path.
_MOUNT_BYTES: Final = 64
#: What a name must be to be a Service's, and a pod's host name.
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def first_problem(job: VolcanoJob) -> str:
    """The first thing that is wrong, as a sentence for its owner; "" for a sound job."""
    return next(_problems(job), "")


def _problems(job: VolcanoJob) -> Iterator[str]:
    spec = job.spec
    if not spec.tasks:
        yield "spec.tasks: there are none"
    numbers = {
        "minAvailable": spec.min_available,
        "maxRetry": spec.max_retry,
        "ttlSecondsAfterFinished": spec.ttl_seconds_after_finished,
    }
    for name in (name for name, number in numbers.items() if number is not None and number < 0):
        yield f"spec.{name}: it is less than 0"
    names = Counter(task.name for task in spec.tasks)
    for name, times in names.items():
        if times > 1:
            yield f"spec.tasks: {times} tasks are called {name}"
    if spec.minimum > spec.replicas:
        yield f"spec.minAvailable: {spec.minimum} is more than the {spec.replicas} pods there are"
    if spec.min_success is not None and spec.min_success > spec.replicas:
        least = spec.min_success
        yield f"spec.minSuccess: {least} is more than the {spec.replicas} pods there are"
    yield from _names(job)
    yield from _plugins(job)
    yield from _policies("spec.policies", spec.policies)
    paths = Counter(volume.mount_path for volume in spec.volumes)
    for path in (path for path, times in paths.items() if times > 1):
        yield f"spec.volumes: there is more than one for the mountPath {path}"
    for volume in spec.volumes:
        if problem := depth_problem(volume.volume_claim):
            yield f"spec.volumes[{volume.mount_path}].volumeClaim: {problem}"
        if len(volume.volume_claim_name) > _MAX_CLAIM_NAME:
            most = f"more than {_MAX_CLAIM_NAME} characters"
            yield f"spec.volumes[{volume.mount_path}].volumeClaimName: it has {most}"
    for task in spec.tasks:
        yield from _task(task, names)
    yield from _additions(job)
    yield from _dependency_cycle(spec)


def _names(job: VolcanoJob) -> Iterator[str]:
    """A pod's name is its host name, and the job's is the value of a label."""
    if len(job.metadata.name) > _MAX_NAME:
        yield f"metadata.name: it has more than {_MAX_NAME} characters"
        return
    for index, task in enumerate(job.spec.tasks):
        name = f"{job.metadata.name}-{task.name}-{index}"
        if len(name) > _MAX_NAME:
            yield f"spec.tasks: pods called like {name} have more than {_MAX_NAME} characters"


def _task(task: Task, names: Container[str]) -> Iterator[str]:
    where = f"spec.tasks[{task.name}]"
    if not _TASK_NAME.fullmatch(task.name):
        yield f"{where}.name: it is no DNS label"
    if min(task.replicas, task.minimum, task.max_retry) < 0:
        yield f"{where}: replicas, minAvailable and maxRetry are not less than 0"
    if task.minimum > task.replicas:
        yield f"{where}.minAvailable: {task.minimum} is more than its {task.replicas} replicas"
    if problem := template_problem(task.template):
        yield f"{where}.template: {problem}"
    for other in task.depends_on.name if task.depends_on else ():
        if other not in names:
            yield f"{where}.dependsOn: there is no task {other}"
    yield from _policies(f"{where}.policies", task.policies)


def _additions(job: VolcanoJob) -> Iterator[str]:
    """What is added to each container, times the containers, must leave a pod of some size."""
    each = sum(encoded_bytes(v.mount_path) + _MOUNT_BYTES for v in job.spec.volumes)
    if "svc" in job.spec.plugins:
        each += svc_plugin.variables_bytes(job)
    for task in job.spec.tasks:
        spec = task.template.get("spec") or {}
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        if (added := each * len(containers)) > MAX_ADDED_BYTES:
            yield (
                f"spec.tasks[{task.name}]: volumes and the plugin svc would add {added} bytes to a "
                f"pod, which are more than {MAX_ADDED_BYTES}"
            )


def _policies(where: str, policies: list[LifecyclePolicy]) -> Iterator[str]:
    for index, policy in enumerate(policies):
        at = f"{where}[{index}]"
        if policy.exit_code is None and not policy.lifecycle_events:
            yield f"{at}: it says neither event nor exitCode"
        if policy.exit_code is not None and policy.lifecycle_events:
            yield f"{at}: event and exitCode exclude each other"
        if policy.exit_code == 0:
            yield f"{at}.exitCode: 0 is success"
        if policy.action is JobAction.RESTART_PARTITION:
            yield f"{at}.action: RestartPartition is not supported"
        if policy.timeout:
            try:
                parse_duration(policy.timeout)
            except ParseError as error:
                yield f"{at}.timeout: {error}"
        elif LifecycleEvent.POD_PENDING in policy.lifecycle_events:
            yield f"{at}: PodPending needs a timeout, because every pod is pending at first"
    events = Counter(event for policy in policies for event in policy.lifecycle_events)
    codes = Counter(policy.exit_code for policy in policies if policy.exit_code is not None)
    for event in (event for event, times in events.items() if times > 1):
        yield f"{where}: duplicate event {event} across different policies"
    if LifecycleEvent.ANY in events and len(events) > 1:
        yield f"{where}: beside the event * there can be no other"
    for code in (code for code, times in codes.items() if times > 1):
        yield f"{where}: duplicate exitCode {code}"


def _plugins(job: VolcanoJob) -> Iterator[str]:
    for name, flags in job.spec.plugins.items():
        known = PLUGINS.get(name)
        if known is None:
            why = f", only {', '.join(sorted(PLUGINS))} are"
            if name == "ssh":
                why = ": it would spread private keys; use the svc plugin's names"
            yield f"spec.plugins: {name} is not supported{why}"
            continue
        for flag in flags:
            if flag.lstrip("-").partition("=")[0] not in known:
                yield f"spec.plugins.{name}: there is no flag {flag}"
    if "svc" in job.spec.plugins and not _LABEL.fullmatch(job.metadata.name):
        yield f"metadata.name: {job.metadata.name} cannot be the name of a Service (plugin svc)"


def _dependency_cycle(spec: JobSpec) -> Iterator[str]:
    left = {t.name: set(t.depends_on.name) if t.depends_on else set() for t in spec.tasks}
    waiting: dict[str, list[str]] = {}
    for name, others in left.items():
        others &= left.keys()
        for other in others:
            waiting.setdefault(other, []).append(name)
    free = [name for name, others in left.items() if not others]
    while free:
        done = free.pop()
        del left[done]
        for name in waiting.get(done, ()):
            left[name].discard(done)
            if not left[name]:
                free.append(name)
    if left:
        names = first_names(sorted(left), _MAX_NAMED)
        yield f"spec.tasks: {names} wait for each other by dependsOn"
