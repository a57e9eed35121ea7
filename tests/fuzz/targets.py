"""What is fuzzed: every reader and decoder, each with texts to begin with, and whole objects.

A target takes bytes and raises nothing but what it says. Whatever else comes out is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from arranger.api.annotations import CARD_QUOTA
from arranger.api.parsing.duration import parse_duration
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.json_text import parse_json
from arranger.api.parsing.nesting import cut_deep_parts
from arranger.api.parsing.objects import decode_object
from arranger.api.parsing.scalars import parse_bool, parse_int
from arranger.api.parsing.timestamps import parse_time
from arranger.api.quantity import milli_value, parse_quantity, value
from arranger.api.resource_requests import pod_requests
from arranger.api.selectors import Selector, parse_int64
from arranger.api.settings.checkpoints import (
    checkpoint_time,
    checkpointed_at,
    eviction_deadline,
)
from arranger.api.settings.gang_membership import gang_membership
from arranger.api.settings.gang_settings import SETTINGS_ANNOTATIONS, pod_group_settings
from arranger.api.settings.queue_annotations import invalid_values, job_priority, parse_cards
from arranger.api.settings.run_time import run_time_limit
from arranger.api.types.core import LabelSelector, Node, Pod
from arranger.api.types.pod_groups import POD_GROUPS
from arranger.api.types.queue import Queue
from arranger.api.types.resource_claims import ResourceClaim
from arranger.controllers.vcjob.controlled_resources import ControlledResources
from arranger.kube.client.status import parse_status, retry_after
from arranger.kube.client.transport import Response
from arranger.kube.extenders import wire
from arranger.kube.lease import decode_lease
from arranger.kube.watch.decoder import Decoder
from arranger.kube.watch.protobuf_decoder import decoder_of
from arranger.kube.watch.raw_objects import RawObjectDecoder
from arranger.kube.writes.binding import bound_node
from arranger.kube.writes.protobuf import add_finalizer
from arranger.quota.queue_spec import read_queue
from tests.builders import a_pod, a_queue
from tests.fuzz.jobs import play_job, play_tyjob
from tests.fuzz.worlds import play

_TEXTS: Final = (
    *("", "1", "-1", "9223372036854775808", "100m", "1.5Gi", "1e1000000", ".5n", "1h30m", "90s"),
    *("true", "FALSE", "2026-01-31T12:00:00Z", "0001-01-01T00:00:00+14:00", '["a/b", "c/d"]'),
    *('{"NVIDIA-A100": 4}', "required=zone", "NonStrict", "0-3,7", "9" * 5000, "[" * 5000),
    '{"a": [{"b": "\\u0000\\ud800"}, 1e999, -0]}',
)


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that is fuzzed.

    Attributes:
        seeds: inputs that it takes.
        cost: so many inputs of another target take as long as one of its.
    """

    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    cost: int = 1


def _reader(read: Callable[[str], object]) -> Target:
    def run(data: bytes) -> None:
        refusal = ""
        try:
            read(data.decode("utf-8", "replace"))
        except ParseError as error:
            refusal = str(error)
        assert len(refusal) < 400, refusal
        assert not refusal or refusal.isprintable(), refusal

    return Target(run, tuple(text.encode() for text in _TEXTS))


def _decoder(
    decode: Callable[[bytes], object], *seeds: object, ours: type[Exception] = ParseError
) -> Target:
    def run(data: bytes) -> None:
        with suppress(ours):
            decode(data)

    texts = [seed if isinstance(seed, bytes) else json.dumps(seed).encode() for seed in seeds]
    return Target(run, (*texts, b"{}", b"[" * 3000, b'{"a":' * 3000))


def _pod_says(text: str) -> None:
    """The same text in every annotation that is read."""
    notes = dict.fromkeys((*SETTINGS_ANNOTATIONS, *_QUEUE_NOTES), text)
    pod = a_pod().annotated(notes).labelled(dict.fromkeys(notes, text)).build()
    gang_membership(pod)
    invalid_values(pod, ())
    run_time_limit(pod)
    checkpoint_time(pod), checkpointed_at(pod), eviction_deadline(pod)
    job_priority(pod.metadata)
    for kind in POD_GROUPS:
        problems: list[str] = []
        meta = {"name": "g", "annotations": notes}
        pod_group_settings(msgspec.convert({"metadata": meta}, kind), problems)
    read_queue(a_queue("q", capability={"cpu": text}, deserved={"memory": text}))


def _requests(text: str) -> None:
    pod_requests(a_pod().needs({"cpu": text, "memory": text}).sidecar(cpu=text).build())


def _remembered(text: str) -> None:
    ControlledResources.parse({"arranger.io/state": text})


def _selector(data: bytes) -> None:
    Selector(decode_object(data, LabelSelector)).matches({"app": "a", "number": "7"})


def _watch(decoder: Decoder[Any]) -> Target:
    name = decoder.kind.__name__
    metadata = {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "7"}
    whole = {"kind": name, "metadata": metadata, "spec": {}, "status": {}}
    page = {"metadata": {"resourceVersion": "7"}, "items": [whole, whole]}

    def decode(data: bytes) -> None:
        decoder.decode_event(data)
        decoder.decode_page(data)

    events = [{"type": event, "object": whole} for event in ("ADDED", "BOOKMARK", "ERROR")]
    return _decoder(decode, *events, page)


def _binary_watch(decoder: Decoder[Any]) -> Target:
    metadata = b"\x0a\x01a\x1a\x01b\x2a\x01c\x32\x017"
    unknown = b"k8s\0\x12" + bytes([len(metadata) + 2, 0x0A, len(metadata)]) + metadata
    event = b"\x0a\x05ADDED\x12" + bytes([len(unknown) + 2, 0x0A, len(unknown)]) + unknown

    def decode(data: bytes) -> None:
        for frame in (data, b"\n" + data):
            decoder.decode_event(frame)
        for page in (data, b"k8s\0" + data):
            with suppress(ParseError):
                decoder.decode_page(page)

    return _decoder(decode, event, unknown)


def _status(data: bytes) -> None:
    parse_status(data, 409)
    retry_after(Response(429, data, {"retry-after": data[:40].decode("latin-1")}))


_QUEUE_NOTES: Final = (
    *("scheduling.volcano.sh/queue-name", "volcano.sh/card.name", "volcano.sh/preemptable"),
    *("arranger.io/job-priority", "arranger.io/placement", "volcano.sh/service.type", CARD_QUOTA),
    "arranger.io/max-run-time",
    "arranger.io/checkpoint-before-eviction",
    "arranger.io/checkpointed-at",
    "arranger.io/eviction-deadline",
)
_EXTENDER: Final = {"nodenames": ["a"], "FailedNodes": {"b": "full"}, "Error": ""}

TARGETS: Final[dict[str, Target]] = {
    "integers": _reader(parse_int),
    "integers of selectors": _reader(parse_int64),
    "booleans": _reader(parse_bool),
    "durations": _reader(parse_duration),
    "times": _reader(parse_time),
    "JSON": _reader(parse_json),
    "cards": _reader(parse_cards),
    "quantities": _reader(value),
    "quantities in thousandths": _reader(milli_value),
    "exact quantities": _reader(parse_quantity),
    "requests": _reader(_requests),
    "annotations": _reader(_pod_says),
    "what a Job remembers": _reader(
        lambda text: ControlledResources.parse({"arranger.io/state": text})
    ),
    "selectors": _decoder(
        _selector,
        {
            "matchLabels": {"app": "a"},
            "matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}],
        },
    ),
    "deep JSON": _decoder(cut_deep_parts, {"a": [[[{"b": '\\"'}]]]}),
    "pods of a watch": _watch(Decoder(Pod)),
    "nodes of a watch": _watch(Decoder(Node)),
    "pods of a watch in binary": _binary_watch(decoder_of(Pod)),
    "nodes of a watch in binary": _binary_watch(decoder_of(Node)),
    "claims of a watch": _watch(Decoder(ResourceClaim)),
    "queues of a watch": _watch(Decoder(Queue)),
    "raw nodes of a watch": _watch(RawObjectDecoder()),
    "refusals": _decoder(_status, {"code": 409, "reason": "Conflict", "details": {"causes": [{}]}}),
    "leases": _decoder(decode_lease, {"metadata": {}, "spec": {"holderIdentity": "a"}}),
    "bound pods": _decoder(bound_node, {"metadata": {}, "spec": {"nodeName": "n"}}),
    "filtered nodes of extenders": _decoder(
        wire.decode_filter_result, _EXTENDER, ours=wire.ExtenderProtocolError
    ),
    "scores of extenders": _decoder(
        wire.decode_host_priorities, [{"Host": "a", "Score": 7}], ours=wire.ExtenderProtocolError
    ),
    "victims of extenders": _decoder(
        wire.decode_preemption_result,
        {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "a"}], "NumPDBViolations": 1}}},
        ours=wire.ExtenderProtocolError,
    ),
    "claims in binary": _decoder(
        lambda data: add_finalizer(data, "a/b"), b"k8s\x00\x12\x06\x0a\x04\x0a\x02c1"
    ),
    "Jobs": Target(play_job, (b"\0", bytes(range(256))), cost=3),
    "TYJobs": Target(play_tyjob, (b"\0", bytes(range(256))), cost=3),
    "whole objects": Target(play, (b"\0", bytes(range(256))), cost=20),
}
