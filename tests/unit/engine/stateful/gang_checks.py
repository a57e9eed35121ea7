"""What has to be so of gangs in an engine, whatever has happened."""

from __future__ import annotations

from collections.abc import Mapping, Sized

from arranger.api.settings.gang_membership import gang_membership
from arranger.api.settings.gang_settings import MatchPolicy
from arranger.engine.engine import Engine
from arranger.gangs.group import GangGroup
from tests.unit.engine.stateful.gang_model import ServerPod


def is_bound(engine: Engine, uid: str) -> bool:
    """Whether a pod keeps its node whatever becomes of its gang."""
    member = engine._context.pods.get(uid)
    return member is None or not engine._gangs.is_held(member)


def check_capacity(engine: Engine, placed: set[str], nodes: Mapping[str, int]) -> None:
    """No node has been given more than it has, whatever others have done to it before.

    Args:
        placed: the uids of the pods that have just been placed.
        nodes: name → CPUs.
    """
    cluster = engine.cluster
    for node in {cluster._node_of[uid] for uid in placed} & nodes.keys():
        pods = [pod for uid, pod in cluster._pods.items() if cluster._node_of[uid] == node]
        used = sum(pod.requests.get("cpu", 0) for pod in pods)
        assert used <= 1000 * nodes[node], f"{node} has been given too much"


def check_gangs(engine: Engine, before: set[str], succeeded: set[str], *, calm: bool) -> None:
    """A gang begins to be bound as a whole; and a Strict one holds nothing in vain.

    Args:
        before: the uids of the pods that were bound when the engine began to run.
        succeeded: those of the pods that the engine has been shown as succeeded.
        calm: no plugin refuses a pod between its gang's Permit and its Binding.
    """
    registry, cluster = engine.registry, engine.cluster
    for gang in registry.gangs.values():
        group = registry.group_of(gang)
        uids = {uid for one in group.gangs for uid in one.memberships}
        leaving = {uid for one in group.gangs for uid in one.memberships if one.is_terminating(uid)}
        bound = {uid for uid in uids - leaving if uid in cluster and is_bound(engine, uid)}
        new = bound - before
        if new and new == bound and calm and not any(g.satisfied for g in group.gangs):
            assert is_enough(group, bound | succeeded), f"{group.name}: bound in part"
        hold = engine._gangs._holds.get(group.name)
        if group.is_strict and hold is not None and hold.members:
            held = bound | hold.members.keys() | succeeded
            assert is_enough(group, held), f"{group.name}: held in vain"


def is_enough(group: GangGroup, uids: set[str]) -> bool:
    """Whether these pods are the minimum of every gang of the group, and no gang is missing."""
    for gang in group.gangs:
        roles = [gang.memberships[uid].bundle for uid in uids if uid in gang.memberships]
        minima = dict(gang.settings.bundle_minimums)
        if len(roles) < gang.minimum or any(roles.count(b) < n for b, n in minima.items()):
            return False
    return not group.missing_partners


def could_be_placed(engine: Engine, served: ServerPod, there: set[str]) -> bool:
    """Whether all that a pod has to wait for is among the pods ``there``."""
    claim = gang_membership(served.build())
    if claim is None:
        return True
    registry = engine.registry
    group = registry.group_of(registry.gangs[claim.gang])
    if group.schedules_individually:
        return True
    if any(
        g.satisfied and g.settings.match_policy is MatchPolicy.ONLY_WAITING for g in group.gangs
    ):
        return False  # how many of them have to be new is not known here
    return all(gang.is_defined for gang in group.gangs) and is_enough(group, there)


def check_nothing_is_left(engine: Engine) -> None:
    """When every object is gone, the engine remembers none."""
    work, registry = engine._gangs, engine.registry
    maps: list[Sized] = [
        *(work._entities, work._holds, engine._gang_objects),
        *(registry.gangs, registry._gang_by_uid, registry._pod_groups, registry._groups),
        *(registry.previously_satisfied, registry._recorded_minimums),
        *(engine.pods(), engine.queue, engine.cluster),
    ]
    assert not any(map(len, maps)), "left over"
