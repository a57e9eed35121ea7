"""The JSON that extenders speak: ``k8s.io/kube-scheduler/extender/v1``, which has no field tags.

What we write has Go's field names. What we read may write them in any case, as Go reads them; many
extenders that are not written in Go use the lower-case names of before v1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from arranger.api.effects import Bind, NodeVictims

#: The extenders' best score, and ours: theirs are scaled (``MaxExtenderPriority``).
SCALE: Final = 100 // 10

_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)


class BadAnswerError(Exception):
    """The answer is not what the protocol says."""


class _Meta(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _NamedList(msgspec.Struct):
    items: list[_Named] | None = None


@dataclass(frozen=True, slots=True)
class Filtered:
    """``ExtenderFilterResult``; None where it says nothing."""

    nodes: list[str] | None = None
    node_names: list[str] | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


# --- what we say ---------------------------------------------------------------------------


def extender_args(
    pod: bytes, *, nodes: Sequence[bytes] | None = None, node_names: Sequence[str] | None = None
) -> bytes:
    """``ExtenderArgs``, with the nodes whole or by name."""
    listed = None
    if nodes is not None:
        listed = {"metadata": {}, "items": [msgspec.Raw(node) for node in nodes]}
    return _encode({"Pod": msgspec.Raw(pod), "Nodes": listed, "NodeNames": node_names})


def preemption_args(
    pod: bytes, victims: Mapping[str, NodeVictims], pods: Mapping[str, bytes] | None = None
) -> bytes:
    """``ExtenderPreemptionArgs``; with ``pods`` (by uid) the victims are sent whole."""
    whole: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    if pods is None:
        meta = {
            node: {"Pods": [{"UID": uid} for uid in v.uids], "NumPDBViolations": v.violations}
            for node, v in victims.items()
        }
    else:
        whole = {
            node: {
                "Pods": [msgspec.Raw(pods[uid]) for uid in v.uids],
                "NumPDBViolations": v.violations,
            }
            for node, v in victims.items()
        }
    return _encode(
        {"Pod": msgspec.Raw(pod), "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta}
    )


def binding_args(bind: Bind) -> bytes:
    """``ExtenderBindingArgs``."""
    return _encode(
        {
            "PodName": bind.pod.name,
            "PodNamespace": bind.pod.namespace,
            "PodUID": bind.pod.uid,
            "Node": bind.node,
        }
    )


# --- what they answer ----------------------------------------------------------------------


def filtered(body: bytes) -> Filtered:
    """Read an ``ExtenderFilterResult``; raises BadAnswerError."""
    said = _read(body)
    nodes = _get(said, "nodes", _NamedList | None)
    return Filtered(
        nodes=None if nodes is None else [item.metadata.name for item in nodes.items or []],
        node_names=_get(said, "nodenames", list[str] | None),
        failed=_get(said, "failednodes", dict[str, str] | None) or {},
        unresolvable=_get(said, "failedandunresolvablenodes", dict[str, str] | None) or {},
        error=_get(said, "error", str | None) or "",
    )


def priorities(body: bytes) -> dict[str, int]:
    """Read a ``HostPriorityList``: node → score; raises BadAnswerError."""
    scores: dict[str, int] = {}
    for entry in _decode(body, list[msgspec.Raw] | None) or []:
        said = _read(entry)
        host = _get(said, "host", str, "")
        scores[host] = scores.get(host, 0) + _get(said, "score", int, 0)
    return scores


def victims(body: bytes) -> dict[str, NodeVictims]:
    """Read an ``ExtenderPreemptionResult``; raises BadAnswerError."""
    nodes = _get(_read(body), "nodenametometavictims", dict[str, msgspec.Raw] | None) or {}
    found: dict[str, NodeVictims] = {}
    for node, raw in nodes.items():
        said = _read(raw)
        pods = _get(said, "pods", list[msgspec.Raw] | None) or []
        uids = tuple(_get(_read(pod), "uid", str, "") for pod in pods)
        found[node] = NodeVictims(uids, _get(said, "numpdbviolations", int, 0))
    return found


def binding_error(body: bytes) -> str:
    """Read an ``ExtenderBindingResult``: "" if it is bound; raises BadAnswerError."""
    return str(_get(_read(body), "error", str | None) or "")


def _read(raw: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The fields of an object, by their names in lower case."""
    try:
        return {name.lower(): value for name, value in (_fields.decode(raw) or {}).items()}
    except msgspec.DecodeError as error:
        raise BadAnswerError(str(error)) from error


def _get(said: dict[str, msgspec.Raw], name: str, kind: Any, default: Any = None) -> Any:
    raw = said.get(name)
    return default if raw is None else _decode(raw, kind)


def _decode(raw: bytes | msgspec.Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        raise BadAnswerError(str(error)) from error
