"""A pod with everything about it that decides where it can be placed, worked out once."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from arranger.api.resource_requests import Amounts, nonzero_requests, pod_requests
from arranger.api.settings.gang_membership import workload_key
from arranger.api.types.core import Pod, PodSpec, Volume
from arranger.api.types.packed import unpacked
from arranger.cluster.affinity_terms import NO_TERMS, affinity_terms_of
from arranger.cluster.columns import BASIC_RESOURCES, NOT_OFFERED, PODS
from arranger.cluster.excess_amounts import LARGE
from arranger.cluster.exclusive_uses import ANY_ADDRESS, HostPort

#: A PersistentVolumeClaim: namespace, name.
PvcKey = tuple[str, str]
#: What a node table counts of a pod: columns, amounts, and (cpu, memory) with defaults filled in.
SumsKey = tuple[tuple[int, ...], tuple[int, ...], tuple[int, int]]

_encode: Final = msgspec.json.Encoder(enc_hook=unpacked).encode
#: What pods request, by all that it follows from: the youngest so many.
_known_requests: dict[bytes, _Requested] = {}
_MAX_KNOWN: Final = 4096
#: One key each for pods of which the same is counted.
_known_sums: dict[SumsKey, SumsKey] = {}
#: Bytes of a key with which they are kept.
_MAX_KEPT: Final = 4096


class _Requested(NamedTuple):
    """What a pod requests; the vector where it is the same for every node table."""

    amounts: Amounts
    nonzero: tuple[int, int]
    vector: tuple[list[int], list[int]] | None


class PodInfo:
    """A pod, its requests, host ports and the key of its equivalence class.

    Attributes:
        pod: the object as last observed.
        uid: ``metadata.uid``, which is asked for often.
        requests: resource name → amount (cpu in millicores, the rest in units).
        counted_requests: those of them that nodes must have: all but what is ignored.
        nonzero_requests: (cpu, memory) as the scoring plugins count them, with defaults filled in.
        ports: the host ports the pod claims.
        affinity_terms: its (anti-)affinity to other pods.
        volumes: those that can tie it to certain nodes or keep it off some.
        pvc_keys: (namespace, name) of the PersistentVolumeClaims it names; without those that are
            made for it alone.
        priority: ``spec.priority``, 0 when unset; its PodGroup's if that has one.
        is_indexed: whether a node table counts more of it than sums: terms, ports, disks, claims.
        gang: the gang that it is in, perhaps because of its owner; "" for none, or where nobody
            has looked.
    """

    __slots__ = (
        "_request_vector",
        "_requests_key",
        "_spec_key",
        "affinity_terms",
        "counted_requests",
        "gang",
        "is_indexed",
        "nonzero_requests",
        "pod",
        "ports",
        "priority",
        "pvc_keys",
        "requests",
        "uid",
        "volumes",
    )

    def __init__(self, pod: Pod, is_ignored: Callable[[str], bool] | None = None) -> None:
        """Work out what ``pod`` requests.

        Args:
            is_ignored: whether nobody is to look at whether nodes have a resource; None for none.

        Raises:
            QuantityError: a request is not a quantity.
        """
        self.pod = pod
        self.uid = pod.metadata.uid
        self.priority = pod.spec.priority or 0
        self.gang = ""
        self.volumes: list[Volume] = []
        self.pvc_keys: tuple[PvcKey, ...] = ()
        if pod.spec.volumes:
            self.volumes = [v for v in pod.spec.volumes if v.image is None and restricts_nodes(v)]
            self.pvc_keys = tuple(
                (pod.metadata.namespace, v.persistent_volume_claim.claim_name)
                for v in self.volumes
                if v.persistent_volume_claim is not None
            )
        requested = _requests_of(pod)
        self.requests, self.nonzero_requests = requested.amounts, requested.nonzero
        self._request_vector = requested.vector
        self.counted_requests = requested.amounts
        if is_ignored is not None:
            self.counted_requests = {
                r: n for r, n in requested.amounts.items() if not is_ignored(r)
            }
        self.ports = host_ports(pod.spec)
        self.affinity_terms = affinity_terms_of(pod)
        self.is_indexed = bool(
            self.affinity_terms is not NO_TERMS or self.ports or self.volumes or self.pvc_keys
        )
        self._requests_key: SumsKey | None = None
        self._spec_key: bytes | None = None

    @property
    def spec_key(self) -> bytes:
        """Equal for pods whose specs give equal placement.

        Worked out when it is first asked for: of the pods that run nobody asks.
        """
        if self._spec_key is None:
            spec = self.pod.spec
            self._spec_key = spec_key(
                spec, [v for v in spec.volumes if v.image or restricts_nodes(v)]
            )
        return self._spec_key

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.pod.metadata.namespace

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.pod.key

    @property
    def workload(self) -> str:
        """Equal for the pods of one gang, else of one controller; "" for a pod on its own."""
        return workload_key(self.pod, self.gang)

    def request_vector(self, column_of: Callable[[str], int]) -> tuple[list[int], list[int]]:
        """(columns, amounts) in the resource matrices of a node table, its one pod slot included.

        ``column_of`` gives the column of a resource, always the same once a node offers it. All
        that no node offers makes one entry together.
        """
        if self._request_vector is not None:
            return self._request_vector
        requested = {column_of(name): n for name, n in self.counted_requests.items() if n}
        requested[PODS] = 1
        if NOT_OFFERED not in requested:
            self._request_vector = list(requested), list(requested.values())
            return self._request_vector
        requested[NOT_OFFERED] = 1  # worked out each time: a node may come that offers it
        return list(requested), list(requested.values())

    def sums_key(self, column_of: Callable[[str], int]) -> SumsKey | None:
        """What a node table counts of the pod, where that is sums only; None where it is more.

        ``column_of`` is that of :meth:`request_vector`.
        """
        return None if self.is_indexed else self.requests_key(column_of)

    def requests_key(self, column_of: Callable[[str], int]) -> SumsKey | None:
        """The sums that a node table counts of the pod, beside whatever else it counts.

        None where they are not counted by adding alone: of what no node offers, and of amounts near
        to what the matrices hold.
        """
        if self._requests_key is not None:
            return self._requests_key
        columns, amounts = self.request_vector(column_of)
        if NOT_OFFERED in columns or max(*amounts, *self.nonzero_requests) >= LARGE:
            return None
        key = tuple(columns), tuple(amounts), self.nonzero_requests
        self._requests_key = key = _known_sums.setdefault(key, key)
        if len(_known_sums) > _MAX_KNOWN:
            _known_sums.clear()
        return key

    def share_request_vector(self, before: PodInfo) -> None:
        """Take over what was worked out for an earlier state of the pod with equal requests."""
        self._request_vector, self._requests_key = before._request_vector, None

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"


def spec_key(spec: PodSpec, volumes: list[Volume]) -> bytes:
    """What of a spec decides where a pod can be placed, encoded; a digest of what is large.

    ``volumes`` are those that do. Others are left out: service-account volumes have random names,
    which would put every pod into a class of its own. So is the node, which is an outcome.
    """
    if spec.node_name or len(volumes) != len(spec.volumes):
        spec = msgspec.structs.replace(spec, volumes=volumes, node_name="")
    encoded = _encode(spec)
    return encoded if len(encoded) <= _MAX_KEPT else blake2b(encoded).digest()


def restricts_nodes(volume: Volume) -> bool:
    """Whether a volume can tie its pod to certain nodes or exclude it from some."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.azure_disk is not None
        or volume.cinder is not None
        or volume.portworx_volume is not None
        or volume.rbd is not None
        or volume.iscsi is not None
    )


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The host ports a pod claims: of its containers and its sidecars."""
    containers = spec.containers
    if spec.init_containers:
        sidecars = [each for each in spec.init_containers if each.restart_policy == "Always"]
        containers = [*containers, *sidecars]
    claimed = [port for each in containers for port in each.ports if port.host_port > 0]
    return tuple((p.host_ip or ANY_ADDRESS, p.protocol or "TCP", p.host_port) for p in claimed)


def _requests_of(pod: Pod) -> _Requested:
    """What a pod requests, worked out once for all pods that state the same amounts."""
    key = _encode(requests_follow_from(pod))
    if len(key) > _MAX_KEPT:
        return _requests(pod)
    known = _known_requests.get(key)
    if known is None:
        if len(_known_requests) >= _MAX_KNOWN:
            del _known_requests[next(iter(_known_requests))]
        known = _known_requests[key] = _requests(pod)
    return known


def requests_follow_from(pod: Pod) -> tuple[object, ...]:
    """All of a pod that :func:`~arranger.api.resource_requests.pod_requests` reads."""
    spec, status = pod.spec, pod.status
    statuses = [
        (each.name, each.resources.requests, each.allocated_resources)
        for each in (*status.container_statuses, *status.init_container_statuses)
        if each.resources is not None
    ]
    resized: tuple[object, ...] = ()
    if statuses or status.resources is not None:
        names = [each.name for each in (*spec.containers, *spec.init_containers)]
        resized = statuses, status.resources, status.allocated_resources, names, status.conditions
    return (
        [each.resources.requests for each in spec.containers],
        [(each.resources.requests, each.restart_policy) for each in spec.init_containers],
        None if spec.resources is None else spec.resources.requests,
        spec.overhead,
        *resized,
    )


def _requests(pod: Pod) -> _Requested:
    requests = pod_requests(pod)
    vector: tuple[list[int], list[int]] | None = None
    if all(name in BASIC_RESOURCES for name in requests):
        wanted = {BASIC_RESOURCES.index(name): n for name, n in requests.items() if n}
        wanted[PODS] = 1
        vector = list(wanted), list(wanted.values())
    return _Requested(requests, nonzero_requests(pod, requests), vector)
