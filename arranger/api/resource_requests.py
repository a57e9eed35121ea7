"""What a pod asks of a node: containers, init containers, sidecars, overhead, pod-level resources.

Upstream: ``k8s.io/component-helpers/resource``, ``PodRequests``. Amounts are integers: ``cpu`` in
millicores, everything else in units (bytes, devices).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from arranger.api.quantity import milli, value
from arranger.api.types.core import Container, ContainerStatus, Pod, ResourceList

Amounts = dict[str, int]

#: What the scoring plugins assume for a container that states nothing (100m, 200Mi).
NON_ZERO_DEFAULTS: Final[Mapping[str, int]] = {"cpu": 100, "memory": 200 * 1024 * 1024}


def amounts(resources: ResourceList) -> Amounts:
    """A resource list in integers.

    Raises:
        QuantityError: an amount is not a quantity.
    """
    return {name: milli(raw) if name == "cpu" else value(raw) for name, raw in resources.items()}


def pod_requests(
    pod: Pod, *, defaults: Mapping[str, int] | None = None, pod_level: bool = True
) -> Amounts:
    """What the pod occupies on its node.

    ``max(containers + sidecars, each init container + the sidecars started before it)``, replaced
    by pod-level requests where set, plus overhead. ``defaults`` fills in resources a container
    does not mention (see :data:`NON_ZERO_DEFAULTS`); ``pod_level=False`` passes over the pod-level
    requests. For a running pod that is being resized the larger of spec and status counts, unless
    the resize is infeasible.

    Raises:
        QuantityError: an amount is not a quantity.
    """
    spec = pod.spec
    statuses = _statuses(pod)
    infeasible = any(
        c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions
    )

    def effective(wanted: Amounts, actuated: ResourceList, allocated: ResourceList) -> Amounts:
        held: Amounts = {}
        _raise_to(held, amounts(actuated))
        _raise_to(held, amounts(allocated))
        if not infeasible:
            _raise_to(held, wanted)
        return held

    def ask(container: Container, *, resizable: bool = True) -> Amounts:
        wanted = amounts(container.resources.requests)
        if resizable and (status := statuses.get(container.name)) is not None:
            assert status.resources is not None, "_statuses picked those that have some"
            wanted = effective(wanted, status.resources.requests, status.allocated_resources)
        if defaults:
            for name, amount in defaults.items():
                wanted.setdefault(name, amount)
        return wanted

    total: Amounts = {}
    for container in spec.containers:
        _add(total, ask(container))
    if spec.init_containers:
        sidecars: Amounts = {}
        peak: Amounts = {}
        for container in spec.init_containers:
            sidecar = container.restart_policy == "Always"
            wanted = ask(container, resizable=sidecar)
            if sidecar:
                _add(total, wanted)
                _add(sidecars, wanted)
                wanted = sidecars
            else:
                _add(wanted, sidecars)
            _raise_to(peak, wanted)
        _raise_to(total, peak)
    if pod_level and spec.resources is not None:
        whole = amounts(spec.resources.requests)
        names = [name for name in whole if _may_be_pod_level(name)]
        if pod.status.resources is not None:
            held = pod.status.resources.requests
            whole = effective(whole, held, pod.status.allocated_resources)
        total.update({name: whole.get(name, 0) for name in names})
    if spec.overhead:
        _add(total, amounts(spec.overhead))
    return total


def non_zero_requests(pod: Pod, requests: Amounts) -> tuple[int, int]:
    """(cpu, memory) as a node's load is scored, with what containers leave open filled in.

    ``requests`` is what :func:`pod_requests` says. A pod-level request leaves nothing open.
    """
    defaults = NON_ZERO_DEFAULTS
    resources = pod.spec.resources
    if resources is not None and any(map(_may_be_pod_level, resources.requests)):
        defaults = {name: n for name, n in defaults.items() if name not in requests}
    counted = pod_requests(pod, defaults=defaults)
    return counted.get("cpu", 0), counted.get("memory", 0)


def _may_be_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    reported: Iterable[ContainerStatus] = (
        *pod.status.container_statuses,
        *pod.status.init_container_statuses,
    )
    return {s.name: s for s in reported if s.resources is not None}


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, -1):
            total[name] = amount
