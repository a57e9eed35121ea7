"""What a claim requests, as the allocator needs it, and what is not supported yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from arranger.api.selectors import untolerated_taints
from arranger.api.types.resource_claims import (
    ALL,
    EXACT_COUNT,
    MAX_ALTERNATIVES,
    MAX_PER_CLAIM,
    MAX_TOLERATIONS,
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceConstraint,
    DeviceId,
    DeviceSelector,
    DeviceSubRequest,
    ResourceClaim,
)
from arranger.plugins.dynamicresources.cel_selectors import CompiledSelectors, SelectorError
from arranger.plugins.dynamicresources.effort import Effort
from arranger.plugins.dynamicresources.pools import DeviceOffer, Pool

#: Requests, with each of their alternatives, and selectors of all claims of one pod.
MAX_REQUESTS_OF_POD: Final = 512
MAX_SELECTORS_OF_POD: Final = 128
#: Looks a DeviceClass up by name.
DeviceClassLookup = Callable[[str], DeviceClass | None]


class AllocationError(ValueError):
    """A claim cannot be allocated, whatever is free; the text names the claim and the reason."""


class RequestAlternative(NamedTuple):
    """A request or, with a ``parent``, one of the alternatives of a request.

    ``all_devices`` are those that a request for all has to get; other requests want ``number``.
    """

    claim: ResourceClaim
    parent: str
    request: DeviceSubRequest
    device_class: DeviceClass
    number: int
    all_devices: tuple[DeviceOffer, ...] | None

    @property
    def name(self) -> str:
        """The name that allocations refer to it by."""
        return f"{self.parent}/{self.request.name}" if self.parent else self.request.name

    @property
    def is_admin(self) -> bool:
        """Whether it wants administrative access, which takes no device from others."""
        return bool(self.request.admin_access)

    def tolerates(self, device: Device) -> bool:
        """Whether it tolerates the device's taints."""
        effects = ("NoSchedule", "NoExecute")
        return not untolerated_taints(device.taints, self.request.tolerations, effects)


def request_alternatives(
    claim: ResourceClaim, classes: DeviceClassLookup, pools: list[Pool], selection: DeviceSelection
) -> list[list[RequestAlternative]]:
    """For each request of a claim its alternatives, the preferred ones first.

    Raises:
        AllocationError: something about the claim, its classes or the pools makes it impossible.
    """
    wanted: list[list[RequestAlternative]] = []
    for request in claim.spec.devices.requests:
        parent, alternatives = request.name, request.first_available
        if (exactly := request.exactly) is not None:
            names = [name for name in DeviceSubRequest.__struct_fields__ if name != "name"]
            stated = {name: getattr(exactly, name) for name in names}
            parent, alternatives = "", [DeviceSubRequest(name=request.name, **stated)]
        wanted.append(
            [_alternative(claim, parent, a, classes, pools, selection) for a in alternatives]
        )
    return wanted


def unallocatable_reason(claim: ResourceClaim, classes: DeviceClassLookup) -> str:
    """Why a claim cannot be allocated on any node; "" if nothing is known."""
    if why := _beyond_limits(claim):
        return f"resource claim {claim.key}: {why}"
    for request in claim.spec.devices.requests:
        requests = [(request.name, request.exactly)] if request.exactly is not None else []
        requests += [(f"{request.name}/{each.name}", each) for each in request.first_available]
        if not requests:
            return f"resource claim {claim.key}, request {request.name}: unknown request type"
        for name, each in requests:
            if classes(each.device_class_name) is None:
                return f"request {name}: device class {each.device_class_name} does not exist"
            if each.capacity is not None:
                return (
                    f"resource claim {claim.key}, request {name}: "
                    "capacity requests (consumable capacity) are not supported yet"
                )
            if each.allocation_mode not in (EXACT_COUNT, ALL):
                return (
                    f"resource claim {claim.key}, request {name}: "
                    f"allocation mode {each.allocation_mode} is not supported"
                )
    for n, constraint in enumerate(claim.spec.devices.constraints):
        if constraint.match_attribute is None and constraint.distinct_attribute is None:
            return f"resource claim {claim.key}, constraint #{n}: not supported"
    return ""


def _beyond_limits(claim: ResourceClaim) -> str:
    """What a claim has more of than an API server accepts; "" for all that one has accepted."""
    devices = claim.spec.devices
    subrequests = [r.exactly for r in devices.requests if r.exactly is not None]
    subrequests += [each for request in devices.requests for each in request.first_available]
    counts = (
        ("requests", len(devices.requests), MAX_PER_CLAIM),
        ("constraints", len(devices.constraints), MAX_PER_CLAIM),
        ("configurations", len(devices.config), MAX_PER_CLAIM),
        (
            "alternatives of a request",
            max((len(request.first_available) for request in devices.requests), default=0),
            MAX_ALTERNATIVES,
        ),
        (
            "selectors of a request",
            max((len(each.selectors) for each in subrequests), default=0),
            MAX_PER_CLAIM,
        ),
        (
            "tolerations of a request",
            max((len(each.tolerations) for each in subrequests), default=0),
            MAX_TOLERATIONS,
        ),
    )
    return next(
        (f"{n} {what}, and at most {most} are allowed" for what, n, most in counts if n > most), ""
    )


def beyond_limits_of_pod(claims: Sequence[ResourceClaim]) -> str:
    """What the claims of a pod have too much of, all together; "" if nothing."""
    requests = [
        each
        for claim in claims
        for request in claim.spec.devices.requests
        for each in (*filter(None, [request.exactly]), *request.first_available)
    ]
    told = "the resource claims of the pod have {} {}, and at most {} are looked at"
    if (count := len(requests)) > MAX_REQUESTS_OF_POD:
        return told.format(count, "requests and alternatives", MAX_REQUESTS_OF_POD)
    selectors = {
        each.cel.expression for of in requests for each in of.selectors if each.cel is not None
    }
    if (count := len(selectors)) > MAX_SELECTORS_OF_POD:
        return told.format(count, "selectors", MAX_SELECTORS_OF_POD)
    return ""


def preference_points(claim: ResourceClaim) -> dict[str, int]:
    """Points for each alternative that may be chosen, more for those named earlier."""
    return {
        f"{request.name}/{each.name}": MAX_ALTERNATIVES - n
        for request in claim.spec.devices.requests
        for n, each in enumerate(request.first_available)
    }


def preference_score(claim: ResourceClaim, served: Set[str]) -> int:
    """Points for the alternatives chosen."""
    points = preference_points(claim)
    return sum(points.get(name, 0) for name in served)


def unsupported_feature(device: Device) -> str:
    """The feature of a device that is not supported yet; "" if there is none."""
    if device.consumes_counters:
        return "devices that share counters (partitionable devices)"
    if device.allow_multiple_allocations:
        return "devices for multiple allocations (consumable capacity)"
    if device.binding_conditions:
        return "devices with binding conditions"
    return ""


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """Judges devices by classes and selectors, while there is effort left."""

    selectors: CompiledSelectors
    effort: Effort

    def selects(self, wanted: RequestAlternative, offer: DeviceOffer) -> bool:
        """Whether a device is of the class and matches the selectors.

        Raises:
            AllocationError: a selector is broken, or fails for the device.
            EffortSpentError: that would take more effort than is left.
        """
        meta = wanted.device_class.metadata
        driver, device = offer.id.driver, offer.device
        of_class, own = wanted.device_class.spec.selectors, wanted.request.selectors
        return self._all_match(f"class {meta.name}", of_class, driver, device) and (
            self._all_match(f"claim {wanted.claim.key}", own, driver, device)
        )

    def _all_match(
        self, whose: str, selectors: list[DeviceSelector], driver: str, device: Device
    ) -> bool:
        for n, each in enumerate(selectors):
            if each.cel is None:
                raise AllocationError(f"{whose}: selector #{n}: CEL expression empty")
            self.effort.spend(1)
            compiled = self.selectors.compile(each.cel.expression, self.effort)
            try:
                if isinstance(compiled, SelectorError):
                    raise compiled
                if not compiled.matches(driver, device, self.effort):
                    return False
            except SelectorError as error:
                raise AllocationError(f"{whose}: selector #{n}: {error}") from error
        return True


def _alternative(
    claim: ResourceClaim,
    parent: str,
    request: DeviceSubRequest,
    classes: DeviceClassLookup,
    pools: list[Pool],
    selection: DeviceSelection,
) -> RequestAlternative:
    device_class = classes(request.device_class_name)
    if device_class is None:
        raise AllocationError(f"device class {request.device_class_name} does not exist")
    wanted = RequestAlternative(claim, parent, request, device_class, request.count, None)
    if request.allocation_mode != ALL:
        return wanted
    every: list[DeviceOffer] = []
    for pool in pools:
        if pool.incomplete or pool.invalid:
            state = "being updated" if pool.incomplete else "invalid"
            raise AllocationError(
                f"claim {claim.key}, request {wanted.name}: asks for all devices, "
                f"but resource pool {pool.id} is currently {state}"
            )
        every += [offer for offer in pool.offers if selection.selects(wanted, offer)]
    return wanted._replace(number=len(every), all_devices=tuple(every))


@dataclass(slots=True)
class AttributeConstraint:
    """``matchAttribute`` or ``distinctAttribute`` among the devices chosen.

    A device that it refuses stays refused, whatever else is chosen.
    """

    rule: DeviceConstraint
    chosen: list[DeviceAttribute] = field(default_factory=list)
    #: Alternative of a request → whether it is concerned; device → its value.
    _concerned: dict[int, bool] = field(default_factory=dict)
    _values: dict[DeviceId, DeviceAttribute | None] = field(default_factory=dict)

    @property
    def comparisons(self) -> int:
        """With how many devices chosen the next one is compared."""
        return 1 if self.rule.match_attribute is not None else 1 + len(self.chosen) // 4

    def applies_to(self, wanted: RequestAlternative) -> bool:
        """Whether devices of the request are among those compared."""
        if not (named := self.rule.requests):
            return True
        concerned = self._concerned.get(id(wanted))
        if concerned is None:
            concerned = wanted.name in named or wanted.parent in named
            self._concerned[id(wanted)] = concerned
        return concerned

    def add(self, wanted: RequestAlternative, offer: DeviceOffer) -> bool:
        """Choose a device; ``False`` if the constraint is not satisfied."""
        if not self.applies_to(wanted):
            return True
        value = self._value(offer)
        if value is None:
            return False
        if self.rule.match_attribute is not None:
            agrees = not self.chosen or self.chosen[0] == value
        else:
            agrees = value not in self.chosen
        if agrees:
            self.chosen.append(value)
        return agrees

    def remove(self, wanted: RequestAlternative) -> None:
        """Undo the last :meth:`add` that was granted."""
        if self.applies_to(wanted):
            self.chosen.pop()

    def _value(self, offer: DeviceOffer) -> DeviceAttribute | None:
        device = offer.id
        if device not in self._values:
            name = self.rule.match_attribute or self.rule.distinct_attribute or ""
            value = _attribute(device, offer.device.attributes, name)
            self._values[device] = None if value == DeviceAttribute() else value
        return self._values[device]


def _attribute(
    device: DeviceId, attributes: Mapping[str, DeviceAttribute], name: str
) -> DeviceAttribute | None:
    """An attribute by its full name; one without a domain is in the driver's."""
    found = attributes.get(name)
    domain, _, bare = name.partition("/")
    return attributes.get(bare) if found is None and domain == device.driver else found
