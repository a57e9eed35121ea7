"""What Gang objects and pods must say of gangs, by the server's own history and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from arranger.embedded.storage.store import Change
from tests.simulation.harnesses.gangs import GangHarness, gang_name_of

MIN_AVAILABLE = "gang.scheduling.koordinator.sh/min-available"


def satisfied_gangs(history: Iterable[Change]) -> set[str]:
    """The gangs (by annotations) that had their minimum since they last had no node at all."""
    satisfied: set[str] = set()
    least: dict[str, int] = {}
    with_node: defaultdict[str, set[str]] = defaultdict(set)
    succeeded: defaultdict[str, set[str]] = defaultdict(set)
    for change in history:
        gang = gang_name_of(change.after) if change.resource == "/pods" else ""
        if not gang:
            continue
        pod, uid = change.after, change.after["metadata"]["uid"]
        least[gang] = int(pod["metadata"]["annotations"][MIN_AVAILABLE])
        there, phase = change.type != "DELETED", pod["status"].get("phase")
        leaving = "deletionTimestamp" in pod["metadata"]
        keeps = there and not leaving and pod["spec"].get("nodeName")
        _set(with_node[gang], uid, bool(keeps) and phase not in ("Succeeded", "Failed"))
        _set(succeeded[gang], uid, there and phase == "Succeeded")
        if len(with_node[gang] | succeeded[gang]) >= least[gang]:
            satisfied.add(gang)
        elif not with_node[gang]:
            satisfied.discard(gang)
    return satisfied


def recorded_gangs(sim: GangHarness) -> set[str]:
    """The gangs whose objects say so."""
    found = sim.cluster.objects("gangs", "arranger.io")
    said = (g["metadata"] for g in found if g.get("status", {}).get("resourceSatisfied"))
    return {f"{meta['namespace']}/{meta['name']}" for meta in said}


def waiting_gangs(sim: GangHarness) -> set[str]:
    """The gangs whose objects say since when they wait."""
    found = sim.cluster.objects("gangs", "arranger.io")
    said = (g["metadata"] for g in found if "waitingSince" in g.get("status", {}))
    return {f"{meta['namespace']}/{meta['name']}" for meta in said}


def gangs_with_held_nodes(sim: GangHarness) -> set[str]:
    """The gangs of pods that show a node and have not been bound to one."""
    pods = sim.cluster.objects("pods")
    return {
        gang_name_of(pod)
        for pod in pods
        if "nominatedNodeName" in pod["status"] and "nodeName" not in pod["spec"]
    }


def _set(uids: set[str], uid: str, there: bool) -> None:
    (uids.add if there else uids.discard)(uid)
