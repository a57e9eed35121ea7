"""Cards: accelerator models, as nodes have them and pods request them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from arranger.api.bounded_cache import bounded_cache
from arranger.api.parsing.scalars import parse_int_or
from arranger.api.types.core import Node

#: ``nvidia.com/gpu.product``: the label that names a node's card.
_PRODUCT: Final = re.compile(r"(?P<vendor>.+?)/(?P<kind>\w+)\.product")
#: ``nvidia.com/mig-1g.18gb``: the resource of a slice.
_MIG: Final = "/mig-"

#: Resource → the card that one unit of it is.
Cards = Mapping[str, str]

NO_CARDS: Final[Cards] = {}


def cards_of(node: Node) -> Cards:
    """The cards of a node by the resource that stands for them.

    A resource counts as soon as the node names it, with whatever amount: while no card is healthy
    the pods that run there go on using theirs. Whole cards are named by the product label, shared
    ones ``<product>/mps-<memory>g*1/<replicas>``, slices ``<product>/mig-<profile>-mixed``. The
    first product label in alphabetical order counts.
    """
    labels = node.metadata.labels
    for label in sorted(labels):
        found = _PRODUCT.fullmatch(label)
        if found is not None and _MIG not in label:
            prefix = f"{found['vendor']}/{found['kind']}"
            return dict(_named(node, found["vendor"], prefix, labels[label]))
    return NO_CARDS


def same_cards(before: Node | None, after: Node | None) -> bool:
    """Whether two states of a node, None for that it is not there, have the same cards.

    What its pods are charged depends on nothing else of a node.
    """
    had, has = (NO_CARDS if node is None else cards_of(node) for node in (before, after))
    return had == has


def _named(node: Node, vendor: str, prefix: str, product: str) -> list[tuple[str, str]]:
    cards = []
    for resource in {**node.status.allocatable, **node.status.capacity}:
        if resource == f"{prefix}.shared":
            cards.append((resource, f"{product}/{_share(node.metadata.labels, prefix)}"))
        elif resource.startswith(vendor + _MIG):
            profile = resource.removeprefix(vendor + _MIG)
            cards.append((resource, f"{product}/mig-{profile}-mixed"))
        elif resource == prefix:
            cards.append((resource, product))
    return cards


def _share(labels: Mapping[str, str], prefix: str) -> str:
    size = round(parse_int_or(labels.get(f"{prefix}.memory", ""), 0) / 1024)
    return f"mps-{size}g*1/{labels.get(f'{prefix}.replicas', '1')}"


@bounded_cache(1024)
def is_card_resource(resource: str) -> bool:
    """Whether a resource looks like an accelerator's: of a vendor's domain, not of Kubernetes'."""
    vendor, slash, _ = resource.partition("/")
    return bool(slash) and not vendor.endswith("kubernetes.io") and "." in vendor
