"""What is known of TYJobs, event by event."""

from __future__ import annotations

import msgspec
import pytest

from arranger.api.types.tyjob import RankPod
from arranger.controllers.tyjob.cache import PARTS, TYJobStore, read_part
from tests.tyjobs import a_tyjob
from tests.unit.controllers.tyjob_views import FIRST, LEADER, Object, a_job, seen

JOB = a_job()


def body(uid: str = "uid-job", version: str = "1", stage: str = "Pending") -> Object:
    """The job as kopf shows it."""
    made = a_tyjob()
    made["metadata"] |= {"uid": uid, "resourceVersion": version}
    return {**made, "status": {"stage": stage}}


def pod(name: str = LEADER, version: str = "1", uid: str = "") -> RankPod:
    """A pod of the job as a reflector shows it."""
    made = seen(JOB, name)
    made.metadata.resource_version = version
    made.metadata.uid = uid or made.metadata.uid
    return made


@pytest.fixture
def store() -> TYJobStore:
    store = TYJobStore()
    store.job_set(body())
    return store


def names(store: TYJobStore) -> set[str]:
    return set(store.world(JOB).pods)


def test_an_older_state_of_a_job_is_not_taken(store: TYJobStore) -> None:
    assert store.job_set(body(version="10", stage="Running")) == {"default/job"}
    assert store.job_set(body(version="9")) == set()
    job = store.job("default/job")
    assert job is not None
    assert job.status["stage"] == "Running"


def test_another_job_of_the_same_name_begins_anew(store: TYJobStore) -> None:
    store.part_set("pods", pod())
    store.refused(JOB, "no")
    store.job_set(body(uid="another", version="0"))
    job = store.job("default/job")
    assert job is not None
    assert not store.world(job).pods
    assert not store.world(JOB).refusal


def test_parts_count_by_their_owner_and_not_by_their_label(store: TYJobStore) -> None:
    stray = pod()
    stray.metadata.owner_references = []
    assert store.part_set("pods", stray) == set()
    assert not names(store)
    assert store.part_set("pods", pod()) == {"default/job"}
    assert names(store) == {LEADER}


def test_an_older_state_of_a_pod_is_not_taken(store: TYJobStore) -> None:
    late = pod(version="9")
    store.part_set("pods", pod(version="10"))
    assert store.part_set("pods", late) == set()
    assert store.world(JOB).pods[LEADER].metadata.resource_version == "10"


def test_the_end_of_an_earlier_pod_does_not_take_its_successor(store: TYJobStore) -> None:
    store.part_set("pods", pod(uid="new"))
    assert store.part_gone("pods", pod(uid="old")) == set()
    assert names(store) == {LEADER}
    assert store.part_gone("pods", pod(uid="new")) == {"default/job"}
    assert not names(store)


def test_a_full_list_drops_what_is_not_in_it(store: TYJobStore) -> None:
    store.part_set("pods", pod(LEADER))
    assert store.replaced("pods", [pod(FIRST)]) == {"default/job"}
    assert names(store) == {FIRST}
    assert store.replaced("pods", [], namespace="other") == set()
    assert names(store) == {FIRST}
    assert store.replaced("services", []) == set()
    assert names(store) == {FIRST}


def test_memory_is_given_back(store: TYJobStore) -> None:
    store.part_set("pods", pod())
    store.refused(JOB, "no")
    store.part_gone("pods", pod())
    store.job_gone("default/job")
    assert not any((store._jobs, store._parts, store._refusals))


def test_only_news_of_a_refusal_are_news(store: TYJobStore) -> None:
    told = [store.refused(JOB, why) for why in ("", "no", "no", "never", "", "")]
    assert told == [False, True, False, True, True, False]


@pytest.mark.parametrize("plural", PARTS)
def test_answers_are_read_as_what_was_asked_for(plural: str) -> None:
    content = {"metadata": {"name": "n", "uid": "u"}, "data": {"k": "v"}, "spec": {}}
    part = read_part(plural, msgspec.json.encode(content))
    assert isinstance(part, PARTS[plural])
    assert part.metadata.name == "n"
