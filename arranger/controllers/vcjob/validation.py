"""What is wrong with a Job that its definition cannot see.

Volcano has a webhook for it; we say so on the object instead, and leave everything as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from arranger.api.gang_membership import parse_duration
from arranger.api.types.pod_templates import template_problem
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
#: What a name must be to be a Service's, and a pod's host name.
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def first_problem(job: VolcanoJob) -> str:
    """The first thing that is wrong, as a sentence for its owner; "" for a sound job."""
    return next(_problems(job), "")


def _problems(job: VolcanoJob) -> Iterator[str]:
    spec = job.spec
    names = Counter(task.name for task in spec.tasks)
    for name, times in names.items():
        if times > 1:
            yield f"spec.tasks: {times} tasks are called {name}"
    if spec.minimum > spec.replicas:
        yield f"spec.minAvailable: {spec.minimum} is more than the {spec.replicas} pods there are"
    if spec.min_success is not None and spec.min_success > spec.replicas:
        least = spec.min_success
        yield f"spec.minSuccess: {least} is more than the {spec.replicas} pods there are"
    yield from _plugins(job)
    yield from _policies("spec.policies", spec.policies)
    for task in spec.tasks:
        yield from _task(spec, task)
    yield from _dependency_cycle(spec)


def _task(spec: JobSpec, task: Task) -> Iterator[str]:
    where = f"spec.tasks[{task.name}]"
    if task.minimum > task.replicas:
        yield f"{where}.minAvailable: {task.minimum} is more than its {task.replicas} replicas"
    if problem := template_problem(task.template):
        yield f"{where}.template: {problem}"
    for other in task.depends_on.name if task.depends_on else ():
        if spec.task(other) is None:
            yield f"{where}.dependsOn: there is no task {other}"
    yield from _policies(f"{where}.policies", task.policies)


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
            except ValueError as error:
                yield f"{at}.timeout: {error}"
        elif LifecycleEvent.POD_PENDING in policy.lifecycle_events:
            yield f"{at}: PodPending needs a timeout, because every pod is pending at first"


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
    waiting = {t.name: set(t.depends_on.name) if t.depends_on else set() for t in spec.tasks}
    while free := [name for name, others in waiting.items() if not others & waiting.keys()]:
        for name in free:
            del waiting[name]
    if waiting:
        yield f"spec.tasks: {', '.join(sorted(waiting))} wait for each other by dependsOn"
