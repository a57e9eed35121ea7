"""What a pod asks of a node: containers, init containers, sidecars, overhead, pod-level resources.

Upstream: ``k8s.io/component-helpers/resource``, ``PodRequests``. Amounts are integers: ``cpu`` in
millicores, everything else in units (bytes, devices).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import chain
from typing import Final

from arranger.api.quantity import milli_value, value
from arranger.api.types.core import Container, ContainerStatus, Pod, ResourceList

#: Resource or card → amount: cpu in millicores, everything else in units (bytes, devices, cards).
Amounts = dict[str, int]

#: No pod counts for more of anything, and no node offers as much, so that such a pod fits nowhere.
#: Sums of amounts stay within 64 bits: 4 EiB of a thousand pods and more that ask for 4 PiB.
MAX_AMOUNT: Final = 2**52

#: What the scoring plugins assume for a container that states nothing (100m, 200Mi).
NONZERO_DEFAULTS: Final[Mapping[str, int]] = {"cpu": 100, "memory": 200 * 1024 * 1024}


def parse_resource_list(resources: ResourceList, only: Collection[str] | None = None) -> Amounts:
    """A resource list in integers, of all resources or of some.

    Raises:
        QuantityError: an amount is not a quantity.
    """
    if only is not None:
        resources = {name: resources[name] for name in only if name in resources}
    return {name: (milli_value if name == "cpu" else value)(n) for name, n in resources.items()}


def format_resource_list(amounts: Mapping[str, int]) -> dict[str, str]:
    """The amounts as quantities, as :func:`parse_resource_list` reads them."""
    return {name: format_quantity(name, n) for name, n in sorted(amounts.items())}


def format_quantity(name: str, amount: int) -> str:
    """One amount as a quantity; memory gets the largest suffix that keeps it exact."""
    if name == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if name not in ("memory", "ephemeral-storage") or not amount:
        return str(amount)
    for suffix in ("", "Ki", "Mi", "Gi", "Ti"):
        if amount % 1024 or suffix == "Ti":
            return f"{amount}{suffix}"
        amount //= 1024
    raise AssertionError("the last suffix takes everything")


def pod_requests(
    pod: Pod,
    *,
    defaults: Mapping[str, int] | None = None,
    pod_level: bool = True,
    only: Collection[str] | None = None,
) -> Amounts:
    """What the pod occupies on its node.

    ``max(containers + sidecars, each init container + the sidecars started before it)``, replaced
    by pod-level requests where set, plus overhead. ``defaults`` fills in resources a container
    does not mention (see :data:`NONZERO_DEFAULTS`); ``pod_level=False`` passes over the pod-level
    requests. For a running pod that is being resized the larger of spec and status counts, unless
    the resize is infeasible. No amount is larger than :data:`MAX_AMOUNT`. ``only`` leaves out all
    other resources, of which a pod may name tens of thousands.

    Raises:
        QuantityError: an amount is not a quantity.
    """
    spec = pod.spec
    statuses = _resource_statuses(pod)
    infeasible = any(
        c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions
    )

    def effective(wanted: Amounts, actuated: ResourceList, allocated: ResourceList) -> Amounts:
        held: Amounts = {}
        _raise_to(held, parse_resource_list(actuated, only))
        _raise_to(held, parse_resource_list(allocated, only))
        if not infeasible:
            _raise_to(held, wanted)
        return held

    def ask(container: Container, *, resizable: bool = True) -> Amounts:
        wanted = parse_resource_list(container.resources.requests, only)
        if resizable and (status := statuses.get(container.name)) is not None:
            assert status.resources is not None, "_resource_statuses picked those that have some"
            wanted = effective(wanted, status.resources.requests, status.allocated_resources)
        if defaults:
            for name, amount in defaults.items():
                wanted.setdefault(name, amount)
        return wanted

    total: Amounts = {}
    for container in spec.containers:
        _add_to(total, ask(container))
    if spec.init_containers:
        sidecars: Amounts = {}
        peak: Amounts = {}
        for container in spec.init_containers:
            sidecar = container.restart_policy == "Always"
            wanted = ask(container, resizable=sidecar)
            if sidecar:
                _add_to(total, wanted)
                _add_to(sidecars, wanted)
                wanted = sidecars
            else:
                _add_to(wanted, sidecars)
            _raise_to(peak, wanted)
        _raise_to(total, peak)
    if pod_level and spec.resources is not None:
        requested = parse_resource_list(spec.resources.requests, only)
        names = [name for name in requested if _may_be_pod_level(name)]
        if pod.status.resources is not None:
            held = pod.status.resources.requests
            requested = effective(requested, held, pod.status.allocated_resources)
        total.update({name: requested.get(name, 0) for name in names})
    if spec.overhead:
        _add_to(total, parse_resource_list(spec.overhead, only))
    return {name: min(n, MAX_AMOUNT) for name, n in total.items()}


def nonzero_requests(pod: Pod, requests: Amounts) -> tuple[int, int]:
    """(cpu, memory) by which a node's load is scored: defaults for containers without a request.

    ``requests`` is the result of :func:`pod_requests`. A pod-level request replaces the defaults.
    """
    defaults = NONZERO_DEFAULTS
    resources = pod.spec.resources
    if resources is not None and any(map(_may_be_pod_level, resources.requests)):
        defaults = {name: n for name, n in defaults.items() if name not in requests}
    counted = pod_requests(pod, defaults=defaults, only=NONZERO_DEFAULTS)
    return counted.get("cpu", 0), counted.get("memory", 0)


def _may_be_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _resource_statuses(pod: Pod) -> dict[str, ContainerStatus]:
    reported = chain(pod.status.container_statuses, pod.status.init_container_statuses)
    return {s.name: s for s in reported if s.resources is not None}


def add_amounts(total: Counter[str], more: Mapping[str, int], sign: int = 1) -> None:
    """Add amounts to a sum, or with -1 subtract them; what comes to 0 is not kept."""
    for name, amount in more.items():
        total[name] += sign * amount
        if not total[name]:
            del total[name]


def _add_to(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, -1):
            total[name] = amount
