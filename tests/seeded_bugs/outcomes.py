"""Bugs where an outcome is settled: of Bindings, evictions, gangs and faults of our own."""

from __future__ import annotations

from tests.seeded_bugs.bug import SeededBug

_WRITES = ("tests/unit/kube/writes/test_binding_faults.py", "tests/unit/kube/writes")

BUGS = (
    # Answers to Bindings, as the writer reads them.
    SeededBug(
        "lost-answer-is-a-refusal",
        "a Binding whose answer is lost counts as refused, and the pod goes elsewhere",
        "arranger/kube/writes/binding.py",
        """        except TransportError as error:
            return self.mark_ambiguous(str(error))
        return await self._classify(answer, context)
""",
        """        except TransportError as error:
            return Refused(0, "Unreachable", str(error))
        return await self._classify(answer, context)
""",
        _WRITES,
    ),
    SeededBug(
        "error-is-a-refusal",
        "a Binding that is answered by 5xx counts as refused",
        "arranger/kube/writes/binding.py",
        """return self.mark_ambiguous(f"{answer.status} {refusal.message}".rstrip())""",
        "return refusal",
        _WRITES,
    ),
    SeededBug(
        "conflict-is-a-refusal",
        "a 409 counts as refused, though it is our own Binding that the server has",
        "arranger/kube/writes/binding.py",
        """                return await self._read_outcome(context, refusal)
            case AnswerClass.SERVER_ERROR:""",
        """                return refusal
            case AnswerClass.SERVER_ERROR:""",
        _WRITES,
    ),
    SeededBug(
        "namesake-is-bound",
        "a pod that was made anew under its name and is on our node counts as the one we bound",
        "arranger/kube/writes/binding.py",
        """        if pod.metadata.uid != self._bind.pod.uid:
            return Refused(409, "Replaced", f"the pod is now {pod.metadata.uid}")
""",
        "",
        _WRITES,
    ),
    # What the engine makes of them.
    SeededBug(
        "unknown-gives-its-node-back",
        "a pod of which nobody knows whether it is bound loses its node",
        "arranger/engine/pod/binding_cycle.py",
        """                if member.phase is Phase.BINDING:
                    member.transition(Phase.UNKNOWN)
""",
        """                self.roll_back(member, "binding: no answer", now)
""",
        ("tests/unit/engine/pod/test_life_of_a_pod.py",),
    ),
    SeededBug(
        "refused-keeps-its-node",
        "a refused Binding leaves the pod where it is, and it is never tried again",
        "arranger/engine/pod/binding_cycle.py",
        """self.roll_back(member, f"binding rejected: {outcome.message}", now, outcome)""",
        "member.transition(Phase.UNKNOWN)",
        ("tests/unit/engine/pod/test_devices.py",),
    ),
    SeededBug(
        "late-answer-about-another",
        "the answer to an earlier Binding of a pod settles the one that was sent in its place",
        "arranger/engine/pod/binding_cycle.py",
        "if subject.binding is effect:  # else another Binding was sent in its place",
        "if subject.binding is not None:",
        ("tests/unit/engine/extenders/test_extenders.py",),
        only=("extenders",),
    ),
    SeededBug(
        "seen-bound-and-rolled-back",
        "a pod that the watch has shown on its node is rolled back when its Binding is refused",
        "arranger/engine/pod/binding_cycle.py",
        """        if member.uid not in context.cluster.assumed:
            # The watch has shown the pod on the node: it is bound, whoever did it.
            self._release.stop_tracking(member)
            return
""",
        "",
        ("tests/unit/engine/pod/test_life_of_a_pod.py",),
    ),
    SeededBug(
        "bound-before-its-volume",
        "a pod is bound when the first of several writes before that is applied",
        "arranger/engine/pod/binding_cycle.py",
        """        elif not member.pending_writes:
            self._continue(member, now)


def""",
        """        else:
            self._continue(member, now)


def""",
        ("tests/unit/engine/pod/test_permit_and_reserve.py",),
    ),
    SeededBug(
        "old-state-is-tried-again",
        "an old state of a pod that we have bound has it placed a second time",
        "arranger/engine/handlers/pod_handlers.py",
        "return  # bound by an earlier run of ours or by others; this event is older",
        "self._context.cluster.remove_pod(info.uid)",
        (
            "tests/unit/engine/pod/test_life_of_a_pod.py",
            "tests/unit/engine/stateful/test_pods.py",
        ),
    ),
    SeededBug(
        "stale-events-count",
        "an event that is older than what is known is believed",
        "arranger/kube/watch/reflector.py",
        "if known is not None and not is_newer(version, known):",
        "if known is not None and version == known:",
        ("tests/unit/kube/watch/test_reflector.py",),
    ),
    # Permits.
    SeededBug(
        "permit-timeout-keeps-the-node",
        "a pod that has waited too long for a permit goes on waiting",
        "arranger/engine/pod/waiting_pods.py",
        "                self._binding_cycle.reject(pod, refusal, now)\n"
        "        if self._events_seen",
        "                pod.deadline = now + pod.permit_timeout\n        if self._events_seen",
        ("tests/unit/engine/pod/test_permit_and_reserve.py",),
    ),
    SeededBug(
        "reservation-outlives-the-pod",
        "what plugins have reserved for a pod stays when its node is taken back",
        "arranger/engine/pod/node_release.py",
        "        self._cycle.unreserve(member)\n        context",
        "        context.cluster.remove_pod(member.uid)\n        context",
        (
            "tests/unit/engine/pod/test_permit_and_reserve.py",
            "tests/unit/engine/pod/test_devices.py",
        ),
    ),
    # Nominations and evictions.
    SeededBug(
        "nomination-for-a-node-that-is-gone",
        "a pod stays nominated for a node that is deleted",
        "arranger/engine/handlers/event_handlers.py",
        """        for member in self._nominator.nominated_pods_on(name):
            self._preemption.cancel_nomination(member, now)
""",
        "",
        (
            "tests/unit/engine/pod/test_nominations.py",
            "tests/unit/engine/pod/test_preemption.py",
        ),
    ),
    SeededBug(
        "nomination-is-cleared-in-memory-only",
        "a nomination that is over stays in the status of the pod",
        "arranger/engine/pod/preemption_executor.py",
        """        if self.release_nomination(member, now):
            self._context.outbox.append(pod_events.nominated(member, ""))
""",
        """        self.release_nomination(member, now)
""",
        (
            "tests/unit/engine/pod/test_nominations.py",
            "tests/unit/engine/pod/test_preemption.py",
        ),
    ),
    SeededBug(
        "victim-that-stays",
        "a pod that could not be evicted counts as leaving for ever",
        "arranger/engine/pod/preemption_executor.py",
        """        self._nominator.keep(uid)
        self._gangs.on_eviction_failed(uid)
""",
        """        self._gangs.on_eviction_failed(uid)
""",
        (
            "tests/unit/engine/pod/test_preemption.py",
            "tests/unit/engine/pod/test_nominations.py",
        ),
    ),
    SeededBug(
        "namesake-is-evicted",
        "an eviction deletes whoever has the victim's name by then",
        "arranger/kube/writes/pods.py",
        """        options["preconditions"] = {"uid": effect.pod.uid}
""",
        "",
        ("tests/unit/kube/writes/test_dispatcher.py",),
    ),
)
