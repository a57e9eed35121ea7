"""Which devices count as taken: by the API's word, and by our decisions ahead of it."""

from __future__ import annotations

import pytest

from arranger.api.effects import (
    Ambiguous,
    Applied,
    ObjectKey,
    Outcome,
    Refused,
    ReleaseClaim,
    ReserveClaim,
)
from arranger.api.types.resource_claims import Allocation, DeviceId
from arranger.cluster.cluster import Cluster
from arranger.cluster.resource_claim_tracker import ResourceClaimTracker
from tests.builders import a_cluster, a_node, a_pod
from tests.devices import DRIVER, ClaimBuilder, a_claim, a_device_class, a_slice

N1 = a_node("n1")
FREE = a_claim().asks()
GIVEN = FREE.given("a", on="n1")
POD, OTHER = ObjectKey("default", "p", "uid-p"), ObjectKey("default", "q", "uid-q")
REF = ObjectKey("default", "c", "uid-c")
GPU_A = DeviceId(DRIVER, "n1", "a")
REFUSED = Refused(409, "Conflict")


class TrackerHarness:
    """A cluster with one claim, and what becomes of it."""

    def __init__(self, claim: ClaimBuilder = FREE) -> None:
        self.cluster: Cluster = a_cluster(N1, a_slice("n1", "a", "b"), claim)
        self.claims = self.cluster.devices.claim_tracker
        self.claim = claim
        self._version = 1

    @property
    def taken(self) -> bool:
        self.cluster.check_consistent()
        return self.claims.is_taken(GPU_A)

    def shows(self, claim: ClaimBuilder) -> None:
        self._version += 1
        self.claim = claim
        self.cluster.objects.set(claim.at_version(str(self._version)).build())

    def reserve(self, pod: ObjectKey = POD) -> None:
        given: Allocation | None = None
        if self.claims.allocation_of(self.claim.build()) is None:
            given = GIVEN.build().status.allocation
        self.claims.reserve(self.claim.build(), pod, given)

    def write(self, pod: ObjectKey = POD, outcome: Outcome | None = None) -> ReserveClaim:
        (effect,) = self.claims.prepare_writes(pod.uid)
        if outcome is not None:
            self.claims.on_outcome(effect, outcome)
        return effect

    def releases(self) -> list[ReleaseClaim]:
        return self.claims.take_effects()


def test_what_the_api_shows_is_taken_until_it_shows_otherwise() -> None:
    book = TrackerHarness()
    assert not book.taken
    book.shows(GIVEN)
    assert book.taken
    book.shows(FREE)
    assert not book.taken
    book.shows(GIVEN)
    book.cluster.objects.remove(GIVEN.build())
    assert not book.taken


def test_a_decision_counts_at_once_and_until_it_is_given_up() -> None:
    book = TrackerHarness()
    book.reserve()
    assert book.taken
    assert book.claims.allocation_of(FREE.build()) == GIVEN.build().status.allocation
    book.claims.release_pod(POD.uid)
    assert not book.taken
    assert book.claims.allocation_of(FREE.build()) is None
    assert book.releases() == [], "nothing was written"


def test_two_pods_share_a_decision_and_the_last_of_them_ends_it() -> None:
    book = TrackerHarness()
    book.reserve()
    book.reserve(OTHER)
    book.claims.release_pod(POD.uid)
    assert book.taken
    book.claims.release_pod(OTHER.uid)
    assert not book.taken


def test_each_of_them_writes_what_it_may_find_unwritten() -> None:
    book = TrackerHarness()
    book.reserve()
    book.reserve(OTHER)
    mine, theirs = book.write(), book.write(OTHER)
    assert (mine.pod, theirs.pod) == (POD, OTHER)
    assert mine.allocation == theirs.allocation
    assert mine.allocation is not None
    assert mine.allocation["devices"]["results"][0]["device"] == "a"


def test_a_claim_that_is_allocated_is_only_reserved() -> None:
    book = TrackerHarness(GIVEN)
    book.reserve()
    assert book.write() == ReserveClaim(REF, POD, None)


def test_what_an_earlier_life_of_ours_has_reserved_is_not_written_again() -> None:
    book = TrackerHarness(GIVEN.reserved_for(POD.uid))
    book.reserve()
    assert book.claims.prepare_writes(POD.uid) == []


def test_a_device_stays_taken_while_it_changes_from_our_word_to_the_apis() -> None:
    book = TrackerHarness()
    book.reserve()
    book.write(outcome=Applied())
    book.cluster.assume_pod(a_pod().with_uid(POD.uid).info(), "n1")
    book.claims.on_pod_bound(POD.uid)
    assert book.taken
    book.shows(FREE.annotated({"finalizer": "comes first"}))
    assert book.taken
    book.shows(GIVEN.reserved_for(POD.uid))
    assert book.taken
    book.shows(FREE)
    assert not book.taken, "the pod has ended, and a controller has taken the devices back"


def test_what_has_come_and_gone_between_two_looks_is_free() -> None:
    book = TrackerHarness()
    book.reserve()
    book.write(outcome=Applied())
    book.claims.on_pod_bound(POD.uid)
    book.shows(FREE.annotated({"again": "yes"}))
    assert not book.taken, "the pod is not there any more"


def test_a_refused_write_frees_the_devices() -> None:
    book = TrackerHarness()
    book.reserve()
    (effect,) = book.claims.prepare_writes(POD.uid)
    assert not book.claims.on_outcome(effect, Ambiguous("lost"))
    assert book.taken
    assert book.claims.on_outcome(effect, REFUSED), "others may have them"
    assert not book.taken
    book.claims.release_pod(POD.uid)
    assert book.releases() == []


def test_what_is_written_is_taken_back_before_others_may_have_it() -> None:
    book = TrackerHarness()
    book.reserve()
    book.write(outcome=Applied())
    book.claims.release_pod(POD.uid)
    (release,) = book.releases()
    assert release == ReleaseClaim(REF, POD, deallocate=True)
    assert book.taken
    assert book.claims.is_being_released(FREE.build())
    assert book.claims.on_outcome(release, Applied())
    assert not book.taken


def test_a_write_on_its_way_is_taken_back_when_it_has_arrived() -> None:
    book = TrackerHarness()
    book.reserve()
    write = book.write()
    book.claims.release_pod(POD.uid)
    assert book.releases() == []
    assert book.taken
    book.claims.on_outcome(write, Applied())
    (release,) = book.releases()
    assert book.taken
    book.claims.on_outcome(release, Applied())
    assert not book.taken


def test_a_write_on_its_way_that_is_refused_needs_no_taking_back() -> None:
    book = TrackerHarness()
    book.reserve()
    write = book.write()
    book.claims.release_pod(POD.uid)
    assert book.claims.on_outcome(write, REFUSED)
    assert not book.taken
    assert book.releases() == []


def test_an_allocation_that_another_pod_uses_stays() -> None:
    book = TrackerHarness()
    book.reserve()
    book.reserve(OTHER)
    book.write(outcome=Applied())
    book.claims.release_pod(POD.uid)
    (release,) = book.releases()
    assert release == ReleaseClaim(REF, POD, deallocate=False)
    assert book.taken


def test_a_reservation_that_we_took_back_is_written_again_whatever_the_api_still_shows() -> None:
    book = TrackerHarness()
    book.reserve()
    book.write(outcome=Applied())
    book.claims.release_pod(POD.uid)
    (release,) = book.releases()
    book.claims.on_outcome(release, Applied())
    book.shows(GIVEN.reserved_for(POD.uid))  # late news
    book.reserve()
    assert book.write() == ReserveClaim(REF, POD, None)


def test_nobody_counts_on_what_was_taken_back_until_the_api_shows_it() -> None:
    book = TrackerHarness(GIVEN.reserved_for(POD.uid))
    book.reserve()
    book.claims.release_pod(POD.uid)
    book.claims.give_up(POD.uid)
    (release,) = book.releases()
    assert not book.claims.on_outcome(release, Applied()), "nothing to be had yet"
    assert book.claims.is_being_released(book.claim.build())
    book.shows(GIVEN)
    assert book.claims.is_being_released(book.claim.build()), "the allocation goes, too"
    book.shows(FREE)
    assert not book.claims.is_being_released(book.claim.build())


def test_what_was_not_taken_back_is_there_to_be_used() -> None:
    book = TrackerHarness(GIVEN.reserved_for(POD.uid))
    book.reserve()
    book.claims.release_pod(POD.uid)
    book.claims.give_up(POD.uid)
    (release,) = book.releases()
    assert book.claims.on_outcome(release, Refused(403, "Forbidden"))
    assert not book.claims.is_being_released(book.claim.build())


def test_what_an_earlier_life_has_written_outlives_a_try() -> None:
    book = TrackerHarness(GIVEN.reserved_for(POD.uid))
    for _ in range(2):
        book.reserve()
        book.claims.release_pod(POD.uid)
        assert book.releases() == []
    book.reserve()
    book.claims.give_up(POD.uid)
    assert book.releases() == [], "it is in use"
    book.claims.prepare_writes(POD.uid)
    book.claims.release_pod(POD.uid)
    assert book.releases() == [ReleaseClaim(REF, POD, deallocate=True)], "it was being bound"


def test_what_is_given_up_is_given_up_once_and_the_last_user_ends_the_allocation() -> None:
    book = TrackerHarness(GIVEN.reserved_for(POD.uid, OTHER.uid))
    for pod in (POD, OTHER):
        book.reserve(pod)
        book.claims.release_pod(pod.uid)
    for pod in (POD, OTHER, POD):
        book.claims.give_up(pod.uid)
    assert [each.deallocate for each in book.releases()] == [False, True]


def test_nothing_is_given_up_that_somebody_else_has_taken_back() -> None:
    book = TrackerHarness(GIVEN.reserved_for(POD.uid))
    book.reserve()
    book.claims.release_pod(POD.uid)
    book.shows(FREE)
    book.claims.give_up(POD.uid)
    assert book.releases() == []


def test_an_allocation_in_the_way_is_taken_back_on_request() -> None:
    book = TrackerHarness(GIVEN)
    book.claims.plan_deallocation(GIVEN.build(), POD)
    assert not book.claims.is_being_released(GIVEN.build()), "nobody has asked for it yet"
    assert book.releases() == [ReleaseClaim(REF, POD, deallocate=True)]
    assert book.claims.is_being_released(GIVEN.build())


@pytest.mark.parametrize("written", [False, True])
def test_a_claim_that_is_deleted_is_forgotten(written: bool) -> None:
    book = TrackerHarness()
    book.reserve()
    write = book.write(outcome=Applied() if written else None)
    book.cluster.objects.remove(FREE.build())
    assert not book.taken
    book.claims.on_outcome(write, REFUSED)
    book.claims.release_pod(POD.uid)
    assert book.releases() == []
    book.cluster.check_consistent()


def test_slices_of_large_pools_are_not_told_one_by_one() -> None:
    devices = TrackerHarness().cluster.devices
    before = devices.version
    for n in range(200):
        made = a_slice(f"m{n}", "a").in_pool("all", of=200)
        devices._on_slice_changed(None, made.build())
    assert devices.version - before < 200 * 20
    assert devices.changed_since(before) is None
    devices.check_consistent()


def test_classes_stand_for_resources_while_they_are_there() -> None:
    cluster = TrackerHarness().cluster
    own = {"deviceclass.resource.kubernetes.io/gpu": "gpu"}
    cluster.objects.set(a_device_class().with_spec(extendedResourceName="x.com/a").build())
    assert cluster.devices.extended_resources == {**own, "x.com/a": "gpu"}
    cluster.objects.set(a_device_class().at_version("2").build())
    assert cluster.devices.extended_resources == own
    cluster.objects.remove(a_device_class().build())
    assert cluster.devices.extended_resources == {}


def test_changes_are_told_by_node() -> None:
    devices = (book := TrackerHarness()).cluster.devices
    before = devices.version
    book.reserve()
    assert devices.changed_since(before) == {"n1"}
    before = devices.version
    book.cluster.objects.set(a_slice("x", "far").usable_everywhere().build())
    assert devices.changed_since(before) is None, "all nodes"
    assert devices.changed_since(devices.version) == set()


def test_what_the_api_shows_before_the_pod_is_bound_is_free_when_the_api_says_so() -> None:
    book = TrackerHarness()
    book.reserve()
    book.write(outcome=Applied())
    book.cluster.assume_pod(a_pod().with_uid(POD.uid).info(), "n1")
    book.shows(GIVEN.reserved_for(POD.uid))
    book.claims.on_pod_bound(POD.uid)
    assert book.taken
    book.shows(FREE)
    assert not book.taken, "the pod has ended, and a controller has taken the devices back"


@pytest.mark.parametrize("shown_first", [True, False], ids=["shown first", "bound first"])
def test_what_a_claim_costs_does_not_grow_with_the_pods_that_are_bound(shown_first: bool) -> None:
    looks = list[str]()

    def is_placed(uid: str) -> bool:
        looks.append(uid)
        return True

    tracker, count = ResourceClaimTracker(is_placed, lambda _: None), 300
    claims = [a_claim(f"c{n}").with_uid(f"uid-c{n}").asks() for n in range(count)]
    for n, claim in enumerate(claims):
        pod, shown = ObjectKey("default", f"p{n}", f"uid-p{n}"), claim.given("a", on="n1")
        before, after = claim.build(), shown.reserved_for(pod.uid).build()
        tracker.on_claim_changed(None, before)
        tracker.reserve(before, pod, shown.build().status.allocation)
        (write,) = tracker.prepare_writes(pod.uid)
        tracker.on_outcome(write, Applied())
        steps = [lambda b=before, a=after: tracker.on_claim_changed(b, a)]
        steps.insert(shown_first, lambda uid=pod.uid: tracker.on_pod_bound(uid))
        for step in steps:
            step()
        tracker.check_consistent()
    assert len(looks) <= 8 * count
