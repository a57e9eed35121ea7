"""The ``status.allocation`` that is written into a claim when its devices are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arranger.api.types.core import NodeSelector, NodeSelectorTerm, Requirement
from arranger.api.types.resource_claims import (
    AllocatedConfiguration,
    AllocatedDevice,
    Allocation,
    DeviceAllocation,
    ResourceClaim,
)
from arranger.plugins.dynamicresources.allocator import ChosenDevice
from arranger.plugins.dynamicresources.requests import RequestAlternative


def build_allocation(claim: ResourceClaim, chosen: Sequence[ChosenDevice], node: str) -> Allocation:
    """The allocation of these devices, chosen on ``node``, with all nodes that can use them."""
    results = [
        AllocatedDevice(
            request=wanted.name,
            driver=offer.id.driver,
            pool=offer.id.pool,
            device=offer.id.device,
            admin_access=True if wanted.is_admin else None,
            tolerations=wanted.request.tolerations,
        )
        for wanted, offer in chosen
    ]
    served = {wanted.name: wanted for wanted, _ in chosen}
    config = [*_of_classes(served.values()), *_of_claim(claim, set(served))]
    return Allocation(DeviceAllocation(results, config), _nodes(chosen, node))


def _of_classes(served: Iterable[RequestAlternative]) -> list[AllocatedConfiguration]:
    """The classes' configuration for drivers, once for each class, for all requests for it."""
    names: dict[str, list[str]] = {}
    classes = {}
    for wanted in served:
        name = wanted.device_class.metadata.name
        classes[name] = wanted.device_class
        names.setdefault(name, []).append(wanted.name)
    return [
        AllocatedConfiguration("FromClass", names[name], config.opaque)
        for name, device_class in classes.items()
        for config in device_class.spec.config
    ]


def _of_claim(claim: ResourceClaim, served: set[str]) -> list[AllocatedConfiguration]:
    """The claim's configuration for drivers, without that of alternatives not chosen."""
    concerned = served | {name.partition("/")[0] for name in served}
    return [
        AllocatedConfiguration("FromClaim", config.requests, config.opaque)
        for config in claim.spec.devices.config
        if not config.requests or concerned & set(config.requests)
    ]


def _nodes(chosen: Sequence[ChosenDevice], node: str) -> NodeSelector | None:
    """The nodes that can use all of the devices; ``None`` for every node."""
    expressions: list[Requirement] = []
    fields: list[Requirement] = []
    for _, offer in chosen:
        name, selector = offer.node_restriction
        if name or offer.device.binds_to_node:
            only = Requirement("metadata.name", "In", [node])
            return NodeSelector([NodeSelectorTerm(match_fields=[only])])
        for term in selector.node_selector_terms if selector is not None else ():
            _add(term.match_expressions, expressions)
            _add(term.match_fields, fields)
    if not expressions and not fields:
        return None
    return NodeSelector([NodeSelectorTerm(expressions, fields)])


def _add(more: Sequence[Requirement], to: list[Requirement]) -> None:
    for new in more:
        if not any(
            (new.key, new.operator, set(new.values)) == (old.key, old.operator, set(old.values))
            for old in to
        ):
            to.append(new)
