"""What comes after the start in any order ends where a start with all of it begins."""

from __future__ import annotations

import random

import pytest

from arranger.api.types.core import Node
from arranger.engine.engine import Engine
from tests.simulation.warm_cold.engines import an_engine, decide, lanes_of, tell, typed
from tests.simulation.warm_cold.worlds import a_world, first_seeds, shuffled


def gates_of(engine: Engine) -> dict[str, str]:
    """Entity → where in the queue it is."""
    return {entity.key: entity.state.value for entity in engine.queue.entities()}


@pytest.mark.parametrize("first", first_seeds(120))
def test_objects_that_come_later_in_any_order_end_in_the_same_lanes_gates_and_decisions(
    first: int,
) -> None:
    for seed in range(first, first + 20):
        world = a_world(seed)
        objects = typed(world.objects)
        nodes = [each for each in objects if isinstance(each, Node)]
        others = [each for each in objects if not isinstance(each, Node)]
        cold = an_engine()
        tell(cold, objects)
        cold.handlers.start(0.0)
        cold.ledger.refresh(cold.cluster)
        engines = []
        for order in range(3):
            engine = an_engine()
            # Nodes come first: of equal ones, that is taken which has been known the longest.
            tell(engine, nodes)
            mixed = shuffled(others, order)
            known = random.Random(order).randint(0, len(mixed))
            tell(engine, mixed[:known])
            engine.handlers.start(0.0)
            tell(engine, mixed[known:])
            engine.check_consistent()
            assert lanes_of(engine) == lanes_of(cold), f"world {seed}, order {order}"
            assert gates_of(engine) == gates_of(cold), f"world {seed}, order {order}"
            engines.append(engine)
        expected = decide(cold, 0.0)
        for order, engine in enumerate(engines):
            assert decide(engine, 0.0) == expected, f"world {seed}, order {order}"
