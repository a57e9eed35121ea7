"""What is known of TYJobs, event by event."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from arranger.api.types.tyjob import TYJobPod
from arranger.controllers.runtime.informers import CacheHandler
from arranger.controllers.tyjob.cache import (
    OWNED_KINDS,
    TYJobCache,
    decode_owned,
    is_owned_by,
)
from arranger.kube.watch.informer import Informer, uid_of
from tests.builders import an_unstructured
from tests.tyjobs import a_tyjob
from tests.unit.controllers.tyjob.observed import FIRST, LEADER, Object, a_job, observed_pod

JOB = a_job()


def body(uid: str = "uid-job", version: str = "1", stage: str = "Pending") -> Object:
    """The job as kopf shows it."""
    made = a_tyjob()
    made["metadata"] |= {"uid": uid, "resourceVersion": version}
    return {**made, "status": {"stage": stage}}


def pod(name: str = LEADER, version: str = "1", uid: str = "") -> TYJobPod:
    """A pod of the job as a reflector shows it."""
    made = observed_pod(JOB, name)
    made.metadata.resource_version = version
    made.metadata.uid = uid or made.metadata.uid
    return made


@pytest.fixture
def store() -> TYJobCache:
    store = TYJobCache()
    store.on_job_updated(an_unstructured(body()))
    return store


def names(store: TYJobCache) -> set[str]:
    return set(store.observed_state(JOB).pods)


def test_an_older_state_of_a_job_is_not_taken(store: TYJobCache) -> None:
    assert store.on_job_updated(an_unstructured(body(version="10", stage="Running"))) == {
        "default/job"
    }
    assert store.on_job_updated(an_unstructured(body(version="9"))) == set()
    job = store.job("default/job")
    assert job is not None
    assert job.status["stage"] == "Running"


def test_another_job_of_the_same_name_begins_anew(store: TYJobCache) -> None:
    store.on_owned_updated("pods", pod())
    store.set_refusal(JOB, "no")
    store.on_job_updated(an_unstructured(body(uid="another", version="0")))
    job = store.job("default/job")
    assert job is not None
    assert not store.observed_state(job).pods
    assert not store.observed_state(JOB).refusal


def test_parts_count_by_their_owner_and_not_by_their_label(store: TYJobCache) -> None:
    stray = pod()
    stray.metadata.owner_references = []
    assert store.on_owned_updated("pods", stray) == set()
    assert not names(store)
    assert store.on_owned_updated("pods", pod()) == {"default/job"}
    assert names(store) == {LEADER}


@pytest.mark.parametrize(
    ("namespace", "owner"), [("culprit", "job"), ("culprit", "another"), ("default", "another")]
)
def test_whoever_names_the_uid_of_a_job_and_not_its_place_has_no_part_of_it(
    namespace: str, owner: str, store: TYJobCache
) -> None:
    forged = observed_pod(JOB, LEADER, phase="Succeeded")
    forged.metadata.namespace = namespace
    forged.metadata.owner_references[0].name = owner
    assert store.on_owned_updated("pods", forged) == {f"{namespace}/{owner}"}
    assert not names(store)
    assert not store.observed_state(JOB).succeeded_leader
    assert not is_owned_by(forged, JOB)
    store.on_owned_updated("pods", pod())
    assert store.on_owned_deleted("pods", forged) == {f"{namespace}/{owner}"}
    assert names(store) == {LEADER}


def test_an_older_state_of_a_pod_is_not_taken(store: TYJobCache) -> None:
    late = pod(version="9")
    store.on_owned_updated("pods", pod(version="10"))
    assert store.on_owned_updated("pods", late) == set()
    assert store.observed_state(JOB).pods[LEADER].metadata.resource_version == "10"


def test_the_end_of_an_earlier_pod_does_not_take_its_successor(store: TYJobCache) -> None:
    store.on_owned_updated("pods", pod(uid="new"))
    assert store.on_owned_deleted("pods", pod(uid="old")) == set()
    assert names(store) == {LEADER}
    assert store.on_owned_deleted("pods", pod(uid="new")) == {"default/job"}
    assert not names(store)


def test_a_leader_that_was_seen_to_end_has_ended_whoever_deletes_it_then(
    store: TYJobCache,
) -> None:
    for version, how in (("1", {}), ("2", {"leaving": "2026-01-01T12:00:30Z", "grace": 30})):
        ended = observed_pod(JOB, LEADER, phase="Succeeded", **how)
        ended.metadata.resource_version = version
        store.on_owned_updated("pods", ended)
    store.on_owned_deleted("pods", ended)
    assert store.observed_state(JOB).succeeded_leader == LEADER


def test_a_leader_that_ends_as_it_is_evicted_has_not_ended_well(store: TYJobCache) -> None:
    leaving = {"leaving": "2026-01-01T12:00:30Z", "grace": 30}
    for version, phase in (("1", "Running"), ("2", "Succeeded")):
        evicted = observed_pod(JOB, LEADER, phase=phase, **leaving)
        evicted.metadata.resource_version = version
        store.on_owned_updated("pods", evicted)
    store.on_owned_deleted("pods", evicted)
    assert not store.observed_state(JOB).succeeded_leader


def test_a_full_list_drops_what_is_not_in_it(store: TYJobCache) -> None:
    concerned: list[set[str]] = []

    def informer(plural: str) -> Informer[TYJobPod]:
        updated, deleted = store.on_owned_updated, store.on_owned_deleted
        handler = CacheHandler[TYJobPod](
            partial(updated, plural), partial(deleted, plural), concerned.append
        )
        return Informer(handler, key=uid_of)

    pods, of_another_namespace, services = informer("pods"), informer("pods"), informer("services")
    pods.applied(pod(LEADER))
    pods.replaced([pod(FIRST)], "2")
    assert concerned[1:] == [{"default/job"}, {"default/job"}]
    assert names(store) == {FIRST}
    of_another_namespace.replaced([], "3")
    assert names(store) == {FIRST}
    services.replaced([], "4")
    assert names(store) == {FIRST}
    assert len(concerned) == 3


def test_memory_is_given_back(store: TYJobCache) -> None:
    store.on_owned_updated("pods", pod())
    store.set_refusal(JOB, "no")
    store.on_owned_deleted("pods", pod())
    store.on_job_deleted("default/job", "uid-job")
    assert not any((store._jobs, store._owned, store._refusals))


def test_only_news_of_a_refusal_are_news(store: TYJobCache) -> None:
    told = [store.set_refusal(JOB, why) for why in ("", "no", "no", "never", "", "")]
    assert told == [False, True, False, True, True, False]


@pytest.mark.parametrize("plural", OWNED_KINDS)
def test_answers_are_read_as_what_was_asked_for(plural: str) -> None:
    content = {"metadata": {"name": "n", "uid": "u"}, "data": {"k": "v"}, "spec": {}}
    part = decode_owned(plural, msgspec.json.encode(content))
    assert isinstance(part, OWNED_KINDS[plural])
    assert part.metadata.name == "n"
