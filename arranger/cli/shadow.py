"""What the commands that ask the shadow have in common: their objects, and the changes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from arranger.api.parsing.objects import decode_object
from arranger.api.types.core import Node
from arranger.cli.simulation.expansion import expand
from arranger.cli.simulation.manifests import ManifestError, read_manifests
from arranger.daemon.config.schema import Config, ConfigError
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.kubeconfig import KubeconfigError, load_api_server_config
from arranger.kube.client.transport import Request, Transport, TransportError
from arranger.shadow.forecasts import changes
from arranger.shadow.forecasts.added_nodes import add_nodes
from arranger.shadow.forecasts.changes import ChangeError, ClusterChange, MalformedChangeError
from arranger.shadow.inputs.listing import list_objects
from arranger.shadow.inputs.objects import CLUSTER_WIDE, ClusterObjects, ObjectError
from arranger.shadow.inputs.usage import recorded_usage, usage_in
from arranger.shadow.shadow import Shadow

#: What ends a command in one line: it is about files, the cluster, or what was asked.
SHADOW_ERRORS: Final = (
    ChangeError,
    ConfigError,
    KubeconfigError,
    LookupError,
    ManifestError,
    ObjectError,
    OSError,
    TransportError,
)
#: The namespaces of every cluster.
_NAMESPACES: Final = frozenset(("default", "kube-system", "kube-public", "kube-node-lease"))
#: What manifests are made in: raw, since the scheduler reads less of them.
_SURROUNDINGS: Final = (
    "/api/v1/namespaces",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
)
_TEMPLATE: Final = "ResourceClaimTemplate"


@dataclass(frozen=True, slots=True)
class Source:
    """What there is.

    Attributes:
        shadow: what there is, as the scheduler reads it.
        surroundings: namespaces, PriorityClasses and ResourceClaimTemplates, as manifests; only
            where they are needed.
    """

    shadow: Shadow
    surroundings: Sequence[dict[str, Any]]


def from_files(paths: Sequence[Path], config: Config) -> Source:
    """API objects of files, such as ``kubectl get … -o yaml`` prints them.

    Raises:
        ManifestError: a file cannot be read, or holds something that is no object.
        ObjectError: a field has the wrong type.
    """
    manifests = [manifest for _, manifest in read_manifests(paths)]
    kinds = ("Namespace", "PriorityClass", _TEMPLATE)
    around = [each for each in manifests if each["kind"] in kinds]
    shadow = Shadow.from_manifests(manifests, config)
    usage, problem = usage_in(manifests, config)
    shadow.objects.unread += [problem] if problem else []
    shadow.follow_usage(usage)
    return Source(shadow, around)


async def from_cluster(
    kubeconfig: Path | None, context: str | None, config: Config, *, surroundings: bool
) -> Source:
    """A cluster, with the rights of whoever asks.

    Raises:
        KubeconfigError: there is no usable kubeconfig.
        UnreadableError: pods or nodes may not be listed.
        TransportError: there was no answer.
    """
    transport = HttpTransport(await load_api_server_config(kubeconfig, context))
    try:
        objects = await list_objects(transport, config)
        around = await read_surroundings(transport) if surroundings else []
        usage, problem = await recorded_usage(transport, config)
        objects.unread += [problem] if problem else []
        shadow = Shadow.of(objects, config)
        shadow.follow_usage(usage)
        return Source(shadow, around)
    finally:
        await transport.close()


async def read_surroundings(transport: Transport) -> list[dict[str, Any]]:
    """See :class:`Source`; those that may not be listed are left out.

    Raises:
        TransportError: there was no answer.
    """
    around: list[dict[str, Any]] = []
    for path in _SURROUNDINGS:
        answer = await transport.send(Request("GET", path))
        if answer.status == 200:
            listed = decode_object(answer.body)
            head = {
                "apiVersion": listed["apiVersion"],
                "kind": str(listed["kind"]).removesuffix("List"),
            }
            around += [{**head, **item} for item in listed["items"]]
    return around


def read_copies(source: Source, namespace: str, files: Sequence[Path]) -> list[dict[str, Any]]:
    """The objects of files, and what controllers would make of them: DaemonSets a pod a node.

    Raises:
        ManifestError: a file cannot be used.
        ChangeError: there is no such namespace, as far as can be seen.
    """
    manifests = read_manifests(files)
    known = {each["metadata"].get("name") for each in source.surroundings if _is_namespace(each)}
    made = {each["metadata"].get("name") for _, each in manifests if _is_namespace(each)}
    for _, manifest in manifests:
        if manifest["kind"] in CLUSTER_WIDE:
            continue
        given = manifest["metadata"].get("namespace")
        if not given or not isinstance(given, str):
            manifest["metadata"]["namespace"] = namespace
        wanted = manifest["metadata"]["namespace"]
        if known and wanted not in known | made | _NAMESPACES:
            raise ChangeError(f"there is no namespace {wanted}")
    around = [each for each in source.surroundings if each["kind"] != _TEMPLATE]
    if any(manifest["kind"] == "DaemonSet" for _, manifest in manifests):
        given = {each["metadata"].get("name") for _, each in manifests if each["kind"] == "Node"}
        around += _nodes(source.shadow.objects, given)
    expanded = expand(manifests, around, source.shadow.config)
    return [*_templates(expanded, source.surroundings), *expanded]


def _templates(
    made: Sequence[dict[str, Any]], around: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The templates that pods name for their claims and that do not come with them."""
    own = {_place(each) for each in made if each["kind"] == _TEMPLATE}
    named = {
        (str(each["metadata"].get("namespace")), str(use.get("resourceClaimTemplateName")))
        for each in made
        if each["kind"] == "Pod"
        for use in each["spec"].get("resourceClaims") or ()
        if isinstance(use, dict)
    } - own
    return [each for each in around if each["kind"] == _TEMPLATE and _place(each) in named]


def _place(manifest: Mapping[str, Any]) -> tuple[str, str]:
    meta = manifest["metadata"]
    return str(meta.get("namespace") or "default"), str(meta.get("name"))


def _nodes(objects: ClusterObjects, without: Collection[object]) -> list[dict[str, Any]]:
    """What a DaemonSet looks at of the nodes, as manifests."""
    nodes = objects.all_of(Node)  # at once: the cluster may change meanwhile
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": each.metadata.name, "labels": each.metadata.labels},
            "spec": msgspec.to_builtins(each.spec),
        }
        for each in nodes
        if each.metadata.name not in without
    ]


def _is_namespace(manifest: Mapping[str, Any]) -> bool:
    return str(manifest["kind"]) == "Namespace"


def read_changes(
    source: Source,
    namespace: str,
    files: Sequence[Path],
    deleted: Sequence[str],
    cordoned: Sequence[str],
    added: Sequence[str],
    queues: Sequence[str],
) -> list[ClusterChange]:
    """The changes that the options of ``arranger whatif`` name.

    Raises:
        ChangeError: one cannot be read.
        ManifestError: a file cannot be used.
    """
    found = named_changes(namespace, deleted, cordoned, added, queues)
    if not files:
        return found
    made = read_copies(source, namespace, files)
    names = ", ".join(str(path) for path in files)
    return [changes.create(made, f"with {names}"), *found]


def named_changes(
    namespace: str,
    deleted: Sequence[str],
    cordoned: Sequence[str],
    added: Sequence[str],
    queues: Sequence[str],
) -> list[ClusterChange]:
    """The changes that need no files; whether they apply is seen when they are made.

    Raises:
        MalformedChangeError: one cannot be read.
    """
    found = []
    for each in deleted:
        kind, _, name = each.partition("/")
        if not kind or not all(name.split("/")):
            raise MalformedChangeError(f"--delete {each}: not KIND/NAME")
        found.append(changes.delete(kind, name if "/" in name else f"{namespace}/{name}"))
    found += [changes.cordon(name) for name in cordoned]
    for each in added:
        if (match := re.fullmatch(r"(\d{1,6})x(.+)", each)) is None:
            raise MalformedChangeError(f"--add-nodes {each}: not NxNODE, such as 4xgpu-1")
        found.append(add_nodes(int(match[1]), match[2]))
    for each in queues:
        if (match := re.fullmatch(r"([^=]+)\.([a-z]+)=([^=]+)=([^=]+)", each)) is None:
            raise MalformedChangeError(f"--queue {each}: not QUEUE.FIELD=RESOURCE=AMOUNT")
        found.append(changes.set_queue(match[1], match[2], match[3], match[4]))
    return found
