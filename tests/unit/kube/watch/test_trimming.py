"""What the scheduler keeps of an object's notes."""

from __future__ import annotations

import json
from typing import Any

from arranger.api.annotations import GANG_GROUPS, GANG_NAME, PLACEMENT
from arranger.api.types.core import Pod
from arranger.kube.watch.decoder import Decoder, WatchEvent
from arranger.kube.watch.trimming import MAX_KNOWN, MAX_OTHERS, trim


def seen(**metadata: Any) -> Pod:
    pod = {"metadata": {"name": "p", "namespace": "default", **metadata}}
    event = Decoder(Pod, trim).decode_event(json.dumps({"type": "ADDED", "object": pod}).encode())
    assert isinstance(event, WatchEvent)
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [pod]}).encode()
    _, (listed,), _ = Decoder(Pod, trim).decode_page(body)
    assert listed == event.object
    return listed


def test_what_we_know_and_what_is_short_stays() -> None:
    annotations = {GANG_NAME: "g", PLACEMENT: "x" * 1000, "lws.example.com/size": "8"}
    assert seen(annotations=annotations).metadata.annotations == annotations


def test_long_notes_of_others_go() -> None:
    notes = {"kubectl.kubernetes.io/last-applied-configuration": "{" * 240_000, GANG_NAME: "g"}
    assert seen(annotations=notes).metadata.annotations == {GANG_NAME: "g"}


def test_of_many_notes_of_others_some_stay() -> None:
    notes = {f"example.com/{n}": "x" for n in range(5000)}
    assert len(seen(annotations={**notes, GANG_NAME: "g"}).metadata.annotations) == MAX_OTHERS + 1


def test_what_is_longest_of_what_we_know_is_cut_where_there_is_too_much_of_it() -> None:
    """A gang's member stays one, whatever else it says."""
    notes = {GANG_GROUPS: "[" * 200_000, GANG_NAME: "g", PLACEMENT: "x" * 16_384}
    kept = seen(annotations=notes).metadata.annotations
    assert kept == {GANG_NAME: "g", PLACEMENT: "x" * (MAX_KNOWN - 1)}


def test_of_very_many_owners_the_first_and_the_controller_stay() -> None:
    owners = [{"kind": "Job", "name": f"o{n}", "uid": str(n)} for n in range(1000)]
    owners[500]["controller"] = True
    kept = [owner.name for owner in seen(ownerReferences=owners).metadata.owner_references]
    assert kept == [*(f"o{n}" for n in range(8)), "o500"]
