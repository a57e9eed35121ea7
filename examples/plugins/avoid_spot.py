"""Keep important pods off nodes that may be taken back (configuration: ``pluginFiles``)."""

from arranger.framework import DependsOn, Plugin


class AvoidSpot(Plugin):
    depends_on = DependsOn.NODE  # a verdict changes only with its node

    def sign_pod(self, pod):
        return ()  # pods of equal spec (priority included) share verdicts

    def filter_node(self, state, pod, node):
        if node.labels.get("spot") == "true" and pod.priority >= 1000:
            return self.reject("node(s) may be taken back", resolvable=False)
        return None

    def score_node(self, state, pod, node):
        return 0 if node.labels.get("spot") == "true" else 100
