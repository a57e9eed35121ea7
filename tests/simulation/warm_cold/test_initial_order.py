"""The order in which the initial lists come in decides nothing."""

from __future__ import annotations

import pytest

from arranger.api.extenders import Extender
from tests.queueing import GPU
from tests.simulation.warm_cold.engines import an_engine, decide, state_of, tell, typed
from tests.simulation.warm_cold.worlds import a_world, first_seeds, shuffled

#: Seconds after the start at which decisions are compared: back-offs have ended between them.
MOMENTS = (0.0, 5.0, 30.0)
#: In some worlds one has a say about pods with cards.
EXTENDERS = (
    Extender("http://e", "filter", "score", "preempt", managed_resources=frozenset({GPU})),
)


@pytest.mark.parametrize("first", first_seeds(120))
def test_a_start_in_any_order_of_delivery_decides_the_same(first: int) -> None:
    for seed in range(first, first + 20):
        world = a_world(seed, past=True)
        starts = []
        for order in range(3):
            engine = an_engine(extenders=EXTENDERS if seed % 4 == 0 else ())
            tell(engine, shuffled(typed(world.objects), order))
            starts.append([(decide(engine, now), state_of(engine)) for now in MOMENTS])
        for other in starts[1:]:
            for (decided, state), (expected, known) in zip(other, starts[0], strict=True):
                assert decided == expected, f"world {seed}"
                assert state == known, f"world {seed}"
