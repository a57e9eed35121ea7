"""The search for devices: claim by claim, request by request, the first that fits.

It is exhaustive, in upstream's order (alternatives first, then pools, slices and devices by
their names as they are listed), so it finds an allocation if there is one, and always the same.

Upstream: ``k8s.io/dynamic-resource-allocation/structured``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from arranger.api.types.resource_claims import (
    MAX_DEVICES,
    DeviceConstraint,
    DeviceId,
    ResourceClaim,
)
from arranger.plugins.dynamicresources.effort import ALTERNATIVE
from arranger.plugins.dynamicresources.pools import DeviceOffer, Pool
from arranger.plugins.dynamicresources.requests import (
    AllocationError,
    AttributeConstraint,
    DeviceClassLookup,
    DeviceSelection,
    RequestAlternative,
    request_alternatives,
    unsupported_feature,
)

#: Steps of a search, each at most a look at every device of the node. Upstream stops after ten
#: seconds; a count gives the same result on every machine.
MAX_STEPS: Final = 5_000
#: Devices that a search looks at, whether they are free or not.
MAX_LOOKS: Final = 5_000
#: Comparisons with what a constraint asks for, for each look that there may be.
_COMPARISONS_A_LOOK: Final = 4


class ChosenDevice(NamedTuple):
    """A device for a request."""

    wanted: RequestAlternative
    offer: DeviceOffer


class SearchResult(NamedTuple):
    """The result of a search.

    Attributes:
        chosen: for each claim its devices; ``None`` if there are not enough.
        unsupported: features we lack that devices would have needed.
    """

    chosen: list[list[ChosenDevice]] | None
    unsupported: tuple[str, ...] = ()


class SearchLimitError(AllocationError):
    """The search has taken too many steps."""


class _TooManyError(Exception):
    """A claim would get more devices than a claim may have, whichever they are."""


def search(
    claims: Sequence[ResourceClaim],
    pools: list[Pool],
    classes: DeviceClassLookup,
    is_taken: Callable[[DeviceId], bool],
    selection: DeviceSelection,
    *,
    max_steps: int = MAX_STEPS,
    max_looks: int = MAX_LOOKS,
) -> SearchResult:
    """Devices of these pools for all the claims, or none.

    Raises:
        AllocationError: something other than a lack of devices makes it impossible.
        SearchLimitError: there may be a way, but it is hard to find.
        EffortSpentError: it has not been found out; ask again.
    """
    return _Search(claims, pools, classes, is_taken, selection, max_steps, max_looks).run()


class _Search:
    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        pools: list[Pool],
        classes: DeviceClassLookup,
        is_taken: Callable[[DeviceId], bool],
        selection: DeviceSelection,
        max_steps: int,
        max_looks: int,
    ) -> None:
        self._max_steps, self._max_looks = max_steps, max_looks
        self._selection = selection
        self._wanted = [request_alternatives(claim, classes, pools, selection) for claim in claims]
        alternatives = sum(len(each) for requests in self._wanted for each in requests)
        selection.effort.count(ALTERNATIVE * alternatives)
        for claim, requests in zip(claims, self._wanted, strict=True):
            least = sum(min(each.number for each in request) for request in requests)
            if least > MAX_DEVICES:
                raise AllocationError(
                    f"claim {claim.key}: number of requested devices {least} exceeds the claim "
                    f"limit of {MAX_DEVICES}"
                )
        self._constraints = [
            [AttributeConstraint(rule) for rule in _distinct(claim.spec.devices.constraints)]
            for claim in claims
        ]
        self._offers = tuple(offer for pool in pools for offer in pool.offers)
        self._any_invalid = any(pool.invalid for pool in pools)
        self._is_taken = is_taken
        self._chosen: list[list[ChosenDevice]] = [[] for _ in claims]
        #: The claims that a device is chosen for.
        self._users: dict[DeviceId, list[int]] = {}
        #: (alternative, offer) → whether it is of the right kind.
        self._selectable: dict[tuple[int, int], bool] = {}
        #: (alternative, device) → whether it tolerates the device's taints.
        self._tolerable: dict[tuple[int, DeviceId], bool] = {}
        self._unsupported: dict[str, None] = {}
        self._steps = self._looks = self._comparisons = 0
        self._max_comparisons = _COMPARISONS_A_LOOK * max_looks

    def run(self) -> SearchResult:
        try:
            found = self._claim(0)
        finally:
            self._selection.effort.count(self._steps + self._looks + self._comparisons)
        if found:
            return SearchResult(self._chosen)
        if self._any_invalid:
            raise AllocationError("invalid resource pools were encountered")
        return SearchResult(None, tuple(self._unsupported))

    def _claim(self, n: int) -> bool:
        """Allocate the claims from the n-th on."""
        if n == len(self._wanted):
            return True
        try:
            return self._request(n, 0)
        except _TooManyError:
            return False  # an earlier claim may leave it smaller alternatives

    def _request(self, claim: int, n: int) -> bool:
        """Allocate a claim's requests from the n-th on, and the claims after it."""
        if n == len(self._wanted[claim]):
            return self._claim(claim + 1)
        too_many = True
        for wanted in self._wanted[claim][n]:
            try:
                if self._devices(claim, n, wanted, 0, 0):
                    return True
            except _TooManyError:
                continue
            too_many = False
        if too_many:
            raise _TooManyError
        return False

    def _devices(
        self, claim: int, request: int, wanted: RequestAlternative, have: int, start: int
    ) -> bool:
        """Choose what a request still lacks; offers before ``start`` have been tried."""
        self._steps += 1
        if (
            self._steps > self._max_steps
            or self._looks > self._max_looks
            or self._comparisons > self._max_comparisons
        ):
            raise SearchLimitError("gave up looking for devices: there are too many combinations")
        if wanted.number == 0:
            return False  # a request for all devices needs one at least
        if have == wanted.number:
            return self._request(claim, request + 1)
        if len(self._chosen[claim]) + wanted.number - have > MAX_DEVICES:
            raise _TooManyError
        if wanted.all_devices is not None:
            # All are needed, so their order does not matter.
            offers = wanted.all_devices[have : have + 1]
        else:
            offers = self._offers[start:]
        for n, offer in enumerate(offers, start):
            self._looks += 1
            if not self._is_free(claim, wanted, offer.id):
                continue
            if wanted.all_devices is None and not self._fits(wanted, n, offer):
                continue
            if not self._choose(claim, wanted, offer):
                continue
            done = False
            try:
                done = self._devices(claim, request, wanted, have + 1, n + 1)
            finally:
                if not done:
                    self._unchoose(claim, wanted, offer)
            if done:
                return True
        return False

    def _is_free(self, claim: int, wanted: RequestAlternative, device: DeviceId) -> bool:
        users = self._users.get(device)
        if wanted.is_admin:
            return not users or claim not in users
        return not users and not self._is_taken(device)

    def _fits(self, wanted: RequestAlternative, n: int, offer: DeviceOffer) -> bool:
        key = id(wanted), n
        fits = self._selectable.get(key)
        if fits is None:
            fits = self._selectable[key] = self._selection.selects(wanted, offer)
        return fits

    def _tolerates(self, wanted: RequestAlternative, offer: DeviceOffer) -> bool:
        if not offer.device.taints:
            return True
        key = id(wanted), offer.id
        tolerates = self._tolerable.get(key)
        if tolerates is None:
            self._comparisons += len(offer.device.taints) * (1 + len(wanted.request.tolerations))
            tolerates = self._tolerable[key] = wanted.tolerates(offer.device)
        return tolerates

    def _choose(self, claim: int, wanted: RequestAlternative, offer: DeviceOffer) -> bool:
        if problem := unsupported_feature(offer.device):
            self._unsupported[problem] = None
            return False
        if not self._tolerates(wanted, offer):
            return False
        constraints = self._constraints[claim]
        for n, constraint in enumerate(constraints):
            self._comparisons += constraint.comparisons if n else 0  # the first is of the look
            if not constraint.add(wanted, offer):
                for added in reversed(constraints[:n]):
                    added.remove(wanted)
                if wanted.all_devices is not None:
                    raise AllocationError(
                        f"claim {wanted.claim.key}, request {wanted.name}: cannot add device "
                        f"{offer.id} because a claim constraint would not be satisfied"
                    )
                return False
        self._users.setdefault(offer.id, []).append(claim)
        self._chosen[claim].append(ChosenDevice(wanted, offer))
        return True

    def _unchoose(self, claim: int, wanted: RequestAlternative, offer: DeviceOffer) -> None:
        self._chosen[claim].pop()
        self._users[offer.id].remove(claim)
        for constraint in reversed(self._constraints[claim]):
            constraint.remove(wanted)


def _distinct(rules: Sequence[DeviceConstraint]) -> list[DeviceConstraint]:
    """The rules, each once."""
    found = {
        (rule.match_attribute, rule.distinct_attribute, tuple(rule.requests)): rule
        for rule in rules
    }
    return [*found.values()]
