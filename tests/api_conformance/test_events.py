"""events.k8s.io: what an event must say, how it becomes a series, how the old group shows it."""

from __future__ import annotations

import pytest

from tests.api_conformance.client import MERGE_PATCH, STRATEGIC_PATCH, Api, Object
from tests.api_conformance.objects import EVENTS, an_event

LONGEST = 1024


async def test_an_event_is_kept_as_it_was_sent(api: Api, ns: str) -> None:
    sent = an_event("e", ns)
    made = await api.create(EVENTS.format(ns), sent)
    assert {key: made[key] for key in sent if key != "metadata"} == {
        key: value for key, value in sent.items() if key != "metadata"
    }


async def test_the_longest_note_is_accepted(api: Api, ns: str) -> None:
    made = await api.create(EVENTS.format(ns), an_event("e", ns, note="x" * LONGEST))
    assert len(made["note"]) == LONGEST


REFUSED: dict[str, tuple[Object, tuple[str, str]]] = {
    "a note too long": ({"note": "x" * (LONGEST + 1)}, ("FieldValueInvalid", "message")),
    "no action": ({"action": ""}, ("FieldValueRequired", "action")),
    "no reason": ({"reason": ""}, ("FieldValueRequired", "reason")),
    "no time": ({"eventTime": None}, ("FieldValueRequired", "eventTime")),
    "no controller": (
        {"reportingController": ""},
        ("FieldValueRequired", "reportingController"),
    ),
    "no instance": ({"reportingInstance": ""}, ("FieldValueRequired", "reportingInstance")),
    "a type of its own": ({"type": "Odd"}, ("FieldValueInvalid", "type")),
}


@pytest.mark.parametrize(("fields", "cause"), REFUSED.values(), ids=REFUSED)
async def test_refused(api: Api, ns: str, fields: Object, cause: tuple[str, str]) -> None:
    answer = await api.call("POST", EVENTS.format(ns), an_event("e", ns, **fields))
    assert answer.refusal == (422, "Invalid")
    assert cause in answer.causes


async def test_an_event_becomes_a_series_and_counts_on(api: Api, ns: str) -> None:
    path = EVENTS.format(ns)
    await api.create(path, an_event("e", ns))
    for count in (2, 3):
        series = {"count": count, "lastObservedTime": f"2026-01-01T00:0{count}:00.000000Z"}
        after = await api.patch(f"{path}/e", {"series": series}, STRATEGIC_PATCH)
        assert after["series"] == series


PATCHES: dict[str, tuple[Object, tuple[str, str]]] = {
    "a series of one": (
        {"series": {"count": 1, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}},
        ("FieldValueInvalid", "series.count"),
    ),
    "another note": ({"note": "changed"}, ("FieldValueInvalid", "message")),
    "another reason": ({"reason": "Changed"}, ("FieldValueInvalid", "reason")),
}


@pytest.mark.parametrize(("body", "cause"), PATCHES.values(), ids=PATCHES)
async def test_refused_patch(api: Api, ns: str, body: Object, cause: tuple[str, str]) -> None:
    path = EVENTS.format(ns)
    await api.create(path, an_event("e", ns))
    answer = await api.call("PATCH", f"{path}/e", body, content_type=MERGE_PATCH)
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == [cause]


async def test_the_core_group_shows_the_same_event_in_its_words(api: Api, ns: str) -> None:
    made = await api.create(EVENTS.format(ns), an_event("e", ns))
    old = await api.get(f"/api/v1/namespaces/{ns}/events/e")
    assert (old["apiVersion"], old["kind"]) == ("v1", "Event")
    assert old["metadata"]["uid"] == made["metadata"]["uid"]
    assert old["involvedObject"] == made["regarding"]
    assert old["message"] == made["note"]
    assert old["reportingComponent"] == made["reportingController"]
    assert old["reportingInstance"] == made["reportingInstance"]
    assert (old["reason"], old["type"]) == (made["reason"], made["type"])


async def test_events_are_selected_by_what_they_are_about(api: Api, ns: str) -> None:
    path = EVENTS.format(ns)
    for name in ("web", "db"):
        regarding = {"kind": "Pod", "namespace": ns, "name": name}
        await api.create(path, an_event(f"e-{name}", ns, regarding=regarding))
    old = f"/api/v1/namespaces/{ns}/events"
    selector = f"involvedObject.name=db,involvedObject.namespace={ns},involvedObject.kind=Pod"
    assert await api.names(old, fieldSelector=selector) == ["e-db"]
    assert await api.names(path, fieldSelector="regarding.name=web") == ["e-web"]
    assert await api.names(path, fieldSelector="reason=Other") == []
