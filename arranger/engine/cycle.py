"""One scheduling cycle: judge the nodes for an entity, and reserve the best."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from arranger.api.effects import Effect
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import Entity
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.evaluation import Evaluation
from arranger.framework.plugin import Nomination, Plugin, Wait
from arranger.framework.profile import Profile
from arranger.framework.status import CycleState, Status

#: Evaluations kept; each holds a few arrays as long as the node table.
_KEPT_CLASSES = 64


@dataclass(frozen=True, slots=True)
class Placed:
    """A node is reserved; ``wait`` is how long Permit may hold the pod (0: not at all)."""

    node: str
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Unplaced:
    """No node, and why; ``rejected_by`` are the plugins whose events may change that."""

    message: str
    rejected_by: frozenset[str]
    nominated: str = ""
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin raised: the attempt says nothing about the pod."""

    message: str


Decision = Placed | Unplaced | Broken


class PluginFailureError(Exception):
    """A plugin raised; carries its name and what it raised."""

    def __init__(self, plugin: Plugin, point: str, error: Exception) -> None:
        super().__init__(f'running {point} plugin "{plugin.name}": {type(error).__name__}: {error}')


class Cycle:
    """Runs entities through the extension points up to Permit."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._evaluations: OrderedDict[tuple[str, Hashable], Evaluation] = OrderedDict()

    def decide(self, entity: Entity) -> Decision:
        """Place an entity on the best feasible node, or say why it cannot be placed.

        When :class:`Placed` is returned the node is assumed in the cluster and every Reserve
        plugin has agreed; otherwise nothing is held.
        """
        try:
            evaluation = self.evaluate(entity.profile, entity.pod, entity.sign)
            row = evaluation.best()
            if row < 0:
                return self._no_room(entity, evaluation)
            return self._reserve(entity, evaluation.state, self._cluster.table.name(row))
        except PluginFailureError as failure:
            return Broken(str(failure))
        except Exception as error:
            # Vectorised plugins run inside the evaluation; whichever raised, the pod must not
            # be lost and the others must go on.
            return Broken(f"{type(error).__name__}: {error}")

    def evaluate(self, profile: Profile, pod: PodInfo, sign: Hashable | None) -> Evaluation:
        """The evaluation of the pod's class, brought up to date."""
        if sign is None:
            return Evaluation(profile, self._cluster, pod)
        key = (profile.scheduler_name, sign)
        evaluation = self._evaluations.get(key)
        if evaluation is None:
            evaluation = self._evaluations[key] = Evaluation(profile, self._cluster, pod)
            if len(self._evaluations) > _KEPT_CLASSES:
                self._evaluations.popitem(last=False)
            return evaluation
        self._evaluations.move_to_end(key)
        try:
            evaluation.refresh()
        except Exception:
            # Half-refreshed answers must not be trusted by the next pod of the class.
            del self._evaluations[key]
            raise
        return evaluation

    def unreserve(self, entity: Entity) -> None:
        """Give the entity's reservation up, plugins first, in reverse order."""
        for plugin in reversed(entity.profile.at("reserve")):
            plugin.unreserve(entity.state, entity.pod, entity.node)
        self._cluster.remove(entity.uid)
        entity.node = ""
        entity.state = CycleState()
        entity.awaiting.clear()

    # --- inside ----------------------------------------------------------------------------

    def _no_room(self, entity: Entity, evaluation: Evaluation) -> Unplaced:
        diagnosis = evaluation.diagnosis()
        nominated = ""
        effects: tuple[Effect, ...] = ()
        for plugin in entity.profile.at("post_filter"):
            answer = self._post_filter(plugin, entity, evaluation, diagnosis)
            if isinstance(answer, Nomination):
                nominated, effects = answer.node, answer.effects
                break
            if answer is not None and answer.reasons:
                diagnosis.post_filter = answer.message()
        return Unplaced(diagnosis.message(), diagnosis.plugins(), nominated, effects)

    def _post_filter(
        self, plugin: Plugin, entity: Entity, evaluation: Evaluation, diagnosis: Diagnosis
    ) -> Nomination | Status | None:
        try:
            return plugin.post_filter(evaluation.state, entity.pod, self._cluster, diagnosis)
        except Exception as error:
            raise PluginFailureError(plugin, "PostFilter", error) from error

    def _reserve(self, entity: Entity, state: CycleState, node: str) -> Decision:
        self._cluster.assume(entity.pod, node)
        entity.node = node
        # The class goes on using its state; what Reserve and Permit note is this pod's own.
        entity.state = CycleState(state)
        try:
            refusal, wait = self._ask(entity)
        except Exception:
            self.unreserve(entity)
            raise
        if refusal is not None:
            self.unreserve(entity)
            return Unplaced(refusal.message(), frozenset({refusal.plugin}))
        return Placed(node, wait)

    def _ask(self, entity: Entity) -> tuple[Status | None, float]:
        """Reserve and Permit: the first refusal, or how long to wait at most."""
        for plugin in entity.profile.at("reserve"):
            try:
                answer = plugin.reserve(entity.state, entity.pod, entity.node)
            except Exception as error:
                raise PluginFailureError(plugin, "Reserve", error) from error
            if answer is not None and answer.rejected:
                return Status(answer.code, answer.reasons, plugin.name), 0.0
        return self.permit(entity)

    def permit(self, entity: Entity) -> tuple[Status | None, float]:
        """Ask the Permit plugins: the first refusal, or the shortest wait (0: go ahead).

        Raises:
            PluginFailureError: one of them raised.
        """
        waits: list[float] = []
        for plugin in entity.profile.at("permit"):
            try:
                answer = plugin.permit(entity.state, entity.pod, entity.node)
            except Exception as error:
                raise PluginFailureError(plugin, "Permit", error) from error
            if isinstance(answer, Wait):
                waits.append(answer.timeout)
            elif answer is not None and answer.rejected:
                return Status(answer.code, answer.reasons, plugin.name), 0.0
        return None, min(waits, default=0.0)
