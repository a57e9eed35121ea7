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
    source = "source=arranger.io/scheduler"
    assert await api.names(old, fieldSelector=source) == ["e-db", "e-web"]


# sentence: path, selector
FOREIGN = {
    "the core group by the newer name": ("/api/v1/namespaces/{}/events", "regarding.name=web"),
    "the newer group by the older name": (EVENTS, "involvedObject.name=web"),
    "the core group by what neither has": ("/api/v1/namespaces/{}/events", "action=Binding"),
}


@pytest.mark.parametrize(("path", "selector"), FOREIGN.values(), ids=FOREIGN)
async def test_events_are_not_selected_by(api: Api, ns: str, path: str, selector: str) -> None:
    answer = await api.call("GET", path.format(ns), query={"fieldSelector": selector})
    assert answer.refusal == (400, "BadRequest")


async def test_both_groups_watch_the_same_event(api: Api, ns: str) -> None:
    old = f"/api/v1/namespaces/{ns}/events"
    version = (await api.get(old))["metadata"]["resourceVersion"]
    made = await api.create(EVENTS.format(ns), an_event("e", ns))
    assert (await api.get(old))["items"][0]["message"] == made["note"]
    async with api.watch(old, resourceVersion=version) as watch:
        kind, event = await watch.next()
        assert (kind, event["kind"], event["apiVersion"]) == ("ADDED", "Event", "v1")
        assert event["involvedObject"] == made["regarding"]
        await api.patch(f"{old}/e", {"message": "changed", "count": 2})
        kind, event = await watch.next()
        assert (kind, event["message"], event["count"]) == ("MODIFIED", "changed", 2)
    seen = await api.get(f"{EVENTS.format(ns)}/e")
    assert (seen["note"], seen["deprecatedCount"]) == ("changed", 2)
    await api.delete(f"{old}/e")
    assert await api.names(EVENTS.format(ns)) == []


def an_old_event(name: str, namespace: str, **fields: object) -> Object:
    """An event as older programs write it, kopf for one."""
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": namespace},
        "reason": "Started",
        "message": "It runs",
        "type": "Normal",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        **fields,
    }


async def test_an_event_of_the_older_form_is_shown_in_the_newer(api: Api, ns: str) -> None:
    sent = an_old_event("e", ns)
    made = await api.create(f"/api/v1/namespaces/{ns}/events", sent)
    assert {k: made[k] for k in sent if k != "metadata"} == {
        k: v for k, v in sent.items() if k != "metadata"
    }
    seen = await api.get(f"{EVENTS.format(ns)}/e")
    assert (seen["note"], seen["regarding"]) == (sent["message"], sent["involvedObject"])
    assert seen["deprecatedSource"] == sent["source"]
    assert seen["deprecatedFirstTimestamp"] == sent["firstTimestamp"]


# sentence: fields, causes; {} in a namespace is the test's own
OLD: dict[str, tuple[Object, list[tuple[str, str]]]] = {
    "a type of its own": ({"type": "Odd"}, []),
    "a long message": ({"message": "x" * 1100}, []),
    "another namespace": (
        {"involvedObject": {"namespace": "default"}},
        [("FieldValueInvalid", "involvedObject.namespace")],
    ),
    "no namespace": (
        {"involvedObject": {}},
        [("FieldValueInvalid", "involvedObject.namespace")],
    ),
    "a time and nothing that belongs to it": (
        {"eventTime": "2026-01-01T00:00:00.000001Z", "reportingComponent": "a.io/b"},
        [("FieldValueRequired", "reportingInstance"), ("FieldValueRequired", "action")],
    ),
}


@pytest.mark.parametrize(("fields", "causes"), OLD.values(), ids=OLD)
async def test_the_older_form_is_held_to_less(
    api: Api, ns: str, fields: Object, causes: list[tuple[str, str]]
) -> None:
    path = f"/api/v1/namespaces/{ns}/events"
    answer = await api.call("POST", path, an_old_event("e", ns, **fields))
    if causes:
        assert (answer.refusal, answer.causes) == ((422, "Invalid"), causes)
    else:
        assert answer.status == 201
