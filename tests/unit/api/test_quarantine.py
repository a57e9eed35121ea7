"""Objects that are set aside, and when each is tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from arranger.api.effects import ObjectReference
from arranger.api.quarantine import Quarantine
from arranger.controllers.runtime.barrier import ObjectBarrier
from tests.simulation.harnesses.simulation import VIRTUAL_TIME as VIRTUAL


def about(name: str, kind: str = "Pod") -> ObjectReference:
    return ObjectReference("v1", kind, "default", name)


def _retry(_: float) -> None:
    """It is tried again."""


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add without retry", "release", "retry at", "due", "drop"]),
        st.sampled_from("abc"),
        st.integers(0, 4),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_is_tried_when_it_is_due_as_if_all_were_looked_at(
    steps: list[tuple[str, str, int]],
) -> None:
    quarantine, now = Quarantine(), 0.0
    for what, name, wait in steps:
        now += wait
        match what:
            case "add":
                quarantine.add(about(name), ValueError(), now, _retry)
            case "add without retry":
                quarantine.add(about(name), ValueError(), now)
            case "release":
                quarantine.release("Pod", "default", name)
            case "retry at":
                quarantine.retry_at("Pod", "default", name, now + wait, _retry)
            case "drop":
                quarantine.drop_retries()
            case _:
                due = {o.key for o in quarantine if o.retry is not None and o.retry_at <= now}
                assert {found.key for found in quarantine.take_due(now)} == due
                assert quarantine.take_due(now) == []
        times = [found.retry_at for found in quarantine if found.retry is not None]
        assert quarantine.next_due() == min(times, default=None)


class Gauges:
    """Keeps what was last set."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}
        self.calls = 0

    def set_gauge(self, name: str, value: float, **labels: Any) -> None:
        self.last[labels["kind"]] = value
        self.calls += 1

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


@VIRTUAL
async def test_an_object_counts_once_however_many_hold_it() -> None:
    gauges = Gauges()
    barrier = ObjectBarrier(metrics=gauges)  # type: ignore[arg-type]
    one, two = barrier.add_informer(), barrier.add_informer()
    for quarantine in (one, two, one):
        barrier.on_unheard(quarantine, about("a"), ValueError(), None)
    barrier.on_reconcile_fault(about("a"), ValueError())
    barrier.on_reconcile_fault(about("j", "Job"), ValueError())
    assert gauges.last == {"Pod": 1, "Job": 1}
    barrier.on_heard(one, about("a"))
    barrier.on_reconciled(about("a"))
    barrier.on_reconciled(about("a"))
    assert gauges.last == {"Pod": 1, "Job": 1}
    barrier.on_heard(two, about("a"))
    assert gauges.last == {"Pod": 0, "Job": 1}
