"""ImageLocality: prefer nodes that have the pod's images already."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import Final

import numpy as np

from arranger.cluster import BoolArray, IntArray, NodeView, PodInfo
from arranger.framework import CycleState, DependsOn, SpecOnlyPlugin
from arranger.plugins.helpers.node_signatures import signature_of

_MIB: Final = 1024 * 1024
#: Below this many bytes an image counts for nothing,
MIN_THRESHOLD: Final = 23 * _MIB
#: and above this many, per container, for no more.
MAX_CONTAINER_THRESHOLD: Final = 1000 * _MIB

#: Different images on nodes that are looked for; of a pod with more the first ones count.
MAX_IMAGES: Final = 32
#: No image counts for more bytes, whatever its node says.
_MAX_SIZE: Final = 2**40


class ImageLocality(SpecOnlyPlugin):
    """Score by the size of the pod's images present, scaled by how widely each is spread.

    As upstream, image volumes count as images, but not among the containers that the upper
    threshold is multiplied by.
    """

    # How widely an image is spread depends on all nodes.
    depends_on = DependsOn.NODES
    queueing_hints = ()

    def sign_pod_for_nodes(self, pod: PodInfo) -> Hashable | None:
        """The images, in containers and in volumes."""
        spec = pod.pod.spec
        containers = [c.image for c in (*spec.init_containers, *spec.containers)]
        return signature_of((containers, [v.image for v in spec.volumes if v.image is not None]))

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """0–100, linear between the two thresholds."""
        spec = pod.pod.spec
        containers = [*spec.init_containers, *spec.containers]
        images = [c.image for c in containers]
        images += [v.image.reference for v in spec.volumes if v.image is not None]
        table = nodes.table
        present = np.zeros(table.size, dtype=np.int64)
        # Name of an image that some node has → how often the pod names it.
        held: dict[str, int] = {}
        for name in map(normalized_image_name, images):
            if table.images.holders(name):
                held[name] = held.get(name, 0) + 1
        if not held:
            return np.zeros(nodes.length, dtype=np.int64)
        for name, times in islice(held.items(), MAX_IMAGES):
            holders = table.images.holders(name)
            spread = len(holders) / table.count
            sizes = np.fromiter(holders.values(), dtype=np.float64, count=len(holders))
            sizes = np.clip(sizes * spread, 0, _MAX_SIZE)
            present[list(holders)] += times * sizes.astype(np.int64)
        most = MAX_CONTAINER_THRESHOLD * len(containers)
        span = most - MIN_THRESHOLD
        scores: IntArray = 100 * (present.clip(MIN_THRESHOLD, most) - MIN_THRESHOLD) // span
        return scores[nodes.rows]


def normalized_image_name(image: str) -> str:
    """The image's name with its tag, ``latest`` unless it states one."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
