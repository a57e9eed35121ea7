"""Stakes of queues: what each and its parts use of something, or are guaranteed if that is more."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from tests.specification.trace import QUEUES, World
from tests.specification.vocabulary.manifests import name_of
from tests.specification.vocabulary.queues import guaranteed_by, path

ROOT = "root"


class Stakes:
    """Those of all queues, of one resource.

    Args:
        own: queue → what its pods use, not those of its parts.

    Attributes:
        inside: queue → what its own pods use, and the stakes of its parts.
        of_all: whether any queue is guaranteed anything.
    """

    def __init__(self, world: World, what: str, own: Mapping[str, int]) -> None:
        self._world = world
        queues = world.of(QUEUES)
        guaranteed = {name: guaranteed_by(q["spec"]).get(what, 0) for name, q in queues.items()}
        self.of_all = any(guaranteed.values())
        self.inside: Counter[str] = Counter()
        self._promised: Counter[str] = Counter()
        parts: defaultdict[str, list[str]] = defaultdict(list)
        for name in {*queues, *own}:
            above = self.path(name)
            if above[0] == name and len(above) > 1:
                parts[above[1]].append(name)
            else:  # it is the root, or part of a circle
                self.inside[ROOT] += own.get(name, 0)

        def add(name: str) -> None:
            for part in parts[name]:
                add(part)
                mine = guaranteed.get(part, 0)
                self.inside[part] += own.get(part, 0)
                self.inside[name] += max(mine, self.inside[part])
                self._promised[name] += max(mine, self._promised[part])

        add(ROOT)

    def path(self, queue: str) -> list[str]:
        """A queue and those above it, the root at the end; of queues in a circle only the root."""
        found = path(self._world, queue)
        names = [name_of(each) for each in found] or [queue]
        if found and found[-1]["spec"].get("parent") in names:
            return [ROOT]
        return names if names[-1] == ROOT else [*names, ROOT]

    def are_kept_in(self, queue: str) -> bool:
        """Whether a part of it, or a part of that, is guaranteed anything."""
        return self._promised[queue] > 0
