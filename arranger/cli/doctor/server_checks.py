"""What ``arranger doctor`` asks the API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from arranger.api.event_reasons import QUARANTINED
from arranger.api.listing import first_names
from arranger.cli.doctor.finding import Answered, CheckContext, Finding, Object, unseen
from arranger.cli.lease import read_leadership
from arranger.daemon.informers import COLLECTION_PATHS
from arranger.embedded.bundled_crds import bundled_crds
from arranger.kube.client.problems import resource_name

#: Seconds that clocks may differ: the server tells whole ones.
_MAX_SKEW: Final = 5.0
#: Seconds that creating a pod may take, and that a webhook may be waited for.
_SLOW: Final = 1.0
_MAX_WAIT: Final = 10
_NAMED: Final = 5
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
#: What the scheduler writes: verb, API group, resource.
_WRITES: Final = (
    ("create", "", "pods/binding"),
    ("patch", "", "pods/status"),
    ("delete", "", "pods"),
    ("create", "events.k8s.io", "events"),
    ("update", "coordination.k8s.io", "leases"),
    ("patch", "arranger.io", "gangs"),
)


async def server(context: CheckContext) -> AsyncIterator[Finding]:
    """The version of the server, and its clock."""
    answer = await context.get("/version")
    if answer.status != 200:
        yield unseen("server", answer)
    else:
        yield Finding("server", "ok", f"Kubernetes {answer.body.get('gitVersion', '')}")
    date = answer.headers.get("date", "")
    try:
        skew = (context.now - parsedate_to_datetime(date)).total_seconds()
    except (TypeError, ValueError):
        yield Finding("clock", "unseen", "the server does not tell the time")
        return
    if abs(skew) <= _MAX_SKEW:
        yield Finding("clock", "ok", "this machine and the server have the same time")
    else:
        way = "ahead of" if skew > 0 else "behind"
        yield Finding(
            "clock",
            "wrong",
            f"this machine is {abs(skew):.0f} s {way} the server",
            "set the clocks by NTP: leases, ages and limits of time go by them",
        )


async def definitions(context: CheckContext) -> AsyncIterator[Finding]:
    """The CustomResourceDefinitions that come with Arranger, and the versions that are served.

    The scheduler does without each of them: who wants none of its objects need not install it.
    """
    for wanted in bundled_crds():
        name = wanted["metadata"]["name"]
        check = f"definition {name}"
        answer = await context.get(f"{_CRDS}/{name}")
        if answer.status == 404:
            yield _not_installed(check, wanted)
        elif answer.status != 200:
            yield await _by_discovery(context, check, wanted, answer)
        else:
            yield _definition(check, wanted, answer.body)


def _definition(check: str, wanted: Object, there: Object) -> Finding:
    def served(definition: Object) -> set[str]:
        versions = definition["spec"]["versions"]
        return {each["name"] for each in versions if each.get("served")}

    conditions = {c["type"]: c for c in there.get("status", {}).get("conditions") or ()}
    for kind in ("NamesAccepted", "Established"):
        if (said := conditions.get(kind, {})).get("status") != "True":
            mend = "another definition may have taken its names: kubectl get crd"
            return Finding(check, "wrong", f"not {kind}: {said.get('message', '')}", mend)
    if missing := sorted(served(wanted) - served(there)):
        mend = f"kubectl apply -f crds/{wanted['metadata']['name']}.yaml"
        return Finding(check, "wrong", f"{', '.join(missing)} is not served", mend)
    return Finding(check, "ok", f"serves {', '.join(sorted(served(there)))}")


async def _by_discovery(
    context: CheckContext, check: str, wanted: Object, refused: Answered
) -> Finding:
    """For those who may not read definitions: what is served is seen by everybody."""
    spec, missing = wanted["spec"], []
    versions = [each["name"] for each in spec["versions"] if each.get("served")]
    for version in versions:
        answer = await context.get(f"/apis/{spec['group']}/{version}")
        if answer.status not in (200, 404):
            return unseen(check, refused)
        names = {each.get("name") for each in answer.body.get("resources") or ()}
        if spec["names"]["plural"] not in names:
            missing.append(version)
    if missing == versions:
        return _not_installed(check, wanted)
    if missing:
        mend = f"kubectl apply -f crds/{wanted['metadata']['name']}.yaml"
        return Finding(check, "wrong", f"{', '.join(missing)} is not served", mend)
    return Finding(check, "ok", "is served")


def _not_installed(check: str, wanted: Object) -> Finding:
    name, kind = wanted["metadata"]["name"], wanted["spec"]["names"]["kind"]
    told = f"not installed; for objects of kind {kind}: kubectl apply -f crds/{name}.yaml"
    return Finding(check, "ok", told)


async def rights(context: CheckContext) -> AsyncIterator[Finding]:
    """What whoever asks may list, and what the scheduler's account may do."""
    reads = [("list", *_group_and_resource(path)) for path in COLLECTION_PATHS.values()]
    yield await _reviewed(
        context,
        "your rights",
        reads,
        {},
        "bind yourself to the ClusterRole arranger-viewer: manifests/95-viewer.yaml",
    )
    namespace = context.config.leader_election.resource_namespace
    account = f"system:serviceaccount:{namespace}:arranger"
    watches = [("watch", group, resource) for _, group, resource in reads]
    yield await _reviewed(
        context,
        f"rights of {account}",
        [*reads, *watches, *_WRITES],
        {"user": account, "groups": ["system:serviceaccounts", "system:authenticated"]},
        "kubectl apply -f manifests/20-rbac.yaml",
    )


async def _reviewed(
    context: CheckContext,
    check: str,
    asked: Iterable[tuple[str, str, str]],
    who: Mapping[str, Any],
    mend: str,
) -> Finding:
    kind = "SubjectAccessReview" if who else "SelfSubjectAccessReview"

    async def ask(verb: str, group: str, resource: str) -> Answered:
        name, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": name, "subresource": subresource}
        if name == "leases":
            attributes["namespace"] = context.config.leader_election.resource_namespace
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": kind,
            "spec": {**who, "resourceAttributes": attributes},
        }
        return await context.post(f"{_REVIEWS}/{kind.lower()}s", body)

    asked = list(asked)
    answers = await asyncio.gather(*(ask(*each) for each in asked))
    missing = []
    for (verb, group, resource), answer in zip(asked, answers, strict=True):
        if answer.status not in (200, 201):
            return unseen(check, answer)
        if not answer.body.get("status", {}).get("allowed"):
            missing.append(f"{verb} {resource}.{group}".rstrip("."))
    if missing:
        return Finding(check, "wrong", f"no right to {first_names(missing, _NAMED)}", mend)
    return Finding(check, "ok", f"{len(asked)} rights, none is missing")


async def lease(context: CheckContext) -> AsyncIterator[Finding]:
    """Who leads, and since when it was last said."""
    election = context.config.leader_election
    if not election.leader_elect:
        yield Finding("lease", "ok", "replicas do not compete: there must be one only")
        return
    told = await read_leadership(context.transport, election)
    text, age = told.text(context.now), told.age(context.now)
    start = f"start the scheduler: kubectl -n {election.resource_namespace} get pods"
    if told.status not in (0, 200, 404):
        yield Finding("lease", "unseen", text)
    elif told.status != 200 or not told.holder or age is None:
        yield Finding("lease", "wrong", text, start)
    elif age > float(told.duration or election.lease_duration):
        yield Finding("lease", "wrong", f"nobody leads: {text}", start)
    elif told.namespace != election.resource_namespace:
        mend = "only if that is not the scheduler you mean: give its configuration with --config"
        yield Finding("lease", "ok", text, mend)
    else:
        yield Finding("lease", "ok", text)


async def webhooks(context: CheckContext) -> AsyncIterator[Finding]:
    """Who is asked before pods are created and bound, and how long it takes."""
    slow = []
    for kind in ("mutating", "validating"):
        answer = await context.get(f"{_ADMISSION}/{kind}webhookconfigurations")
        if answer.status != 200:
            yield unseen(f"{kind} webhooks", answer)
            continue
        about = [
            (item["metadata"]["name"], hook)
            for item in answer.items
            for hook in item.get("webhooks") or ()
            if any(map(_concerns_pods, hook.get("rules") or ()))
        ]
        slow += [
            f"{name}/{hook.get('name')}"
            for name, hook in about
            if hook.get("failurePolicy", "Fail") == "Fail"
            and (hook.get("timeoutSeconds") or 10) >= _MAX_WAIT
        ]
        yield Finding(f"{kind} webhooks", "ok", f"{len(about)} are asked about pods")
    if slow:
        yield Finding(
            "webhook limits",
            "wrong",
            f"{first_names(slow, _NAMED)} may hold each write up for {_MAX_WAIT} s and fail it",
            "a shorter timeoutSeconds",
        )
    yield await _latency(context)


async def _latency(context: CheckContext) -> Finding:
    """What it takes to create a pod, of which nothing is kept."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "arranger-doctor-"},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }
    began = time.monotonic()
    path = "/api/v1/namespaces/default/pods"
    answer = await context.post(path, pod, {"dryRun": "All"})
    seconds = time.monotonic() - began
    if answer.status not in (200, 201):
        return unseen("time of a write", answer)
    text = f"{1000 * seconds:.0f} ms to create a pod (a dry run)"
    if seconds > _SLOW:
        mend = "see which webhook is slow: apiserver_admission_webhook_admission_duration_seconds"
        return Finding("time of a write", "wrong", text, mend)
    return Finding("time of a write", "ok", text)


async def quarantine(context: CheckContext) -> AsyncIterator[Finding]:
    """What a running scheduler has set aside, as its Events say."""
    query = {"fieldSelector": f"reason={QUARANTINED}", "limit": "500"}
    answer = await context.get("/apis/events.k8s.io/v1/events", query)
    if answer.status != 200:
        yield unseen("objects set aside", answer)
        return
    names = sorted({_regarding(each) for each in answer.items})
    if names:
        mend = "kubectl describe it: the Event says what cannot be read; else report the fault"
        yield Finding("objects set aside", "wrong", first_names(names, _NAMED), mend)
    else:
        yield Finding("objects set aside", "ok", "none, as far as Events tell")


def _group_and_resource(path: str) -> tuple[str, str]:
    resource, _, group = resource_name(path).partition(".")
    return group, resource


def _concerns_pods(rule: Object) -> bool:
    resources = set(rule.get("resources") or ())
    return bool(resources & {"*", "*/*", "pods", "pods/*", "pods/binding", "pods/status"})


def _regarding(event: Object) -> str:
    about = event.get("regarding") or {}
    space = f"{about.get('namespace')}/" if about.get("namespace") else ""
    return f"{about.get('kind')} {space}{about.get('name')}"
