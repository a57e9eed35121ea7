"""Devices of a world that comes to rest, with the controller that makes and releases claims."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from arranger.api.effects import ReleaseClaim, ReserveClaim
from tests import devices
from tests.builders import PodBuilder
from tests.simulation.at_rest.told import Told

_SHARED: Final = ("s0", "s1")


class Devices:
    """Claims of namespace ``a``: some shared by pods, others made for one of them."""

    def __init__(self, rng: random.Random, told: Told, nodes: int) -> None:
        self._rng, self._told, self._nodes = rng, told, nodes
        #: Name → the claim without a status; the allocation of those that have one; their users.
        self._claims: dict[str, devices.ClaimBuilder] = {}
        self._allocations: dict[str, object] = {}
        self._users: dict[str, set[str]] = {}

    @property
    def events(self) -> Mapping[str, Callable[[], None]]:
        """What may happen."""
        return {"slice": self._slice, "device class": self._class, "claim": self._shared}

    def begin(self) -> None:
        """What is there at first."""
        self._told(devices.a_device_class().build())
        for node in range(self._nodes):
            self._slice(node)
        self._shared()

    def used_by(self, pod: PodBuilder, *, shared: bool) -> PodBuilder:
        """The pod with a claim of its own, or with one that others use, too."""
        if shared:
            return devices.claiming(pod, self._rng.choice(_SHARED))
        name = f"{pod.manifest()['metadata']['name']}-gpu"
        self._claims[name] = self._a_claim(name).made_for(pod)
        self._show(name)
        return devices.claiming_from(pod, "gpu", name)

    def on_reserved(self, effect: ReserveClaim) -> None:
        """A claim was written."""
        name = effect.claim.name
        if name not in self._claims:
            return
        if effect.allocation is not None:
            self._allocations[name] = effect.allocation
        self._users.setdefault(name, set()).add(effect.pod.uid)
        self._show(name)

    def on_released(self, effect: ReleaseClaim) -> None:
        """A claim was written."""
        name = effect.claim.name
        self._users.get(name, set()).discard(effect.pod.uid)
        if effect.deallocate:
            self._allocations.pop(name, None)
        if name in self._claims:
            self._show(name)

    def on_pod_gone(self, uid: str, name: str) -> None:
        """The controller lets claims go that nobody uses."""
        for claim, users in self._users.items():
            if uid in users:
                users.discard(uid)
                if not users:
                    self._allocations.pop(claim, None)
                if claim in self._claims:
                    self._show(claim)
        own = self._claims.pop(f"{name}-gpu", None)
        if own is not None:
            self._told.gone(own.build())

    # --- what happens ------------------------------------------------------------------------

    def _slice(self, number: int | None = None) -> None:
        rng = self._rng
        node = f"n{rng.randrange(self._nodes) if number is None else number}"
        held = [device for claim in self._claims for device in self._held_on(claim, node)]
        count = max(rng.choice((0, 1, 1, 2)), len(set(held)))
        made = devices.a_slice(node, *(f"d{n}" for n in range(count)))
        self._told(made.at_version(self._told.next_version()).build())

    def _held_on(self, claim: str, node: str) -> list[str]:
        """The devices of a node that a claim holds."""
        allocation = self._allocations.get(claim)
        if not isinstance(allocation, Mapping):
            return []
        return [each["device"] for each in allocation["devices"]["results"] if each["pool"] == node]

    def _class(self) -> None:
        rng = self._rng
        sizes = (0, 40, 100)
        chosen = f'device.capacity["{devices.DRIVER}"].memory.compareTo(quantity("{{}}Gi")) > 0'
        self._told(devices.a_device_class("gpu", chosen.format(rng.choice(sizes))).build())

    def _shared(self) -> None:
        name = self._rng.choice(_SHARED)
        if name not in self._claims:
            self._claims[name] = self._a_claim(name)
            self._show(name)

    def _a_claim(self, name: str) -> devices.ClaimBuilder:
        made = devices.a_claim(name)._set("metadata", namespace="a")
        return (
            made.asks(count=self._rng.choice((1, 1, 2)))
            if self._rng.random() < 0.5
            else (made.asks())
        )

    def _show(self, name: str) -> None:
        shown = self._claims[name]
        if (allocation := self._allocations.get(name)) is not None:
            users = self._users.get(name, set())
            shown = shown.reserved_for(*sorted(users)).with_status(allocation=allocation)
        self._told(shown.at_version(self._told.next_version()).build())
