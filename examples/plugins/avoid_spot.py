"""Keep important pods off nodes that may be taken back (configuration: ``pluginFiles``)."""

from arranger.framework import DependsOn, SpecOnlyPlugin


class AvoidSpot(SpecOnlyPlugin):  # pods of equal spec, priority included, share results
    depends_on = DependsOn.NODE  # a result changes only with its node

    def filter_node(self, state, pod, node):
        if node.labels.get("spot") == "true" and pod.priority >= 1000:
            return self.reject("node(s) may be taken back", resolvable=False)
        return None

    def score_node(self, state, pod, node):
        return 0 if node.labels.get("spot") == "true" else 100
