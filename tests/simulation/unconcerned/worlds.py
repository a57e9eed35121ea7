"""Busy worlds that are decided in small steps, with what concerns nobody between any two."""

from __future__ import annotations

from collections.abc import Iterator

from arranger.api.effects import Bind, DeletePod, Effect
from tests.builders import NodeBuilder, PodBuilder
from tests.simulation.queue_order.worlds import BusyWorld
from tests.simulation.unconcerned.changes import Change, Surroundings, namespaces, resident

#: A time, what is done, of which pod, and on which node.
Done = tuple[float, str, str, str]


class SteppedWorld(BusyWorld):
    """A busy world of a seed; equal worlds do the same.

    Attributes:
        runs: how often the engine has run.
        steps_taken: how many steps all attempts have taken.
        done: each Binding and each eviction, with its time.
    """

    def __init__(self, seed: int, change: Change | None = None) -> None:
        """With a ``change`` after each step."""
        self.change, self.runs, self.steps_taken = change, 0, 0
        self.done: list[Done] = []
        super().__init__(seed)
        for namespace in namespaces():
            self.engine.handlers.on_object_updated(namespace, self.now)
        self.engine.handlers.on_pod_updated(resident().build(), self.now)

    def _questions_at_once(self) -> int:
        return 512  # else events that come in each step leave no time for anything else

    def _decisions(self) -> Iterator[list[Effect]]:
        yield self.engine.run(self.now, limit=0)
        while self.engine.ready:
            self.runs += 1
            assert self.runs < 3000, "it never comes to an end"
            effects = self.engine.run(self.now, limit=1, seconds=0.0)
            self.steps_taken += len(self.engine.take_stats().attempt_seconds)
            for effect in effects:
                if isinstance(effect, Bind):
                    self.done.append((self.now, "bound", effect.pod.name, effect.node))
                elif isinstance(effect, DeletePod):
                    self.done.append((self.now, "evicted", effect.pod.name, ""))
            yield effects
            if self.change is not None:
                self.change(self._surroundings(), self.runs)

    def _surroundings(self) -> Surroundings:
        running: dict[str, PodBuilder] = {
            name: self.pods[name].on(node)
            for name, node in self.running.items()
            if name in self.pods and name not in self.leaving
        }
        nodes: dict[str, NodeBuilder] = self.nodes
        return Surroundings(self.engine, nodes, running, self.queue_objects, self.now)
