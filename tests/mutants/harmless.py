"""Mutants that no test can tell from the source, each with the reason."""

from __future__ import annotations

from typing import Final

from tests.mutants.harmless_readers import HARMLESS_READERS

_ONLY_COMPARED = "a revision is only compared with an earlier one of the same entity"
_ONLY_ROOM = "when those that have left are dropped from the heap is told by nothing but memory"
_NEVER_ASKED = "the registry takes only members away"
_ANOTHER_NUMBER = "a change makes it another number, however much larger"
_TOLD_BEFORE = "the Binding is in doubt already, which is told once, with the first reason"

#: (function, line that the mutant puts in) → why it does no harm.
HARMLESS: Final[dict[tuple[str, str], str]] = HARMLESS_READERS | {
    (
        "arranger.engine.context.entity.QueuedEntity.add_member",
        "self.revision += 2",
    ): _ONLY_COMPARED,
    (
        "arranger.engine.context.entity.QueuedEntity.remove_member",
        "self.revision += 2",
    ): _ONLY_COMPARED,
    (
        "arranger.engine.context.entity.QueuedEntity.recheck_member",
        "self.revision += 2",
    ): _ONLY_COMPARED,
    (
        "arranger.engine.context.entity.QueuedEntity.add_member",
        "if len(self._seniors) >= 2 * len(self.members) + _SENIORS_SLACK:",
    ): _ONLY_ROOM,
    (
        "arranger.engine.context.entity.QueuedEntity.add_member",
        "if len(self._seniors) > 2 * len(self.members) - _SENIORS_SLACK:",
    ): _ONLY_ROOM,
    (
        "arranger.engine.context.entity.QueuedEntity.add_member",
        "if len(self._seniors) > 2 / len(self.members) + _SENIORS_SLACK:",
    ): _ONLY_ROOM,
    (
        "arranger.engine.context.entity.QueuedEntity.add_member",
        "if len(self._seniors) > 3 * len(self.members) + _SENIORS_SLACK:",
    ): _ONLY_ROOM,
    (
        "arranger.engine.pod.node_release.NodeRelease.release_node",
        'member.entity = ""',
    ): "of a pod that is gone it is asked no more; a cycle of references ends either way",
    (
        "arranger.kube.writes.call.ApiCall.__init__",
        "self.namespace = None",
    ): "the dispatcher sets it before anybody looks",
    (
        "arranger.engine.queue.nominator.Nominator.nominate",
        "self.changes += 2",
    ): _ANOTHER_NUMBER,
    (
        "arranger.engine.queue.nominator.Nominator._forget",
        "self.changes += 2",
    ): _ANOTHER_NUMBER,
    (
        "arranger.engine.pod.preemption_executor.PreemptionExecutor.evict",
        "self._binding_cycle.preempt(own, Status(None, (reason,)), now)",
    ): "only the reasons of that refusal are read",
    (
        "arranger.engine.pod.preemption_executor.PreemptionExecutor.evict",
        "entity = member.entity if (group) or True else None",
    ): "what is queued without a group is one pod",
    (
        "arranger.gangs.gang.Gang.remove_member",
        "membership, before = self.memberships.pop(uid, ), self.settings",
    ): _NEVER_ASKED,
    (
        "arranger.gangs.group_index.GroupIndex.__len__",
        "return len(self._groups) - len(self._names) + len(self._named_by)",
    ): "tests alone ask whether anything is left; each of the three is empty then",
    (
        "arranger.quota.admission.Admission.expire",
        "expired = None",
    ): "it is only asked whether it is true",
    (
        "arranger.quota.preemption.reclaim.Demand.is_due",
        "found = None",
    ): "it is only asked whether it is true",
    (
        "arranger.quota.preemption.policy.QueuePreemptionPolicy._same_queue",
        "theirs = None",
    ): "a pod is charged to its queue; the charge only says sooner which that is",
    (
        "arranger.quota.preemption.evictable_use.EvictableUse._recount",
        "kind = self._kinds.setdefault(key, _Kind(None))",
    ): "the next line sets it",
    (
        "arranger.gangs.registry.GangRegistry.on_pod_updated",
        "if known is not None and known.shows(pod, None):",
    ): "the same comes of it the longer way",
    (
        "arranger.gangs.workloads.known_owner.group_by",
        'namespace, _, name = gang.rpartition("/")',
    ): "neither a namespace nor the name of a gang has another slash",
    (
        "arranger.gangs.workloads.index.WorkloadIndex.__len__",
        "return len(self._pods) + len(self._groups) + len(self._members) - len(self._confirmed)",
    ): "tests alone ask whether anything is left, and who is confirmed is one of the pods",
    (
        "arranger.gangs.workloads.index.WorkloadIndex._drop_group",
        'self._undefined[gang] = ""',
    ): "only the names count",
    (
        "arranger.gangs.workloads.index.WorkloadIndex._read",
        "minimum = dict(definition.roles).get(role, None)",
    ): "it is only asked whether there is one",
    (
        "arranger.gangs.registry.GangRegistry.on_pod_deleted",
        "gang.blocked = None",
    ): "it is only asked whether it is true",
    (
        "arranger.gangs.gang_object.believed_until",
        "more = is_defined_by_pods(gang) and named_bundles(gang).keys() < minimums.keys()",
    ): "where the gang has all bundles of the object, that has been told before",
    (
        "arranger.preemption.candidate_cache.CandidateCache.__init__",
        "self._version = -2",
    ): "any number below 0 says that nothing is known",
    (
        "arranger.preemption.candidate_cache.CandidateCache.__init__",
        "self._budgets_version = None",
    ): "nothing is known yet that budgets could change",
    (
        "arranger.preemption.candidate_cache.CandidateCache.__init__",
        "self._budgets_version = +1",
    ): "nothing is known yet that budgets could change",
    (
        "arranger.preemption.candidate_cache.CandidateCache.__init__",
        "self._reusable = None",
    ): "it is only asked whether it is true",
    (
        "arranger.preemption.candidate_cache.CandidateCache.__init__",
        "self._searching = None",
    ): "it is only asked whether it is true",
    (
        "arranger.preemption.candidate_cache.CandidateCache.update",
        "self._searching = None",
    ): "it is only asked whether it is true",
    (
        "arranger.preemption.candidate_cache.CandidateCache._forget_all",
        "self._known[:] = None",
    ): "numpy makes False of it",
    (
        "arranger.preemption.victims.VictimSelector._reprieve",
        "found = self._expanded(None, needed, len(violations), uids, broken)",
    ): "the row is put in below",
    (
        "arranger.preemption.candidate_cache.CandidateCache.update",
        "selector = VictimSelector(context, is_preemptable, None, self._exceeded, gangs)",
    ): "what plugins have said is only remembered there",
    (
        "arranger.preemption.importance.Candidate.cost",
        "return 0, _NOBODY, 0, 1, 0, 0.0, 0.0",
    ): "all of whom nobody need be evicted cost the same, and less than others before this counts",
    (
        "arranger.preemption.candidate_cache.CandidateCache.best_for_several",
        "chosen = min((each for each in first if each), key=Candidate.cost, default=None)",
    ): "where nobody of the way may leave, all of them may not either, and the best is taken",
    (
        "arranger.preemption.victims.VictimSelector._company",
        "return together if may_leave or self.losses.may_add(together) else None",
    ): "whose partners may not leave is left out by the search, and losses are asked about again",
    (
        "arranger.kube.writes.binding.BindCall._read_outcome",
        'return self.mark_ambiguous("XXNotLeaderXX")',
    ): _TOLD_BEFORE,
    (
        "arranger.preemption.allowed_together.allowed_together",
        "if not pods and losses.may_add(policy.expand_to_gang(pods)):",
    ): "then they are added one by one, and all may be",
}
