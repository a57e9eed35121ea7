"""Host ports in odd forms, and many of them: who keeps whom off which node, and what it costs."""

from __future__ import annotations

import random

import msgspec
import pytest

from arranger.api.types.core import Pod
from arranger.cluster.exclusive_uses import HostPorts
from arranger.cluster.pod_info import host_ports

ADDRESSES = ("", "0.0.0.0", "::", "10.0.0.1", "10.0.0.2", "no address")
PROTOCOLS = ("", "TCP", "UDP", "XYZ")
NUMBERS = (-1, 0, 1, 80, 65535, 65536, 2**31)
Stated = dict[str, object]


def a_port(rng: random.Random) -> Stated:
    stated: Stated = {"containerPort": rng.choice(NUMBERS), "hostPort": rng.choice(NUMBERS)}
    if rng.random() < 0.8:
        stated["hostIP"] = rng.choice(ADDRESSES)
    if rng.random() < 0.8:
        stated["protocol"] = rng.choice(PROTOCOLS)
    return stated


def a_pod(rng: random.Random) -> Stated:
    def container(**more: object) -> Stated:
        ports = [a_port(rng) for _ in range(rng.randrange(3))]
        return {"name": "c", "ports": ports + ports[: rng.randrange(2)], **more}

    return {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [container() for _ in range(2)],
            "initContainers": [container(), container(restartPolicy="Always")],
        },
    }


def claims(pod: Stated) -> list[tuple[object, object, object]]:
    """As kube-scheduler reads them: of containers, and of init containers that go on running."""
    spec = pod["spec"]
    assert isinstance(spec, dict)
    running = [c for c in spec["initContainers"] if c.get("restartPolicy") == "Always"]
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for each in (*spec["containers"], *running)
        for port in each["ports"]
        if port["hostPort"] > 0
    ]


def in_conflict(one: Stated, other: Stated) -> bool:
    return any(
        mine[1:] == its[1:] and (mine[0] == its[0] or "0.0.0.0" in (mine[0], its[0]))
        for mine in claims(one)
        for its in claims(other)
    )


@pytest.mark.parametrize("seed", range(20))
def test_pods_keep_each_other_off_as_by_kube_scheduler(seed: int) -> None:
    rng = random.Random(seed)
    used, there = HostPorts(), list[tuple[Stated, int]]()
    for _ in range(60):
        if there and rng.random() < 0.3:
            pod, row = there.pop(rng.randrange(len(there)))
            used.add(host_ports(msgspec.convert(pod, Pod).spec), row, -1)
        else:
            pod, row = a_pod(rng), rng.randrange(5)
            used.add(host_ports(msgspec.convert(pod, Pod).spec), row, 1)
            there.append((pod, row))
        new = a_pod(rng)
        wanted = host_ports(msgspec.convert(new, Pod).spec)
        found = {row for rows in used.rows_with_conflicts(wanted) for row in rows}
        assert found == {row for pod, row in there if in_conflict(pod, new)}
    for pod, row in there:
        used.add(host_ports(msgspec.convert(pod, Pod).spec), row, -1)
    assert used == HostPorts(), "nothing is kept of what is gone"


def test_one_port_on_a_multitude_of_addresses_costs_who_wants_it_no_more_than_on_one() -> None:
    used = HostPorts()
    for pod in range(50):
        used.add([(f"10.{pod}.{n // 256}.{n % 256}", "TCP", 80) for n in range(512)], pod % 7, 1)
    looked_at = [list(rows) for rows in used.rows_with_conflicts([("0.0.0.0", "TCP", 80)])]
    assert sorted(looked_at[0]) == list(range(7))
    assert sum(map(len, looked_at)) == 7
    for wanted in ("10.0.0.1", "10.99.0.1"):
        rows = [list(rows) for rows in used.rows_with_conflicts([(wanted, "TCP", 80)])]
        assert sum(map(len, rows)) == (wanted == "10.0.0.1")
