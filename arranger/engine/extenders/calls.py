"""The questions to extenders about one entity."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from arranger.api.effects import ExtenderQuery, NodeVictims, Refused
from arranger.api.extenders import Extender
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.queue_state import QueueState
from arranger.engine.extenders.answers import ExtenderAnswers
from arranger.engine.pod.schedule_result import Unschedulable


@dataclass(frozen=True, slots=True)
class ClassToAskAbout:
    """The members of one class of an entity, and the extenders that are interested in them."""

    kind: Hashable
    members: Sequence[QueuedPod]
    extenders: tuple[Extender, ...]


@dataclass(slots=True, eq=False)
class ExtenderCall:
    """The questions about one entity that belong together, and their answers.

    Attributes:
        deadline: when it has waited long enough, in the engine's clock.
        event_count: how many events there had been when the questions were asked.
        answers: what has been decided about each class.
        heap_version: the entity's, as long as it waits for this call.
        revision: the entity's, when the questions were asked.
        to_ask: the classes about which the questions are yet to be made.
        steps: how many steps of making them, and of the attempt that follows, there have been.
        pending: the questions without an answer yet.
        unschedulable: for questions about victims, what will become of the pod without an answer.
        proposed: node → the victims there that extenders are asked about.
        victims: the answer to these; each node is taken out of it when it gets its rank.
        ranked: the answer as a heap: what it would cost, the node, its victims.
        refused: why a question was not answered.
    """

    entity: QueuedEntity
    deadline: float
    event_count: int
    answers: ExtenderAnswers
    heap_version: int = 0
    revision: int = 0
    to_ask: deque[ClassToAskAbout] = field(default_factory=deque)
    steps: int = 0
    pending: list[ExtenderQuery] = field(default_factory=list)
    unschedulable: Unschedulable | None = None
    proposed: Mapping[str, NodeVictims] = field(default_factory=dict)
    victims: dict[str, NodeVictims] | None = None
    ranked: list[tuple[tuple[float, ...], str, NodeVictims]] = field(default_factory=list)
    refused: Refused | None = None

    @property
    def is_current(self) -> bool:
        """Whether the entity still waits for it."""
        return (
            self.entity.state is QueueState.WAITING_FOR_EXTENDERS
            and self.entity.heap_version == self.heap_version
        )

    @property
    def is_answered(self) -> bool:
        """Whether nothing is left to be asked or answered."""
        return not self.pending and not self.to_ask

    @property
    def may_go_on(self) -> bool:
        """Whether the entity's attempt, that was begun with the answers, is to go on with them."""
        entity = self.entity
        going_on = entity.slices > 0 and entity.state is QueueState.ACTIVE
        return going_on and entity.revision == self.revision
