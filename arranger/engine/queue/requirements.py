"""What must be met before an entity may be tried at all."""

from __future__ import annotations

from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.queue.collaborators import Gate
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


def _run_pre_enqueue(member: QueuedPod) -> Status | None:
    for plugin in member.profile.plugins_at("pre_enqueue"):
        with plugin_errors(plugin.name, "PreEnqueue"):
            answer = plugin.pre_enqueue(member.pod)
        if answer is not None and answer.rejected:
            return Status(answer.code, answer.reasons, plugin.name)
    return None
