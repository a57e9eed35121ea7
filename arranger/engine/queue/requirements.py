"""What must be met before an entity may be tried at all, and who waits for that."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.queue.collaborators import Gate
from arranger.engine.queue.hints import HelpQuestion
from arranger.engine.queue.interest_index import InterestIndex
from arranger.framework.runtime.plugin_errors import PluginFailureError, plugin_errors
from arranger.framework.status import Status


class Requirements:
    """Asks the gang's gate and the PreEnqueue plugins of each member."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def unmet(self, entity: QueuedEntity) -> list[Status]:
        """What holds the entity back: first what its gang lacks, then PreEnqueue plugins.

        A plugin that fails holds nothing back: the attempt will say that it has failed
        (``entity.plugin_error``).
        """
        entity.plugin_error = ""
        refusals: list[Status] = []
        for member in entity.unchecked():
            try:
                refusal = _run_pre_enqueue(member)
            except PluginFailureError as error:
                entity.plugin_error, entity.plugin_fault = str(error), error
                return []
            if refusal is None:
                entity.mark_ready(member)
            else:
                refusals.append(refusal)
        if entity.group is None:
            return refusals
        lacking = self._gate.missing_requirement(entity)
        return [] if lacking is None else [lacking, *refusals]


@dataclass(slots=True, eq=False)
class GatedEntities:
    """The entities that are not to be tried, until an event may help what refuses them."""

    _entities: dict[Hashable, QueuedEntity] = field(default_factory=dict)
    _interests: InterestIndex = field(default_factory=InterestIndex)

    def __len__(self) -> int:
        return len(self._entities)

    @property
    def last(self) -> int:
        """The number of the entity that came last."""
        return self._interests.last

    def add(self, entity: QueuedEntity) -> None:
        """An entity is gated from now on; it says by what."""
        self._entities[entity.key] = entity
        self._interests.add(entity.key, entity)

    def remove(self, entity: QueuedEntity) -> None:
        """An entity is queued otherwise, or gone."""
        del self._entities[entity.key]
        self._interests.remove(entity.key)

    def concern(self, question: HelpQuestion) -> bool:
        """Whether events of that type matter to any of them."""
        return self._interests.concerns_any(question, self._entities.__getitem__)

    def asking(self, question: HelpQuestion, until: int) -> list[Hashable]:
        """The keys of those to whom events of that type matter, up to the one of that number."""
        return self._interests.asking(question, self._entities.__getitem__, until)

    def still(self, keys: Iterable[Hashable]) -> list[QueuedEntity]:
        """Those of the entities with these keys that are gated still."""
        return [self._entities[key] for key in keys if key in self._entities]

    def by_key(self) -> Mapping[Hashable, QueuedEntity]:
        """All of them."""
        return self._entities

    def check_consistent(self) -> None:
        """Check that all are found by what refuses them.

        Raises:
            AssertionError: one is not.
        """
        self._interests.check_consistent(set(self._entities))


def _run_pre_enqueue(member: QueuedPod) -> Status | None:
    for plugin in member.profile.plugins_at("pre_enqueue"):
        with plugin_errors(plugin.name, "PreEnqueue"):
            answer = plugin.pre_enqueue(member.pod)
        if answer is not None and answer.rejected:
            return Status(answer.code, answer.reasons, plugin.name)
    return None
