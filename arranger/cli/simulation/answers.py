"""Why pods of an embedded cluster wait: the answers of ``arranger why``."""

from __future__ import annotations

from typing import Final

from arranger.daemon.config.schema import Config
from arranger.embedded.server import EmbeddedCluster
from arranger.shadow.answers.questions import Why
from arranger.shadow.answers.why import Answer
from arranger.shadow.shadow import Shadow

#: Pods that are asked about; the others wait for much the same.
_MOST: Final = 2


def why_waiting(cluster: EmbeddedCluster) -> list[Answer]:
    """The answers for the first pods that wait for a scheduler of ours."""
    config = Config()
    ours = {profile.scheduler_name for profile in config.profiles}
    waiting = [
        pod["metadata"]
        for pod in cluster.objects("pods")
        if not pod["spec"].get("nodeName") and pod["spec"]["schedulerName"] in ours
    ]
    store = cluster.store
    objects = [obj for resource in store.resources() for obj in store.items(resource)]
    shadow = Shadow.from_manifests(objects, config)
    return [
        answer
        for meta in waiting[:_MOST]
        for answer in shadow.ask_now(Why(f"pod/{meta['name']}", meta["namespace"]))
    ]
