"""Which nodes pass the filters for a class of pods, by what the filters depend on."""

from __future__ import annotations

from dataclasses import dataclass

from arranger.cluster import BoolArray
from arranger.framework.interface import DependsOn, Plugin


@dataclass(slots=True)
class FeasibleRows:
    """Row → whether the filters pass,

    Attributes:
        static: that depend on the node's object only;
        by_node: with those that depend on its pods as well;
        all: with those that depend on the whole cluster as well.
    """

    static: BoolArray
    by_node: BoolArray
    all: BoolArray

    def scorable(self, plugin: Plugin) -> BoolArray:
        """The rows that can become feasible before the plugin is run on them again."""
        if plugin.depends_on is DependsOn.CLUSTER:
            return self.all
        return self.by_node if plugin.depends_on is DependsOn.USAGE else self.static
