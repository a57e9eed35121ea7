"""Manifests for an embedded cluster: read from files, and created in the order they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.errors import ApiError
from arranger.embedded.server import EmbeddedCluster

Object = dict[str, Any]

#: Kinds that others refer to are created first, in this order.
_CREATION_ORDER: Final = ("CustomResourceDefinition", "Namespace", "PriorityClass", "Node")


class ManifestError(ValueError):
    """A manifest cannot be used; the message gives file and document."""


def read_manifests(paths: Sequence[Path]) -> list[tuple[str, Object]]:
    """Every object of the files and of the folders' YAML and JSON files, with where it stands.

    Raises:
        ManifestError: a file cannot be read, or holds something that is no object.
    """
    found: list[tuple[str, Object]] = []
    for path in _files(paths):
        try:
            documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ManifestError(f"{path}: {error}") from error
        for n, document in enumerate(documents, start=1):
            if document is not None:
                found += _objects(document, f"{path}, document {n}")
    return sorted(found, key=lambda entry: _rank(entry[1]))


def load_manifests(cluster: EmbeddedCluster, manifests: Iterable[tuple[str, Object]]) -> None:
    """Create every object, the namespaces they name, and the definitions that we ship.

    Raises:
        ManifestError: the server refuses one.
    """
    manifests = list(manifests)
    given = {
        manifest["metadata"].get("name") for _, manifest in manifests if _is_definition(manifest)
    }
    for definition in bundled_crds():
        if definition["metadata"]["name"] not in given:
            cluster.create(definition)
    for where, manifest in manifests:
        _create(cluster, where, manifest)


def _is_definition(manifest: Object) -> bool:
    return manifest["kind"] == "CustomResourceDefinition" and "metadata" in manifest


def _create(cluster: EmbeddedCluster, where: str, manifest: Object) -> None:
    namespace = (manifest.get("metadata") or {}).get("namespace")
    known = {ns["metadata"]["name"] for ns in cluster.objects("namespaces")}
    if namespace and namespace not in known and manifest["kind"] != "Namespace":
        head = {"apiVersion": "v1", "kind": "Namespace"}
        cluster.create({**head, "metadata": {"name": namespace}})
    try:
        cluster.create(manifest)
    except ApiError as error:
        raise ManifestError(f"{where}: {error.message}") from error


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml", ".json"))
        else:
            yield path


def _objects(document: object, where: str) -> list[tuple[str, Object]]:
    if not isinstance(document, Mapping) or "kind" not in document:
        raise ManifestError(f"{where}: not a Kubernetes object: it has no kind")
    if document["kind"] == "SchedulerConfiguration":
        raise ManifestError(f"{where}: the scheduler's configuration is given with --config")
    if str(document["kind"]).endswith("List"):
        items = document.get("items") or []
        return [pair for n, item in enumerate(items) for pair in _objects(item, f"{where}[{n}]")]
    return [(where, dict(document))]


def _rank(manifest: Object) -> int:
    kind = manifest["kind"]
    return _CREATION_ORDER.index(kind) if kind in _CREATION_ORDER else len(_CREATION_ORDER)
