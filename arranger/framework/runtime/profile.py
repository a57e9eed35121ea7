"""A profile: the plugins of one ``schedulerName``, in order, with their weights."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from arranger.cluster.pod_info import PodInfo
from arranger.framework.cluster_event import ActionType
from arranger.framework.interface import DependsOn, Plugin, SpecOnlyPlugin
from arranger.framework.runtime.active_plugins import ActivePlugins
from arranger.framework.runtime.run import implements

#: The methods of extension points whose plugins run in order.
POINTS = (
    "pre_enqueue",
    "sort_key",
    "pre_filter",
    "filter",
    "post_filter",
    "pod_group_post_filter",
    "pre_score",
    "score",
    "reserve",
    "permit",
    "pre_bind",
    "wait_pre_bind",
    "bind",
    "post_bind",
)


class ProfileError(ValueError):
    """The plugins do not make a working profile."""


@dataclass(frozen=True, slots=True)
class PluginWeight:
    """An enabled plugin; ``weight`` multiplies its normalised scores."""

    plugin: Plugin
    weight: int = 1


class Profile:
    """The plugins that schedule the pods of one ``schedulerName``.

    Attributes:
        scheduler_name: whose pods these plugins schedule.
        plugins: all of them, in configured order.
        filtering_plugins: names of those that may reject a node, or all of them.
        monotone_filters: names of the plugins that are ``monotone``.
        object_filters: names of those that may reject a pod for other objects than nodes and pods,
            whoever leaves: its claims for example.
        resource_filters: names of the plugins that count resources, of nodes or of quotas.
        node_resource_filters: names of the plugins that count resources of nodes.
        quota_plugin: name of the first plugin that counts quotas, "" if none does.
        active: those that have a say about a class of pods.
        cluster_pre_filters, cluster_pre_scorers: those whose PreFilter, and PreScore, depend on
            everything.
        node_signers: plugin → its ``sign_pod_for_nodes``, where it states one of its own.
        evicting_plugin: the first PostFilter plugin that evicts pods, if there is one.
    """

    def __init__(self, scheduler_name: str, plugins: Sequence[PluginWeight]) -> None:
        """Sort the plugins into their extension points.

        Raises:
            ProfileError: no Bind plugin, not exactly one QueueSort plugin, a weight below 1, or
                two plugins of one name.
        """
        self.scheduler_name = scheduler_name
        self.plugins = tuple(plugins)
        self._by_point: dict[str, tuple[Plugin, ...]] = {
            point: tuple(w.plugin for w in plugins if implements(w.plugin, point))
            for point in POINTS
        }
        self.weights = {w.plugin.name: w.weight for w in plugins}
        self.by_name = {w.plugin.name: w.plugin for w in plugins}
        filters, scorers = self._by_point["filter"], self._by_point["score"]
        self.active = ActivePlugins(filters, scorers, self.weights)
        self.cluster_pre_filters, self.cluster_pre_scorers = (
            tuple(p for p in self._by_point[point] if p.depends_on is DependsOn.CLUSTER)
            for point in ("pre_filter", "pre_score")
        )
        self.node_signers: dict[str, Callable[[PodInfo], Hashable]] = {
            w.plugin.name: w.plugin.sign_pod_for_nodes
            for w in plugins
            if "sign_pod_for_nodes" in vars(type(w.plugin))
        }
        #: Plugins whose results depend on more of the pod than its spec.
        self._signature_plugins = tuple(
            w.plugin
            for w in plugins
            if type(w.plugin).sign_pod is not SpecOnlyPlugin.sign_pod
            and any(
                w.plugin in self._by_point[p]
                for p in ("pre_filter", "filter", "pre_score", "score")
            )
        )
        self.filtering_plugins = frozenset(
            p.name for point in ("pre_filter", "filter") for p in self._by_point[point]
        )
        self.monotone_filters = frozenset(p.name for p in self.by_name.values() if p.monotone)
        about_objects = (p.name for p in filters if _looks_at_objects(p) and not p.monotone)
        self.object_filters = frozenset(about_objects)
        counting = (p.name for p in self.by_name.values() if p.counts_resources)
        self.node_resource_filters = frozenset(counting)
        quotas = [p.name for p in self.by_name.values() if p.counts_quota]
        self.resource_filters = self.node_resource_filters.union(quotas)
        self.quota_plugin = next(iter(quotas), "")
        self.evicting_plugin = next((p for p in self._by_point["post_filter"] if p.evicts), None)
        self._validate()

    def plugins_at(self, point: str) -> tuple[Plugin, ...]:
        """The plugins that take part in an extension point, in order."""
        return self._by_point[point]

    @property
    def queue_sort(self) -> Plugin:
        """The one plugin that orders the queue."""
        return self._by_point["sort_key"][0]

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        """The key of the pod's equivalence class, or ``None`` if it must be evaluated alone."""
        fragments: list[Hashable] = [self.scheduler_name, pod.spec_key]
        for plugin in self._signature_plugins:
            fragment = plugin.sign_pod(pod)
            if fragment is None:
                return None
            fragments.append(fragment)
        return tuple(fragments)

    def _validate(self) -> None:
        names = [w.plugin.name for w in self.plugins]
        if len(set(names)) != len(names):
            duplicates = sorted({n for n in names if names.count(n) > 1})
            text = ", ".join(duplicates)
            raise ProfileError(f"profile {self.scheduler_name!r}: enabled twice: {text}")
        if len(self._by_point["sort_key"]) != 1:
            sorting = ", ".join(p.name for p in self._by_point["sort_key"]) or "none"
            raise ProfileError(
                f"profile {self.scheduler_name!r}: exactly one plugin must sort the queue, "
                f"found {sorting}"
            )
        if not self._by_point["bind"]:
            raise ProfileError(f"profile {self.scheduler_name!r}: no plugin binds pods")
        for weighted in self.plugins:
            if weighted.weight < 1:
                raise ProfileError(
                    f"profile {self.scheduler_name!r}: the weight of {weighted.plugin.name} is "
                    f"{weighted.weight}; it must be at least 1 (disable the plugin instead)"
                )


def _looks_at_objects(plugin: Plugin) -> bool:
    return any(hint.action_types & ActionType.OTHER for hint in plugin.queueing_hints)
