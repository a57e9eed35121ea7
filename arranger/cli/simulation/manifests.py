"""Manifests for an embedded cluster: read from files, and created in the order they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec

from arranger.api.printable import one_line
from arranger.cli.simulation.asked import asked_by, pod_specs
from arranger.embedded import Object
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.errors import MALFORMED, ApiError
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.workloads.controllers import WORKLOAD_KINDS
from arranger.embedded.workloads.cron_job import job_of
from arranger.embedded.workloads.plan import pod_of
from arranger.embedded.workloads.validation import check_workload
from arranger.files.content import read_text
from arranger.files.limits import FileError
from arranger.files.yaml_text import documents
from arranger.kube.client.transport import Request

#: Kinds that others refer to are created first, in this order.
_CREATION_ORDER: Final = ("CustomResourceDefinition", "Namespace", "PriorityClass", "Node")
_WORKLOAD_VERSIONS: Final = ("v1", "apps/v1", "batch/v1")
_SERVERS_METADATA: Final = ("resourceVersion", "uid", "ownerReferences", "managedFields")
#: Kind → what its status says of times that mean nothing by the clock of a simulation.
_BEGUN: Final = {
    "CronJob": ("active", "lastScheduleTime", "lastSuccessfulTime"),
    "Job": ("startTime",),
}
#: Pods that all workloads together may ask for; a simulation of more would not end.
_MAX_PODS: Final = 500_000


class ManifestError(ValueError):
    """A manifest cannot be used; the message gives file and document."""


def read_manifests(paths: Sequence[Path]) -> list[tuple[str, Object]]:
    """Every object of the files and of the folders' YAML and JSON files, with where it stands.

    Raises:
        ManifestError: a file cannot be read, or holds something that is no object.
    """
    found: list[tuple[str, Object]] = []
    for path in _files(paths):
        for n, document in enumerate(_documents(path), start=1):
            if document is not None:
                found += _objects(document, f"{path}, document {n}")
    return sorted(found, key=lambda entry: _rank(entry[1]))


def introductions(folder: Path) -> Iterator[tuple[str, str]]:
    """The name of each file of a folder, and what the comment at its head says it is about."""
    for path in _files([folder]):
        lines = takewhile(lambda line: line.startswith("#"), read_text(path).splitlines())
        yield path.stem, " ".join(line.strip("# ") for line in lines)


def load_manifests(
    cluster: EmbeddedCluster,
    manifests: Iterable[tuple[str, Object]],
    *,
    scheduler: str | None = None,
) -> list[str]:
    """Create every object, the namespaces they name, and the definitions that we ship.

    Args:
        scheduler: who is to place every pod; None leaves it to what the manifests say.

    Returns:
        what means nothing here, a line for each kind.

    Raises:
        ManifestError: the server refuses one.
    """
    manifests = list(manifests)
    load_definitions(cluster, manifests)
    return load_objects(cluster, manifests, scheduler=scheduler)


def load_definitions(cluster: EmbeddedCluster, manifests: Iterable[tuple[str, Object]]) -> None:
    """Create the definitions that we ship, but those that the manifests bring themselves."""
    given = {
        manifest["metadata"].get("name") for _, manifest in manifests if _is_definition(manifest)
    }
    for definition in bundled_crds():
        if definition["metadata"]["name"] not in given:
            cluster.create(definition)


def load_objects(
    cluster: EmbeddedCluster,
    manifests: Iterable[tuple[str, Object]],
    *,
    scheduler: str | None = None,
) -> list[str]:
    """The same as :func:`load_manifests`, with the definitions there already."""
    ignored: Counter[tuple[str, str]] = Counter()
    asked = 0
    for where, manifest in manifests:
        kind, version = manifest["kind"], manifest.get("apiVersion", "")
        if cluster.registry.by_kind(version, kind) is None:
            ignored[kind, version] += 1
            continue
        asked += asked_by(manifest)
        if asked > _MAX_PODS:
            raise ManifestError(f"{where}: more than {_MAX_PODS} pods are asked for by now")
        if scheduler is not None:
            _give_to(scheduler, manifest)
        own = {**_not_begun(manifest), "metadata": _own_metadata(manifest["metadata"])}
        _create(cluster, where, own)
    return [
        f"{count} {kind} of {version or 'no apiVersion'}, which is not served here"
        for (kind, version), count in sorted(ignored.items())
    ]


def _is_definition(manifest: Object) -> bool:
    return manifest["kind"] == "CustomResourceDefinition" and "metadata" in manifest


def _own_metadata(meta: Object) -> Object:
    """Metadata without what another server has added, so that ``kubectl get -o yaml`` is a source.

    Owners are left out too: their uids are of that server, and here they would be gone.
    """
    return {key: value for key, value in meta.items() if key not in _SERVERS_METADATA}


def _not_begun(manifest: Object) -> Object:
    """A manifest without the times at which another clock has begun it.

    A CronJob that was last started in our future would wait for it; a Job that is over stays so.
    """
    status = manifest.get("status")
    if manifest["kind"] not in _BEGUN or not isinstance(status, dict):
        return manifest
    dated = _BEGUN[manifest["kind"]]
    return {**manifest, "status": {key: it for key, it in status.items() if key not in dated}}


def _give_to(scheduler: str, manifest: Object) -> None:
    """Have a scheduler place the pods of a manifest; a Volcano Job names one itself too."""
    for spec in pod_specs(manifest):
        spec["schedulerName"] = scheduler
    job = manifest.get("spec")
    if isinstance(job, dict) and "tasks" in job:
        job["schedulerName"] = scheduler


def _job_of(where: str, cron_job: Object) -> Object:
    """The Job that a CronJob would start."""
    template = (cron_job.get("spec") or {}).get("jobTemplate")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise ManifestError(f"{where}: spec.jobTemplate: Required value")
    job = job_of(cron_job, cron_job["metadata"]["name"])
    job["metadata"]["uid"] = cron_job["metadata"]["uid"]
    return job


def _create(cluster: EmbeddedCluster, where: str, manifest: Object) -> None:
    namespace, kind = manifest["metadata"].get("namespace"), manifest["kind"]
    known = {ns["metadata"]["name"] for ns in cluster.objects("namespaces")}
    if kind == "Namespace" and manifest["metadata"].get("name") in known:
        return
    try:
        if isinstance(namespace, str) and namespace not in known and kind != "Namespace":
            head = {"apiVersion": "v1", "kind": "Namespace"}
            cluster.create({**head, "metadata": {"name": namespace}})
        created = cluster.create(manifest)
        if kind in WORKLOAD_KINDS and created["apiVersion"] in _WORKLOAD_VERSIONS:
            _check_workload(cluster, where, created)
    except ApiError as error:
        raise ManifestError(f"{where}: {one_line(error.message)}") from error
    except MALFORMED as error:
        what = f"{kind} {manifest['metadata'].get('name', '')}".strip()
        why = f"{type(error).__name__}: {one_line(str(error))}"
        raise ManifestError(f"{where}: {what} is malformed ({why})") from error


def _check_workload(cluster: EmbeddedCluster, where: str, created: Object) -> None:
    """Look at a workload, and have the server look at the pod that its controller would make.

    Raises:
        ApiError: one of them would be refused.
    """
    workload = _job_of(where, created) if created["kind"] == "CronJob" else created
    check_workload(workload)
    pod = pod_of(workload)
    path = f"/api/v1/namespaces/{workload['metadata']['namespace']}/pods"
    body = msgspec.json.encode(pod)
    answer = cluster.handle(Request("POST", path, {"dryRun": "All"}, body))
    if answer.status >= 300 and isinstance(answer.body, dict):
        raise ApiError(answer.status, "", f"spec.template: {answer.body['message']}")


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml", ".json"))
        else:
            yield path


def _documents(path: Path) -> Iterator[object]:
    """The documents of a file, each as JSON would have it."""
    n = 0
    try:
        text = read_text(path)
    except FileError as error:
        raise ManifestError(f"{path}: {error}") from error
    try:
        for _, document in documents(text):
            yield msgspec.json.decode(msgspec.json.encode(document))
            n += 1
    except RecursionError as error:
        raise ManifestError(f"{path}, document {n + 1}: nested too deeply") from error
    except (ArithmeticError, TypeError, ValueError) as error:
        why = one_line(str(error)) or type(error).__name__
        if isinstance(error, FileError) and error.line is not None:
            why = f"{why}, in line {error.line}, column {error.column}"
        raise ManifestError(f"{path}, document {n + 1}: {why}") from error


def _objects(document: object, where: str) -> list[tuple[str, Object]]:
    if not isinstance(document, Mapping) or not isinstance(document.get("kind"), str):
        raise ManifestError(f"{where}: not a Kubernetes object: it has no kind")
    if document["kind"] == "SchedulerConfiguration":
        raise ManifestError(f"{where}: the scheduler's configuration is given with --config")
    if document["kind"].endswith("List") and "items" in document:
        items = document["items"] or []
        if not isinstance(items, list):
            raise ManifestError(f"{where}: items: not a list")
        return [pair for n, item in enumerate(items) for pair in _objects(item, f"{where}[{n}]")]
    for field, kind, name in (("metadata", dict, "map"), ("apiVersion", str, "string")):
        if not isinstance(document.get(field), kind):
            raise ManifestError(f"{where}: {document['kind']}: {field}: not a {name}")
    return [(where, dict(document))]


def _rank(manifest: Object) -> int:
    kind = manifest["kind"]
    return _CREATION_ORDER.index(kind) if kind in _CREATION_ORDER else len(_CREATION_ORDER)
