"""The definitions we ship, held against both servers: what they take, keep, print and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_conformance.client import TABLE, Api, Object
from tests.api_conformance.objects import CRDS, crd_path
from tests.project.crds.refusals import REFUSED, UNRULY, UNSEEN, Refusal
from tests.project.crds.samples import SAMPLES, Sample, definitions, expected_spec

DEFINITIONS = definitions()


@pytest.mark.parametrize("name", DEFINITIONS)
async def test_a_definition_has_no_fault(served: Api, name: str) -> None:
    definition = await served.get(f"{CRDS}/{name}")
    conditions = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions
    assert conditions.get("KubernetesAPIApprovalPolicyConformant", "True") == "True"


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
async def test_a_good_object_is_kept_whole_and_completed(
    served: Api, ns: str, sample: Sample
) -> None:
    made = await served.create(crd_path(sample.crd, ns), sample.manifest(name=ns))
    assert made["spec"] == expected_spec(sample)


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
async def test_what_our_writers_write_is_kept_and_printed(
    served: Api, ns: str, sample: Sample
) -> None:
    path = crd_path(sample.crd, ns)
    await served.create(path, sample.manifest(name=ns))
    after = await served.patch(f"{path}/{ns}/status", {"status": sample.status})
    assert after["status"] == sample.status
    answer = await served.call("GET", f"{path}/{ns}", accept=TABLE)
    columns = [column["name"] for column in answer.body["columnDefinitions"]]
    (row,) = answer.body["rows"]
    shown = DEFINITIONS[sample.crd]["spec"]["versions"][0]["additionalPrinterColumns"]
    assert columns == ["Name", *(column["name"] for column in shown)]
    assert row["cells"][:-1] == [ns, *sample.cells]


@pytest.mark.parametrize("refusal", (REFUSED | UNRULY).values(), ids=REFUSED | UNRULY)
async def test_a_bad_object_is_refused_where_it_is_bad(
    served: Api, ns: str, refusal: Refusal
) -> None:
    manifest = refusal.manifest()
    answer = await served.call("POST", crd_path(SAMPLES[refusal.sample].crd, ns), manifest)
    assert answer.refusal == (422, "Invalid")
    assert refusal.cause in answer.causes
    assert refusal.cause[1] in answer.body["message"]


@pytest.mark.parametrize("refusal", UNSEEN.values(), ids=UNSEEN)
async def test_what_jsonschema_does_not_see_is_refused_too(
    served: Api, ns: str, refusal: Refusal
) -> None:
    await test_a_bad_object_is_refused_where_it_is_bad(served, ns, refusal)


# sentence: sample, what is wrong with its status, the cause
BAD_STATUS: dict[str, tuple[str, Object, tuple[str, str]]] = {
    "a phase nobody knows": (
        "the community's PodGroup",
        {"phase": "Odd"},
        ("FieldValueNotSupported", "status.phase"),
    ),
    "a gang with fewer members than none": (
        "a gang with bundles",
        {"members": -1},
        ("FieldValueInvalid", "status.members"),
    ),
    "a queue that is ajar": (
        "a queue",
        {"state": "Ajar"},
        ("FieldValueNotSupported", "status.state"),
    ),
    "a pod that was given no node": (
        "a TYJob that says all",
        {"allocations": [{"pod": "p"}]},
        ("FieldValueRequired", "status.allocations[0].node"),
    ),
    "a condition that is neither true nor false": (
        "a TYJob that says all",
        {"conditions": [{"type": "Ready", "status": "maybe"}]},
        ("FieldValueNotSupported", "status.conditions[0].status"),
    ),
}


@pytest.mark.parametrize(("sentence", "status", "cause"), BAD_STATUS.values(), ids=BAD_STATUS)
async def test_a_bad_status_is_refused(
    served: Api, ns: str, sentence: str, status: Object, cause: tuple[str, str]
) -> None:
    sample = SAMPLES[sentence]
    path = crd_path(sample.crd, ns)
    await served.create(path, sample.manifest(name=ns))
    body: dict[str, Any] = {"status": status}
    answer = await served.call(
        "PATCH", f"{path}/{ns}/status", body, content_type="application/merge-patch+json"
    )
    assert answer.refusal == (422, "Invalid")
    assert cause in answer.causes


_ENDED = "a job that has ended cannot change, but for its cleanPodPolicy"
_LATE = "cannot change once the job has left the stage Pending"
_OTHER_LABEL: Object = {"leader": {"template": {"metadata": {"labels": {"app": "other"}}}}}
#: sentence: the stage of a TYJob, an edit of its spec, field and text of the refusal ("" for none)
TYJOB_EDITS: dict[str, tuple[str, Object, str, str]] = {
    "the queue of a job that waits": ("Pending", {"queue": "other"}, "", ""),
    "the queue of a job that has started": (
        "Starting",
        {"queue": "other"},
        "spec.queue",
        f"the queue {_LATE}",
    ),
    "the leader's name of a job that waits": ("Pending", {"leader": {"name": "head"}}, "", ""),
    "the leader's name of a job that runs": (
        "Running",
        {"leader": {"name": "head"}},
        "spec.leader.name",
        f"the leader's name {_LATE}",
    ),
    "the template of a job that runs": ("Running", _OTHER_LABEL, "", ""),
    "the template of a job that has ended": ("Failed", _OTHER_LABEL, "spec", _ENDED),
    "a limit of a job that has ended": ("Succeeded", {"restartLimit": 9}, "spec", _ENDED),
    "the end of a job that has ended": ("Succeeded", {"terminating": False}, "spec", _ENDED),
    "volumes of a job that has ended": ("Succeeded", {"volumes": None}, "spec", _ENDED),
    "the time limit of a job that has ended": (
        "Failed",
        {"schedulingTimeoutSeconds": None},
        "spec",
        _ENDED,
    ),
    "the placement of a job that has ended": (
        "Failed",
        {"schedulerPolicy": {"jobQueuePolicy": "Priority"}},
        "spec",
        _ENDED,
    ),
    "what an ended job keeps": ("Succeeded", {"cleanPodPolicy": "All"}, "", ""),
}


@pytest.mark.parametrize(("stage", "edit", "field", "text"), TYJOB_EDITS.values(), ids=TYJOB_EDITS)
async def test_edits_of_tyjobs(
    served: Api, ns: str, stage: str, edit: Object, field: str, text: str
) -> None:
    sample = SAMPLES["a TYJob that says all"]
    path = crd_path(sample.crd, ns)
    await served.create(path, sample.manifest(name=ns))
    await served.patch(f"{path}/{ns}/status", {"status": {"stage": stage}})
    patch = "application/merge-patch+json"
    answer = await served.call("PATCH", f"{path}/{ns}", {"spec": edit}, content_type=patch)
    if not text:
        assert answer.status == 200, answer.body
        return
    assert answer.refusal == (422, "Invalid")
    assert text in answer.body["message"]
    assert answer.causes == [("FieldValueInvalid", field)]
