"""Volumes of a world that comes to rest, with the controllers that bind and provision them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from arranger.api.effects import PatchObject
from tests import storage
from tests.builders import PodBuilder
from tests.simulation.at_rest.told import Told

_VOLUMES: Final = "/api/v1/persistentvolumes/"
_CLASSES: Final = ("late", "now")
_CLAIMS: Final = ("c0", "c1", "c2", "c3")
_SELECTED: Final = "volume.kubernetes.io/selected-node"


class Volumes:
    """Claims of namespace ``a``, volumes, classes and drivers."""

    def __init__(self, rng: random.Random, told: Told, nodes: int) -> None:
        self._rng, self._told, self._nodes = rng, told, nodes
        self._volumes: dict[str, storage.VolumeBuilder] = {}
        self._claims: dict[str, storage.ClaimBuilder] = {}

    @property
    def events(self) -> Mapping[str, Callable[[], None]]:
        """What may happen."""
        return {
            "volume": self._volume,
            "volume claim": lambda: self._claim(self._rng.choice(_CLAIMS)),
            "class": self._class,
            "drivers": self._drivers,
            "space": self._space,
        }

    def begin(self) -> None:
        """What is there at first."""
        for _ in range(2):
            self._volume()
        for name in _CLAIMS[:2]:
            self._claim(name)
        self._class()
        self._told(storage.a_driver(counts_space=self._rng.random() < 0.5).build())

    def used_by(self, pod: PodBuilder, *, shared: bool) -> PodBuilder:
        """The pod with a claim of its own, or with one that others use and that may come later."""
        if shared:
            return pod.with_claim(self._rng.choice(_CLAIMS))
        name = f"{pod.manifest()['metadata']['name']}-data"
        self._claim(name)
        return pod.with_claim(name)

    def on_written(self, patch: PatchObject) -> None:
        """What the scheduler wrote is shown, and what the volume controllers make of it."""
        name = patch.path.rpartition("/")[2]
        if patch.path.startswith(_VOLUMES):
            if name in self._volumes:
                self._bind(patch.change["spec"]["claimRef"]["name"], name)
        elif node := patch.change["metadata"].get("annotations", {}).get(_SELECTED):
            if name not in self._claims:
                return
            made = f"v-{name}"
            self._claims[name] = self._claims[name].annotated({_SELECTED: node})
            zone = f"z{int(node[1:]) % 2}"
            self._volumes[made] = (
                storage.a_volume(made).usable_in(zone).served_by(storage.DRIVER, made)
            )
            self._bind(name, made)

    def _bind(self, claim: str, volume: str) -> None:
        if claim not in self._claims:
            return
        self._volumes[volume] = self._volumes[volume].held_by(claim)
        self._volumes[volume] = _in_a(self._volumes[volume])
        self._claims[claim] = self._claims[claim].bound_to(volume)
        self._show_volume(volume)
        self._show_claim(claim)

    # --- what happens ------------------------------------------------------------------------

    def _volume(self) -> None:
        rng = self._rng
        name = f"v{rng.randrange(3)}"
        known = self._volumes.get(name)
        if known is not None and known.manifest()["status"]["phase"] == "Bound":
            return
        made = storage.a_volume(name, of=rng.choice(_CLASSES))
        if rng.random() < 0.7:
            made = made.usable_in(rng.choice(("z0", "z1")))
        self._volumes[name] = made
        self._show_volume(name)
        if rng.random() < 0.3:  # as the volume controller does for claims that do not wait
            for claim, wanted in self._claims.items():
                spec = wanted.manifest()["spec"]
                if "volumeName" not in spec and spec["storageClassName"] == "now":
                    self._bind(claim, name)
                    break

    def _claim(self, name: str) -> None:
        if name not in self._claims:
            made = storage.a_claim(name, of=self._rng.choice(_CLASSES))
            self._claims[name] = made._set("metadata", namespace="a")
            self._show_claim(name)

    def _class(self) -> None:
        made = storage.a_class("late")
        if self._rng.random() < 0.5:
            made = made.allowed_in(self._rng.choice(("z0", "z1")))
        elif self._rng.random() < 0.3:
            made = storage.a_class("late", by="kubernetes.io/no-provisioner")
        self._told(made.build())
        self._told(storage.a_class("now").immediate().build())

    def _drivers(self) -> None:
        node = f"n{self._rng.randrange(self._nodes)}"
        limit = self._rng.choice((0, 1, 2, None))
        self._told(storage.a_csi_node(node, csi_example_com=limit).build())

    def _space(self) -> None:
        zone, size = self._rng.choice(("z0", "z1")), self._rng.choice(("100Mi", "100Gi"))
        self._told(storage.space_in(zone, size).build())
        self._told(storage.a_driver(counts_space=self._rng.random() < 0.7).build())

    def _show_volume(self, name: str) -> None:
        self._volumes[name] = self._volumes[name].at_version(self._told.next_version())
        self._told(self._volumes[name].build())

    def _show_claim(self, name: str) -> None:
        self._claims[name] = self._claims[name].at_version(self._told.next_version())
        self._told(self._claims[name].build())


def _in_a(volume: storage.VolumeBuilder) -> storage.VolumeBuilder:
    ref: dict[str, Any] = volume.manifest()["spec"]["claimRef"]
    return volume._set("spec", claimRef={**ref, "namespace": "a"})
