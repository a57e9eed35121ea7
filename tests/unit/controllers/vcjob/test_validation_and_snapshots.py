"""What is remembered of a Job, what is refused, and what is known at a time."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranger.api.parsing.errors import ParseError
from arranger.api.types.job_limits import MAX_PODS
from arranger.api.types.volcano_job import JobPod, VolcanoJob
from arranger.controllers.runtime.informers import CacheHandler
from arranger.controllers.runtime.objects import UnstructuredObject
from arranger.controllers.vcjob import plan as planning
from arranger.controllers.vcjob.cache import JobCache, is_owned_by
from arranger.controllers.vcjob.controlled_resources import ControlledResources
from arranger.controllers.vcjob.manifests import pod_group_of
from arranger.controllers.vcjob.snapshot import JobSnapshot
from arranger.controllers.vcjob.validation import first_problem
from arranger.kube.watch.informer import Informer, uid_of
from arranger.kube.watch.trimming import MAX_KNOWN, MAX_OTHERS
from tests.builders import an_unstructured
from tests.unit.controllers.vcjob.snapshots import NOW, a_task, job_body, on, pod_body

Object = dict[str, Any]

_tasks = st.sampled_from(["a", "b-1", "c"])
_indices = st.frozensets(st.tuples(_tasks, st.integers(0, 40)))


@given(
    restart_version=st.integers(0, 9),
    task_versions=st.dictionaries(_tasks, st.integers(0, 9)),
    pod_versions=st.dictionaries(st.tuples(_tasks, st.integers(0, 40)), st.integers(0, 9)),
    seen=_indices,
    succeeded=_indices,
    created=st.dictionaries(st.sampled_from(["services/j", "configmaps/j-svc"]), st.just("0a1b")),
    last_action=st.sampled_from(["", "AbortJob"]),
)
def test_what_is_written_is_read_again(**memory: Any) -> None:
    written = ControlledResources(**memory)
    assert ControlledResources.parse(written.to_dict()) == written


def test_pods_are_remembered_in_few_words() -> None:
    memory = ControlledResources().with_observed([("w", n) for n in (0, 1, 2, 3, 7, 9, 10)], [])
    assert memory.to_dict() == {
        "arranger.io/state": '{"pods-seen/w":"0-3,7,9-10","pods-since":"0"}'
    }


def test_what_an_earlier_release_wrote_is_read() -> None:
    written = {"pods-since": "2", "pods-seen/w": "0-1", "made/services/j": "0a1b"}
    memory = ControlledResources.parse(written)
    assert (memory.restart_version, memory.seen) == (2, {("w", 0), ("w", 1)})
    assert ControlledResources.parse(memory.to_dict()) == memory


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"pods-since": 3}', "[" * 99999])
def test_a_state_that_somebody_has_spoiled_is_none(text: str) -> None:
    assert ControlledResources.parse({"arranger.io/state": text}) == ControlledResources()


def test_the_memory_of_somebody_else_is_no_harm() -> None:
    theirs = {"plugin-svc": "svc", "pods-since": "x", "pods-seen/w": "all", "pods-since/w/x": "1"}
    assert ControlledResources.parse(theirs) == ControlledResources()


@pytest.mark.parametrize("of", ["pods-seen", "pods-succeeded"])
@pytest.mark.parametrize(
    "said",
    [{"w": "0-999999,0-999999"}, {"a": "0-999999", "b": "0-999999"}],
    ids=["at once", "of many tasks"],
)
@pytest.mark.parametrize("nested", [True, False])
def test_no_status_says_of_more_pods_than_a_job_can_have(
    said: dict[str, str], of: str, nested: bool
) -> None:
    forged = {f"{of}/{task}": text for task, text in said.items()}
    written = {"arranger.io/state": json.dumps(forged)} if nested else forged
    memory = ControlledResources.parse(written)
    assert len(memory.seen | memory.succeeded) <= MAX_PODS


def test_all_pods_of_the_largest_job_are_remembered() -> None:
    places = [(f"task-{n % 2}", 2 * n) for n in range(MAX_PODS)]
    memory = ControlledResources().with_observed(places, places[::2])
    memory = memory.with_pod_restarts(3, places[::3])
    memory = memory.with_observed(places, ())
    assert ControlledResources.parse(memory.to_dict()) == memory


def test_what_the_job_no_longer_has_is_forgotten() -> None:
    places = [("a", 0), ("a", 1), ("b", 0)]
    memory = ControlledResources(task_versions={"b": 1}, pod_versions={("a", 1): 2}).with_observed(
        places, places
    )
    kept = memory.limited_to({"a": 1})
    assert kept == ControlledResources().with_observed([("a", 0)], [("a", 0)])


# --- refused -------------------------------------------------------------------------------------

_SVC = {"svc": []}


def _a_task_whose_container_has(**fields: Any) -> Object:
    return a_task() | {"template": {"spec": {"containers": [{"name": "c", **fields}]}}}


PROBLEMS: dict[str, tuple[Object, str]] = {
    "sound": ({}, ""),
    "two tasks of one name": (
        {"tasks": [a_task(), a_task()]},
        "spec.tasks: 2 tasks are called w",
    ),
    "more needed than there are": (
        {"minAvailable": 3},
        "spec.minAvailable: 3 is more than the 2 pods there are",
    ),
    "more successes than pods": (
        {"minSuccess": 3},
        "spec.minSuccess: 3 is more than the 2 pods there are",
    ),
    "more needed of a task than it has": (
        {"tasks": [a_task(minAvailable=3)], "minAvailable": 1},
        "spec.tasks[w].minAvailable: 3 is more than its 2 replicas",
    ),
    "ssh": (
        {"plugins": {"ssh": []}},
        "spec.plugins: ssh is not supported: it would spread private keys; "
        "use the svc plugin's names",
    ),
    "an unknown plugin": (
        {"plugins": {"mpi": []}},
        "spec.plugins: mpi is not supported, only env, svc are",
    ),
    "an unknown flag": (
        {"plugins": {"svc": ["--tls"]}},
        "spec.plugins.svc: there is no flag --tls",
    ),
    "a name that no Service can have": (
        {"plugins": _SVC, "name": "a.b"},
        "metadata.name: a.b cannot be the name of a Service (plugin svc)",
    ),
    "a policy about nothing": (
        {"policies": [{"action": "AbortJob"}]},
        "spec.policies[0]: it says neither event nor exitCode",
    ),
    "a policy about too much": (
        {"policies": [on("PodFailed", "AbortJob", exitCode=1)]},
        "spec.policies[0]: event and exitCode exclude each other",
    ),
    "a policy about success": (
        {"policies": [{"exitCode": 0, "action": "AbortJob"}]},
        "spec.policies[0].exitCode: 0 is success",
    ),
    "a policy about parts": (
        {"tasks": [a_task(policies=[on("PodFailed", "RestartPartition")])]},
        "spec.tasks[w].policies[0].action: RestartPartition is not supported",
    ),
    "a policy against waiting that does not wait": (
        {"policies": [on("PodPending", "AbortJob")]},
        "spec.policies[0]: PodPending needs a timeout, because every pod is pending at first",
    ),
    "a time that is none": (
        {"policies": [on("PodPending", "AbortJob", timeout="soon")]},
        "spec.policies[0].timeout: 'soon' is not a duration such as 90s or 1h30m",
    ),
    "a task that waits for none": (
        {"tasks": [a_task(dependsOn={"name": ["m"]})]},
        "spec.tasks[w].dependsOn: there is no task m",
    ),
    "a template that is none": (
        {"tasks": [_a_task_whose_container_has(env=1)]},
        "spec.tasks[w].template: Expected `array | null`, got `int` "
        "- at `$.spec.containers[0].env`",
    ),
    "a variable without a name": (
        {"tasks": [_a_task_whose_container_has(env=[{"value": "b"}])]},
        "spec.tasks[w].template: Object missing required field `name` "
        "- at `$.spec.containers[0].env[0]`",
    ),
    "a port that is none": (
        {"tasks": [_a_task_whose_container_has(ports=[{"containerPort": "http"}])]},
        "spec.tasks[w].template: Expected `int`, got `str` "
        "- at `$.spec.containers[0].ports[0].containerPort`",
    ),
    "tasks that wait for each other": (
        {
            "tasks": [
                a_task("a", dependsOn={"name": ["b"]}),
                a_task("b", dependsOn={"name": ["a"]}),
                a_task("c"),
            ]
        },
        "spec.tasks: a, b wait for each other by dependsOn",
    ),
}


@pytest.mark.parametrize(("said", "problem"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_problem(said: Object, problem: str) -> None:
    body = job_body(**{k: v for k, v in said.items() if k != "policies"})
    body["spec"]["policies"] = said.get("policies", [])
    assert first_problem(msgspec.convert(body, VolcanoJob)) == problem


def test_no_job_has_more_pods_than_anybody_can_count() -> None:
    with pytest.raises(ParseError, match="2147483647 pods are more than 10000"):
        JobCache().on_job_updated(an_unstructured(job_body(tasks=[a_task(replicas=2**31 - 1)])))


# --- known ---------------------------------------------------------------------------------------


def _pod(place: str, *, version: str = "1", **more: Any) -> JobPod:
    body = pod_body(place, **more)
    body["metadata"]["resourceVersion"] = version
    return msgspec.convert(body, JobPod)


def _view(ledger: JobCache) -> JobSnapshot:
    view = ledger.snapshot("default/j", NOW)
    assert view is not None
    return view


def test_pods_before_their_job() -> None:
    ledger = JobCache()
    assert ledger.on_pod_updated(_pod("w/0")) == set()
    assert ledger.on_job_updated(an_unstructured(job_body())) == {"default/j"}
    assert _view(ledger).pods.keys() == {("w", 0)}


@pytest.mark.parametrize("known", [False, True], ids=["a pod of its own comes later", "first"])
@pytest.mark.parametrize(
    ("namespace", "owner"), [("culprit", "j"), ("culprit", "other"), ("default", "other")]
)
def test_whoever_names_the_uid_of_a_job_and_not_its_place_has_no_part_of_it(
    namespace: str, owner: str, known: bool
) -> None:
    ledger = JobCache()
    forged = _pod("w/0", fate="Failed", version="9")
    group = _group({}, "9")
    for meta in (forged.metadata, group.metadata):
        meta.namespace = namespace
        meta.owner_references[0].name = owner
    if known:
        ledger.on_job_updated(an_unstructured(job_body()))
        ledger.on_pod_updated(_pod("w/0"))
    assert ledger.on_pod_updated(forged) == set()
    assert ledger.on_pod_group_updated(group) == set()
    if not known:
        ledger.on_job_updated(an_unstructured(job_body()))
        assert ledger.on_pod_updated(_pod("w/0")) == {"default/j"}
    assert _view(ledger).pods["w", 0].status.phase == "Running"
    assert not _view(ledger).pod_groups
    assert not is_owned_by(forged.metadata, _view(ledger).job)
    ledger.on_pod_deleted(forged)
    assert _view(ledger).pods.keys() == {("w", 0)}


def test_an_old_message_changes_nothing() -> None:
    ledger = JobCache()
    ledger.on_job_updated(an_unstructured(job_body()))
    ledger.on_pod_updated(_pod("w/0", version="9"))
    assert ledger.on_pod_updated(_pod("w/0", fate="Failed", version="8")) == set()
    assert _view(ledger).pods["w", 0].status.phase == "Running"


def test_that_an_earlier_pod_of_the_name_is_gone_changes_nothing() -> None:
    ledger = JobCache()
    ledger.on_job_updated(an_unstructured(job_body()))
    ledger.on_pod_updated(_pod("w/0", version="9"))
    earlier = pod_body("w/0")
    earlier["metadata"]["uid"] = "another"
    assert ledger.on_pod_deleted(msgspec.convert(earlier, JobPod)) == set()
    assert _view(ledger).pods.keys() == {("w", 0)}


def test_a_relist_tells_what_is_gone_of_the_namespaces_it_is_about() -> None:
    ledger = JobCache()
    ledger.on_job_updated(an_unstructured(job_body()))
    concerned: set[str] = set()
    handler = CacheHandler[JobPod](ledger.on_pod_updated, ledger.on_pod_deleted, concerned.update)
    pods, of_another_namespace = Informer(handler, key=uid_of), Informer(handler, key=uid_of)
    pods.replaced([_pod("w/0"), _pod("w/1")], "1")
    concerned.clear()
    of_another_namespace.replaced([], "2")
    assert concerned == set()
    pods.replaced([_pod("w/1")], "3")
    assert concerned == {"default/j"}
    assert (_view(ledger).pods.keys(), _view(ledger).confirmed_empty) == ({("w", 1)}, {("w", 0)})


def test_a_new_job_of_the_name_has_none_of_the_old_pods() -> None:
    ledger = JobCache()
    ledger.on_job_updated(an_unstructured(job_body()))
    ledger.on_pod_updated(_pod("w/0"))
    body = job_body()
    body["metadata"]["uid"] = "uid-other"
    ledger.on_job_updated(an_unstructured(body))
    assert _view(ledger).pods == {}


@pytest.mark.parametrize(("scheduler", "ours"), [("", 1), ("arranger", 1), ("volcano", 0)])
def test_whose_jobs_are_ours(scheduler: str, ours: int) -> None:
    ledger = JobCache(["arranger"])
    assert len(ledger.on_job_updated(an_unstructured(job_body(schedulerName=scheduler)))) == ours


CARDS = {"volcano.sh/card.request": '{"A": 1}'}
MANY = {f"example.com/{n}": "x" for n in range(20_000)}
#: What a tenant writes beside them → how much of it the PodGroup does not get.
FLOODS: dict[str, tuple[dict[str, str], int]] = {
    "many": (MANY, len(MANY) - MAX_OTHERS),
    "a long one": ({"example.com/long": "x" * 250_000}, 1),
    "a long one that we know": ({"arranger.io/placement": "x" * 250_000}, 1),
    "kubectl's": ({"kubectl.kubernetes.io/last-applied-configuration": "x" * 250_000}, 0),
}


def _group(notes: dict[str, str], version: str = "1") -> UnstructuredObject:
    owners = pod_body("w/0")["metadata"]["ownerReferences"]
    meta = {"name": "j-0", "namespace": "default", "uid": "g", "ownerReferences": owners}
    more = {"resourceVersion": version, "annotations": notes, "labels": MANY}
    return an_unstructured({"metadata": {**meta, **more}})


@pytest.mark.parametrize(("notes", "lost"), FLOODS.values(), ids=FLOODS)
def test_what_a_tenant_writes_about_a_job_takes_little_room(
    notes: dict[str, str], lost: int
) -> None:
    ledger = JobCache()
    body = job_body(annotations=CARDS | notes)
    body["metadata"]["labels"] = MANY
    ledger.on_job_updated(an_unstructured(body))
    ledger.on_pod_group_updated(_group(CARDS | notes))
    view = _view(ledger)
    assert view.left_out == lost
    for meta in (view.job.metadata, view.pod_groups["j-0"].metadata):
        assert meta.annotations["volcano.sh/card.request"] == '{"A": 1}'
        assert len(msgspec.json.encode(meta)) < MAX_KNOWN + 4096


def test_a_pod_group_with_what_it_can_get_is_not_written_again() -> None:
    ledger = JobCache()
    ledger.on_job_updated(an_unstructured(job_body(annotations=CARDS | MANY)))
    gets = pod_group_of(_view(ledger))["metadata"]["annotations"]
    assert len(gets) == MAX_OTHERS + 1
    for version, notes in enumerate((gets, {}, gets | MANY, {"a": "b"})):
        ledger.on_pod_group_updated(_group(notes, str(version + 1)))
        change = planning._pod_group_change(_view(ledger)) or {}
        missing = len(notes) < len(gets)
        assert change.get("metadata") == ({"annotations": gets} if missing else None)


def test_memory_is_given_back() -> None:
    ledger = JobCache()
    group = {
        "metadata": {
            "name": "j-0",
            "namespace": "default",
            "uid": "g",
            "resourceVersion": "1",
            "ownerReferences": pod_body("w/0")["metadata"]["ownerReferences"],
        }
    }
    ledger.on_job_updated(an_unstructured(job_body()))
    ledger.on_pod_updated(_pod("w/0"))
    ledger.on_pod_group_updated(an_unstructured(group))
    ledger.on_job_deleted("default/j", job_body()["metadata"]["uid"])
    ledger.on_pod_deleted(_pod("w/0"))
    ledger.on_pod_group_deleted(an_unstructured(group))
    assert (ledger._records, ledger._uids) == ({}, {})
