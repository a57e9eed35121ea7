"""The JSON that extenders speak: ``k8s.io/kube-scheduler/extender/v1``, which has no field tags.

What we write has Go's field names. What we read may write them in any case, as Go reads them; many
extenders that are not written in Go use the lower-case names of before v1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from arranger.api.effects import Bind, NodeVictims
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object

#: Our highest score by that of extenders (``MaxExtenderPriority``): theirs are multiplied by it.
SCORE_SCALE: Final = 100 // 10

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


#: Commas in an answer: in any, and beyond that for each node or pod that was asked about.
_PARTS: Final = 10_000
_PARTS_OF_ONE: Final = 8
#: Node → victims, whose fields may be written in any case.
_MetaVictims: Final = dict[str, dict[str, Any] | None] | None


class ExtenderProtocolError(Exception):
    """The answer is not what the protocol says."""


class _Meta(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _NamedList(msgspec.Struct):
    items: list[_Named] | None = None


class _Pod(msgspec.Struct, forbid_unknown_fields=True):
    uid: str = msgspec.field(default="", name="UID")


class _Victims(msgspec.Struct, forbid_unknown_fields=True):
    pods: list[_Pod] = msgspec.field(default_factory=list, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _PreemptionResult(msgspec.Struct, forbid_unknown_fields=True):
    """``ExtenderPreemptionResult`` in Go's names, as nearly all extenders write it."""

    victims: dict[str, _Victims] | None = msgspec.field(default=None, name="NodeNameToMetaVictims")


class _OldPod(msgspec.Struct, forbid_unknown_fields=True):
    uid: str = ""


class _OldVictims(msgspec.Struct, forbid_unknown_fields=True):
    pods: list[_OldPod] = msgspec.field(default_factory=list)
    violations: int = msgspec.field(default=0, name="numPDBViolations")


class _OldPreemptionResult(msgspec.Struct, forbid_unknown_fields=True):
    """The same in the names of before v1."""

    victims: dict[str, _OldVictims] | None = msgspec.field(
        default=None, name="nodeNameToMetaVictims"
    )


_decoders: Final = [
    msgspec.json.Decoder[_PreemptionResult | _OldPreemptionResult](kind)
    for kind in (_PreemptionResult, _OldPreemptionResult)
]


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    """``ExtenderFilterResult``; None for what the answer leaves out."""

    nodes: list[str] | None = None
    node_names: list[str] | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


def encode_extender_args(
    pod: bytes, *, nodes: Sequence[bytes] | None = None, node_names: Sequence[str] | None = None
) -> bytes:
    """``ExtenderArgs``, with the nodes as JSON or by name."""
    listed = None
    if nodes is not None:
        listed = {"metadata": {}, "items": [msgspec.Raw(node) for node in nodes]}
    return _encode({"Pod": msgspec.Raw(pod), "Nodes": listed, "NodeNames": node_names})


def encode_preemption_args(
    pod: bytes, victims: Mapping[str, NodeVictims], pods: Mapping[str, bytes] | None = None
) -> bytes:
    """``ExtenderPreemptionArgs``; with ``pods`` (by uid) the victims are sent as JSON."""

    def victim(uid: str) -> object:
        return {"UID": uid} if pods is None else msgspec.Raw(pods[uid])

    by_node = {
        node: {"Pods": [victim(uid) for uid in v.uids], "NumPDBViolations": v.violations}
        for node, v in victims.items()
    }
    full, meta = (None, by_node) if pods is None else (by_node, None)
    return _encode(
        {"Pod": msgspec.Raw(pod), "NodeNameToVictims": full, "NodeNameToMetaVictims": meta}
    )


def encode_binding_args(bind: Bind) -> bytes:
    """``ExtenderBindingArgs``."""
    pod = {"PodName": bind.pod.name, "PodNamespace": bind.pod.namespace, "PodUID": bind.pod.uid}
    return _encode({**pod, "Node": bind.node})


def decode_filter_result(body: bytes) -> ExtenderFilterResult:
    """Read an ``ExtenderFilterResult``; raises ExtenderProtocolError."""
    fields = _lowercase_fields(body)
    nodes = _get(fields, "nodes", _NamedList | None)
    return ExtenderFilterResult(
        nodes=None if nodes is None else [item.metadata.name for item in nodes.items or []],
        node_names=_get(fields, "nodenames", list[str] | None),
        failed=_get(fields, "failednodes", dict[str, str] | None) or {},
        unresolvable=_get(fields, "failedandunresolvablenodes", dict[str, str] | None) or {},
        error=_get(fields, "error", str | None) or "",
    )


def decode_host_priorities(body: bytes) -> dict[str, int]:
    """Read a ``HostPriorityList``: node → score; raises ExtenderProtocolError."""
    scores: dict[str, int] = {}
    for entry in _decode(body, list[dict[str, Any] | None] | None) or []:
        host, score = _field(entry, "host", str, ""), _field(entry, "score", int, 0)
        scores[host] = scores.get(host, 0) + score
    return scores


def decode_preemption_result(body: bytes) -> dict[str, NodeVictims]:
    """Read an ``ExtenderPreemptionResult``; raises ExtenderProtocolError."""
    for decoder in _decoders:
        try:
            result = decoder.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        return {
            node: NodeVictims(tuple([pod.uid for pod in victims.pods]), victims.violations)
            for node, victims in (result.victims or {}).items()
        }
    answer, found = _lowercase_fields(body), dict[str, NodeVictims]()
    nodes = _get(answer, "nodenametometavictims", _MetaVictims) or {}
    for node, fields in nodes.items():
        pods = _field(fields, "pods", list, [])
        uids = tuple(_field(pod, "uid", str, "") for pod in pods)
        found[node] = NodeVictims(uids, _field(fields, "numpdbviolations", int, 0))
    return found


def decode_bounded(body: bytes, decode: Callable[[bytes], Any], asked: int) -> Any:
    """Decode an answer about so many nodes or pods, unless it is about far more than these.

    Else it would be read for so long that all others wait. Raises ExtenderProtocolError.
    """
    if (parts := body.count(b",")) > _PARTS_OF_ONE * asked + _PARTS:
        raise ExtenderProtocolError(f"it has {parts} parts, and was asked about {asked} things")
    return decode(body)


def decode_binding_error(body: bytes) -> str:
    """Read an ``ExtenderBindingResult``: "" if it is bound; raises ExtenderProtocolError."""
    return str(_get(_lowercase_fields(body), "error", str | None) or "")


def _lowercase_fields(raw: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        fields = decode_object(raw, dict[str, msgspec.Raw] | None) or {}
    except ParseError as error:
        raise ExtenderProtocolError(str(error)) from error
    return {name.lower(): value for name, value in fields.items()}


def _get(fields: dict[str, msgspec.Raw], name: str, kind: Any) -> Any:
    raw = fields.get(name)
    return None if raw is None else _decode(raw, kind)


def _field(fields: object, name: str, kind: type[T], default: T) -> T:
    """A field of what was decoded already, of which there may be tens of thousands.

    One that is null counts as left out, as in Go.
    """
    if fields is None:
        return default
    if not isinstance(fields, dict):
        raise ExtenderProtocolError(f"an object was expected that has {name}")
    value: object = None
    for key, each in fields.items():
        if key == name or key.lower() == name:
            value = each
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ExtenderProtocolError(f"{name} is no {kind.__name__}")
    return value


def _decode(raw: bytes | msgspec.Raw, kind: Any) -> Any:
    try:
        return decode_object(raw, kind)
    except ParseError as error:
        raise ExtenderProtocolError(str(error)) from error
