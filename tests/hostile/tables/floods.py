"""Much at once of what is harmless alone, all of it one tenant's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.controlplane.harness import a_node
from tests.hostile.attack import Attack, Object
from tests.hostile.expansion import long_text
from tests.hostile.tables.audit import annotated, pod, pod_group, tyjob

_ANTI: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def floods(count: int) -> Iterator[Attack]:
    """``count`` of each."""
    yield Attack(f"{count:,} gangs that fit nowhere", [_gang(n) for n in range(count)])
    yield Attack(
        f"{count:,} gangs that wait for a member",
        [annotated(pod(f"lone-{n}"), GANG_NAME=f"lone-{n}", GANG_MIN="2") for n in range(count)],
    )
    yield Attack(f"{count:,} TYJobs, each unlike the others", [_job(n) for n in range(count)])
    yield Attack(
        f"{count:,} pods whose labels, selectors and terms no two share",
        [_own_words(n) for n in range(count)],
    )
    yield Attack(
        f"{count:,} bound pods whose labels and terms no two share",
        # On nodes of their own: they may use up those, and nobody else's.
        [a_node(f"busy-{n}") for n in range(4)]
        + [_own_words(n, nodeName=f"busy-{n % 4}") for n in range(count)],
    )
    large = [pod(f"large-{n}") for n in range(count // 10)]
    for each in large:
        each["metadata"]["annotations"] = {"example.com/text": long_text(240_000)}
    yield Attack(f"{len(large):,} pods with 240 kB of annotations", large)
    groups = [pod_group(f"edited-{n}") for n in range(count // 10)]
    edits = [
        pod_group(group["metadata"]["name"], minMember=-turn)
        for turn in range(1, 11)
        for group in groups
    ]
    yield Attack(f"{len(edits):,} edits, each of which is worth an Event", groups, edits)
    waiting = [pod(f"waits-{n}", requests={"cpu": "65"}) for n in range(count // 10)]
    relabelled: list[Object] = []
    for turn in range(10):
        for each in waiting:
            labels = {"turn": f"{turn}"}
            relabelled.append({**each, "metadata": {**each["metadata"], "labels": labels}})
    yield Attack(f"{len(relabelled):,} edits of pods that wait", waiting, relabelled)


def _gang(number: int) -> Object:
    made = pod(f"huge-{number}", requests={"cpu": f"{65 + number % 50}", "memory": f"{number}Mi"})
    return annotated(made, GANG_NAME=f"huge-{number}", GANG_MIN="1")


def _job(number: int) -> Object:
    job = tyjob(f"flood-{number}", priority=number % 10 + 1)
    job["spec"]["workerSets"][0]["name"] = f"role-{number}"
    return job


def _own_words(number: int, **spec: object) -> Object:
    own = {f"example.com/label-{number}": f"v{number}"}
    term = {"topologyKey": f"example.com/zone-{number}", "labelSelector": {"matchLabels": own}}
    made = pod(
        f"words-{number}-{len(spec)}",
        affinity={"podAntiAffinity": {_ANTI: [term]}},
        tolerations=[{"key": f"example.com/taint-{number}", "operator": "Exists"}],
        **({"nodeSelector": own} if not spec else {}),
        **spec,
    )
    made["metadata"]["labels"] = own
    return made
