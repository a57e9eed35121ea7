"""A profile: the plugins of one ``schedulerName``, in order, with their weights."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from arranger.cluster.pod_info import PodInfo
from arranger.framework.interface import Plugin
from arranger.framework.runtime.run import takes_part

#: Methods that decide whether a plugin takes part in a point at which order matters.
POINTS = (
    "pre_enqueue",
    "sort_key",
    "pre_filter",
    "filter",
    "post_filter",
    "take_back",
    "pre_score",
    "score",
    "reserve",
    "permit",
    "pre_bind",
    "bindable",
    "bind",
    "post_bind",
)


class ProfileError(ValueError):
    """The plugins do not add up to a working profile."""


@dataclass(frozen=True, slots=True)
class Weighted:
    """An enabled plugin; ``weight`` multiplies its normalised scores."""

    plugin: Plugin
    weight: int = 1


class Profile:
    """The plugins that schedule the pods of one ``schedulerName``.

    Attributes:
        scheduler_name: whose pods these plugins schedule.
        plugins: all of them, in configured order.
    """

    def __init__(self, scheduler_name: str, plugins: Sequence[Weighted]) -> None:
        """Sort the plugins into their extension points.

        Raises:
            ProfileError: no Bind plugin, not exactly one QueueSort plugin, a weight below 1, or
                two plugins of one name.
        """
        self.scheduler_name = scheduler_name
        self.plugins = tuple(plugins)
        self._at: dict[str, tuple[Plugin, ...]] = {
            point: tuple(w.plugin for w in plugins if takes_part(w.plugin, point))
            for point in POINTS
        }
        self.weights = {w.plugin.name: w.weight for w in plugins}
        self.by_name = {w.plugin.name: w.plugin for w in plugins}
        #: Plugins whose verdicts depend on more of the pod than its spec.
        self._signers = tuple(
            w.plugin
            for w in plugins
            if type(w.plugin).sign is not _spec_only
            and any(w.plugin in self._at[p] for p in ("pre_filter", "filter", "pre_score", "score"))
        )
        self._check()

    def at(self, point: str) -> tuple[Plugin, ...]:
        """The plugins that take part in an extension point, in order."""
        return self._at[point]

    @property
    def queue_sort(self) -> Plugin:
        """The one plugin that orders the queue."""
        return self._at["sort_key"][0]

    def sign(self, pod: PodInfo) -> Hashable | None:
        """The key of the pod's equivalence class, or ``None`` if it must be judged alone."""
        signs: list[Hashable] = [self.scheduler_name, pod.spec_key]
        for plugin in self._signers:
            sign = plugin.sign(pod)
            if sign is None:
                return None
            signs.append(sign)
        return tuple(signs)

    def _check(self) -> None:
        names = [w.plugin.name for w in self.plugins]
        if len(set(names)) != len(names):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise ProfileError(f"profile {self.scheduler_name!r}: enabled twice: {twice}")
        if len(self._at["sort_key"]) != 1:
            sorting = [p.name for p in self._at["sort_key"]]
            raise ProfileError(
                f"profile {self.scheduler_name!r}: exactly one plugin must sort the queue, "
                f"found {sorting}"
            )
        if not self._at["bind"]:
            raise ProfileError(f"profile {self.scheduler_name!r}: no plugin binds pods")
        for weighted in self.plugins:
            if weighted.weight < 1:
                raise ProfileError(
                    f"profile {self.scheduler_name!r}: the weight of {weighted.plugin.name} is "
                    f"{weighted.weight}; it must be at least 1 (disable the plugin instead)"
                )


def _spec_only(self: Plugin, pod: PodInfo) -> Hashable | None:
    """For ``sign``: verdicts depend on nothing of the pod but its spec."""
    del self, pod
    return ()


class SpecPlugin(Plugin):
    """A plugin whose verdicts about a pod depend only on the pod's spec."""

    sign = _spec_only
