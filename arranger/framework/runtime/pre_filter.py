"""Runs PreFilter: what the plugins find out about a pod before any node is filtered."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from arranger.cluster import BoolArray, Cluster, PodInfo
from arranger.cluster.attempt_work import UnfinishedError
from arranger.framework.interface import PreFilterResult
from arranger.framework.runtime.plugin_errors import PluginFailureError, error_text
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import Code, CycleState, Status


@dataclass(slots=True)
class PreFilterOutcome:
    """The result of all PreFilter plugins.

    Attributes:
        status: the rejection of the pod as a whole; None if it passed.
        skipped: names of the plugins whose Filter is to be skipped.
        allowed_rows: the rows that all node lists name; None if no plugin gave a list.
        restricted_by: names of the plugins that gave one, sorted.
        unconcerned: names of the plugins that skipped the pod, or were not asked any more.
    """

    status: Status | None = None
    skipped: set[str] = field(default_factory=set)
    allowed_rows: BoolArray | None = None
    restricted_by: list[str] = field(default_factory=list)
    unconcerned: set[str] = field(default_factory=set)


def run_pre_filter(
    profile: Profile, state: CycleState, pod: PodInfo, cluster: Cluster
) -> PreFilterOutcome:
    """Ask the PreFilter plugins of the profile.

    Raises:
        PluginFailureError: one of them raised.
    """
    outcome = PreFilterOutcome()
    names: frozenset[str] | None = None
    plugins = profile.plugins_at("pre_filter")
    for position, plugin in enumerate(plugins):
        try:
            answer = plugin.pre_filter(state, pod, cluster)
        except UnfinishedError:
            raise
        except Exception as error:
            raise PluginFailureError(error_text(plugin.name, "PreFilter", error)) from error
        if answer is None:
            continue
        if isinstance(answer, PreFilterResult):
            names = answer.node_names if names is None else names & answer.node_names
            outcome.restricted_by = sorted([*outcome.restricted_by, plugin.name])
            if not names:
                outcome.status = _no_node_left(outcome.restricted_by)
                outcome.unconcerned |= {later.name for later in plugins[position + 1 :]}
                return outcome
        elif answer.code is Code.SKIP:
            outcome.skipped.add(plugin.name)
            outcome.unconcerned.add(plugin.name)
        elif answer.rejected:
            outcome.status = replace(answer, plugin=answer.plugin or plugin.name)
            if answer.code is not Code.UNSCHEDULABLE:
                outcome.unconcerned |= {later.name for later in plugins[position + 1 :]}
                return outcome
            # Evictions may help, unless a later plugin says otherwise.
    if names is not None:
        outcome.allowed_rows = np.zeros(cluster.table.size, dtype=np.bool_)
        outcome.allowed_rows[cluster.table.rows(names)] = True
    return outcome


def _no_node_left(plugins: list[str]) -> Status:
    reason = f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"
    if len(plugins) == 1:
        reason = f"node(s) didn't satisfy plugin {plugins[0]}"
    return Status(Code.UNRESOLVABLE, (reason,), plugins[-1])
