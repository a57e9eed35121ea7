"""The volumes that unbound claims can be bound to, and which of them each gets on each node.

Upstream: ``FindMatchingVolume`` of ``k8s.io/component-helpers/storage/volume``. There are thousands
of volumes on nodes' own disks, and a pod may have many claims: all nodes are looked at together,
and claims that are alike have their candidates in common.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
import numpy as np

from arranger.api.selectors import Selector
from arranger.api.types.core import LabelSelector, Requirement
from arranger.api.types.packed import unpacked
from arranger.api.types.storage import PersistentVolume, PersistentVolumeClaim
from arranger.cluster import BoolArray, IntArray
from arranger.plugins.volumes.csi_migration import Terms
from arranger.plugins.volumes.topology import NodeTopologyIndex, volume_node_terms

#: Unbound claims of one pod that are matched with volumes.
MAX_MATCHED: Final = 32
#: Comparisons of volumes with what claims ask, each about a microsecond.
MAX_COMPARISONS: Final = 50_000
#: No volume.
NONE: Final = -1
#: Where a volume can be used: a label of the node and its value, or terms, encoded.
Place = tuple[str, str] | bytes
_ANYWHERE: Final = b""

_encode: Final = msgspec.json.Encoder(order="sorted", enc_hook=unpacked).encode


class TooManyClaimsError(Exception):
    """There is more to compare than is done for one pod."""


class _Shape(NamedTuple):
    """What claims of one shape ask of a volume, but for its size."""

    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: bytes


class Candidates:
    """Volumes, the best first.

    Args:
        numbers: of these among the volumes of the class; None where nobody else may have them.
    """

    def __init__(
        self, volumes: Sequence[PersistentVolume], numbers: Sequence[int] | None = None
    ) -> None:
        self.volumes = volumes
        self._numbers = None if numbers is None else np.array([*numbers, NONE], dtype=np.int64)

    def first_per_node(self, places: NodeTopologyIndex, width: int) -> IntArray:
        """Node → the best volumes that can be used there, as indexes; ``len(volumes)`` for none.

        There are ``width`` columns, or fewer if no node has as many.
        """
        none, width = len(self.volumes), min(width, self._most)
        first = np.full((places.nodes.length, width), none, dtype=np.int64)
        by_key: dict[str, dict[str, list[int]]] = {}
        for place, numbers in self._by_place.items():
            if isinstance(place, tuple):
                by_key.setdefault(place[0], {})[place[1]] = numbers
            else:
                rows = places.entries_matching(self._terms[place])
                more = np.full((len(rows), width), none, dtype=np.int64)
                more[:, : len(numbers)] = numbers[:width]
                first[rows] = _smallest(first[rows], more)
        for key, by_value in by_key.items():
            column, values = places.nodes.label(key), places.nodes.table.label_values(key)
            # The last entry is that of nodes without the label, and of values that none has.
            of_value = np.full((len(values) + 1, width), none, dtype=np.int64)
            for value, numbers in by_value.items():
                of_value[values.find(value), : len(numbers)] = numbers[:width]
            of_value[-1] = none
            first = _smallest(first, of_value[column])
        return first

    def numbers_of(self, indexes: IntArray) -> IntArray | None:
        """The numbers among the volumes of the class."""
        return None if self._numbers is None else self._numbers[indexes]

    @cached_property
    def _most(self) -> int:
        """How many volumes are looked at for one node, at most."""
        by_key: dict[str | bytes, int] = {}
        for place, numbers in self._by_place.items():
            of = place[0] if isinstance(place, tuple) else place
            by_key[of] = max(len(numbers), by_key.get(of, 0))
        return sum(by_key.values())

    @cached_property
    def _terms(self) -> dict[bytes, Terms | None]:
        return {}

    @cached_property
    def _by_place(self) -> dict[Place, list[int]]:
        """Place → the best of the volumes there."""
        found: dict[Place, list[int]] = {}
        for number, volume in enumerate(self.volumes):
            for place in self._places(volume):
                here = found.setdefault(place, [])
                if len(here) < MAX_MATCHED:
                    here.append(number)
            if len(found.get(_ANYWHERE, ())) == MAX_MATCHED:
                break  # later ones are no better
        return found

    def _places(self, volume: PersistentVolume) -> Iterable[Place]:
        terms = volume_node_terms(volume)
        if terms is not None and len(terms) == 1 and is_single_in(terms[0]):
            return {(terms[0][0].key, value) for value in terms[0][0].values}
        place = _ANYWHERE if terms is None else _encode(terms)
        self._terms[place] = terms
        return (place,)


_NO_CANDIDATES: Final = Candidates([])


class UnboundClaim(NamedTuple):
    """An unbound claim, and the volumes that it could be bound to.

    Attributes:
        is_taken: whether another pod that uses it is on its way to its node with a volume for it:
            then it can be bound to no other one, and none is provisioned. Upstream decides anew for
            each pod, and one of two that share a claim fails before it is bound; of a gang a part
            would be bound by that.
    """

    claim: PersistentVolumeClaim
    candidates: Candidates
    is_taken: bool = False

    @property
    def volumes(self) -> Sequence[PersistentVolume]:
        """Those volumes, the best first."""
        return self.candidates.volumes


class FreeVolumes:
    """The volumes of some classes that are free, or kept for claims.

    Args:
        volumes: all volumes that there are.
        classes: the names of the classes.
    """

    def __init__(self, volumes: Iterable[PersistentVolume], classes: Iterable[str]) -> None:
        self._free: dict[str, list[PersistentVolume]] = {name: [] for name in classes}
        self._kept: dict[tuple[str, str], list[PersistentVolume]] = {}
        for volume in volumes:
            of_class = self._free.get(volume.class_name)
            if of_class is None or volume.metadata.deletion_timestamp is not None:
                continue
            ref = volume.spec.claim_ref
            if ref is not None:
                self._kept.setdefault((ref.namespace, ref.name), []).append(volume)
            elif volume.status.phase == "Available":
                of_class.append(volume)
        for of_class in self._free.values():
            of_class.sort(key=lambda volume: (volume.size, volume.metadata.name))
        self._comparisons = self._matched = 0
        self._of_shape: dict[tuple[str, _Shape], tuple[list[int], list[int]]] = {}
        self._candidates: dict[tuple[str, _Shape, int], Candidates] = {}

    def __len__(self) -> int:
        return sum(map(len, self._free.values()))

    def candidates_for(self, claim: PersistentVolumeClaim) -> Candidates:
        """The volumes that match, wherever they are: the one kept for the claim, or by size.

        Raises:
            TooManyClaimsError: the claims have too little in common.
        """
        shape, size = _shape_of(claim), claim.size or 0
        meta, name = claim.metadata, claim.class_name
        for volume in self._kept.get((meta.namespace, meta.name), ()):
            if (
                volume.class_name == name
                and volume.is_bound_to(claim)
                and _has_shape(volume, shape)
                and volume.size >= size
            ):
                return Candidates([volume])
        if not self._free[name]:
            return _NO_CANDIDATES
        self._matched += 1
        if self._matched > MAX_MATCHED:
            raise TooManyClaimsError
        found = self._candidates.get((name, shape, size))
        if found is None:
            numbers, sizes = self._matching(name, shape, claim.spec.selector)
            numbers = numbers[bisect_left(sizes, size) :]
            self._count(len(numbers))
            free = self._free[name]
            found = Candidates([free[number] for number in numbers], numbers)
            self._candidates[name, shape, size] = found
        return found

    def _matching(
        self, name: str, shape: _Shape, wanted: LabelSelector | None
    ) -> tuple[list[int], list[int]]:
        """The numbers of the volumes of a class that match but for their sizes, and these."""
        found = self._of_shape.get((name, shape))
        if found is None:
            free = self._free[name]
            cost = 1
            if wanted is not None:
                cost += len(wanted.match_labels)
                cost += sum(1 + len(each.values) for each in wanted.match_expressions)
            self._count(cost * len(free))
            selector = None if wanted is None else Selector(wanted)
            numbers = [
                number
                for number, volume in enumerate(free)
                if _has_shape(volume, shape)
                and shape.access_modes.issubset(volume.spec.access_modes)
                and (selector is None or selector.matches(volume.metadata.labels))
            ]
            found = self._of_shape[name, shape] = numbers, [free[n].size for n in numbers]
        return found

    def _count(self, comparisons: int) -> None:
        self._comparisons += comparisons
        # What one shape of claims costs is never too much: a cluster has the volumes it has.
        if self._comparisons > MAX_COMPARISONS and self._of_shape:
            raise TooManyClaimsError


class _Choice(NamedTuple):
    """What is left to choose from for claims that are alike, the best first on each node.

    Attributes:
        indexes: of the volumes among the candidates.
        numbers: of the volumes among those of the class; None where nobody else may have them.
        left: which of these have not been chosen.
    """

    indexes: IntArray
    numbers: IntArray | None
    left: BoolArray


def choose(
    claims: Sequence[UnboundClaim], undecided: BoolArray, places: NodeTopologyIndex
) -> list[tuple[UnboundClaim, IntArray]]:
    """Each claim's volume on each node, the best that no earlier claim of the pod has there.

    Args:
        undecided: the nodes that are looked at.

    Returns:
        With each claim its volumes by node, as indexes of its candidates, or :data:`NONE`.
    """
    rows = np.arange(places.nodes.length)
    nothing = np.full(places.nodes.length, NONE, dtype=np.int64)
    choices: dict[int, _Choice] = {}
    #: Class → the choices among its volumes, which may be the same ones.
    of_class: dict[str, dict[int, _Choice]] = {}
    width = sum(bool(each.volumes) for each in claims)
    for claim, candidates, _ in claims:
        if candidates.volumes and id(candidates) not in choices:
            indexes = candidates.first_per_node(places, width)
            left = indexes < len(candidates.volumes)
            choice = _Choice(indexes, candidates.numbers_of(indexes), left)
            choices[id(candidates)] = choice
            if choice.numbers is not None:
                of_class.setdefault(claim.class_name, {})[id(candidates)] = choice
    chosen = []
    for wanted in claims:
        if not wanted.volumes:
            chosen.append((wanted, nothing))
            continue
        choice = choices[id(wanted.candidates)]
        first = choice.left.argmax(axis=1)
        here = undecided & choice.left[rows, first]
        chosen.append((wanted, np.where(here, choice.indexes[rows, first], NONE)))
        if choice.numbers is not None:
            taken = np.where(here, choice.numbers[rows, first], NONE - 1)[:, np.newaxis]
            for other in of_class[wanted.claim.class_name].values():
                assert other.numbers is not None
                np.logical_and(other.left, other.numbers != taken, out=other.left)
    return chosen


def is_single_in(term: Sequence[Requirement]) -> bool:
    """Whether a term asks for some values of one label, and nothing else."""
    return len(term) == 1 and term[0].operator == "In"


def _smallest(some: IntArray, more: IntArray) -> IntArray:
    """Of each row the smallest, in order, as many as there are in one of both."""
    both: IntArray = np.sort(np.concatenate((some, more), axis=1), axis=1)
    return both[:, : some.shape[1]]


def _shape_of(claim: PersistentVolumeClaim) -> _Shape:
    spec = claim.spec
    selector = b"" if spec.selector is None else _encode(spec.selector)
    attributes_class = spec.volume_attributes_class_name or ""
    return _Shape(spec.volume_mode, attributes_class, frozenset(spec.access_modes), selector)


def _has_shape(volume: PersistentVolume, shape: _Shape) -> bool:
    theirs = volume.spec
    return (
        theirs.volume_mode == shape.mode
        and (theirs.volume_attributes_class_name or "") == shape.attributes_class
    )
