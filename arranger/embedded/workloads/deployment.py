"""Deployments: one ReplicaSet for each template, and the way from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from arranger.api.timestamps import second_time
from arranger.embedded import Object
from arranger.embedded.workloads.ownership import claimed
from arranger.embedded.workloads.plan import (
    Plan,
    Surroundings,
    condition,
    controller_reference,
    created_at,
    has_ended,
    seconds_left,
    share,
    template_hash,
)

TEMPLATE_HASH: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_MAX: Final = "deployment.kubernetes.io/max-replicas"
_COUNTS: Final = ("replicas", "readyReplicas", "availableReplicas", "terminatingReplicas")
_HISTORY_LIMIT: Final = 10
_DEADLINE_SECONDS: Final = 600
_AVAILABLE: Final = "NewReplicaSetAvailable"


def reconcile_deployment(deployment: Object, owned: Sequence[Object], around: Surroundings) -> Plan:
    """One step of a roll-out: whatever it changes is seen again, and the next step follows."""
    orphans = [each for each in around.orphans if each["kind"] == "ReplicaSet"]
    own = [each for each in owned if each["kind"] == "ReplicaSet"]
    sets, changes = claimed(deployment, own, orphans)
    step = _Step(deployment, sorted(sets, key=_created), around, list(changes))
    step.take()
    return step.plan()


@dataclass
class _Step:
    """One look at a Deployment."""

    deployment: Object
    sets: Sequence[Object]
    around: Surroundings
    change: list[tuple[Object, Object]]
    create: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    #: Why it makes progress, if this step tells that by itself.
    progress: tuple[str, str] | None = None

    # --- what there is ---------------------------------------------------------------------

    @cached_property
    def spec(self) -> Object:
        found: Object = self.deployment["spec"]
        return found

    @cached_property
    def wanted(self) -> int:
        return int(self.spec.get("replicas", 1))

    @cached_property
    def recreates(self) -> bool:
        return (self.spec.get("strategy") or {}).get("type") == "Recreate"

    @cached_property
    def limits(self) -> tuple[int, int]:
        """How many pods there may be too many, and how many too few."""
        if self.recreates:
            return 0, 0
        given = (self.spec.get("strategy") or {}).get("rollingUpdate") or {}
        surge = share(given.get("maxSurge", "25%"), self.wanted, round_up=True)
        few = share(given.get("maxUnavailable", "25%"), self.wanted, round_up=False)
        return surge, min(few or (0 if surge else 1), self.wanted)

    @cached_property
    def current(self) -> Object | None:
        """The ReplicaSet of the template as it is now."""
        wanted = _bare(self.spec["template"])
        return next((s for s in self.sets if _bare(s["spec"]["template"]) == wanted), None)

    @cached_property
    def old(self) -> Sequence[Object]:
        return [each for each in self.sets if each is not self.current]

    # --- what is done ----------------------------------------------------------------------

    def take(self) -> None:
        """Decide what changes."""
        if self.spec.get("paused") or self._is_resized():
            self._resize()
        else:
            self._roll()

    def _is_resized(self) -> bool:
        """Whether ``replicas`` has changed since the ReplicaSets were last given theirs."""
        notes = [_notes(s).get(_DESIRED) for s in self.sets if _size(s) > 0]
        return any(note is not None and note != str(self.wanted) for note in notes)

    def _roll(self) -> None:
        current = self.current
        if self.recreates:
            shrunk = [self._scale(each, 0) for each in self.old if _size(each)]
            if shrunk or any(self._has_pods(each) for each in self.old):
                return
        if current is None:
            self._make()
            return
        self._keep_revision(current)
        size = self.wanted if self.recreates else self._size_of_current(current)
        if size != _size(current):
            self._scale(current, size)
        elif not self._shrink_old(current) and self._is_complete(self._counts()):
            self._forget()

    def _has_pods(self, replica_set: Object) -> bool:
        pods = self.around.owned_by(replica_set["metadata"]["uid"])
        return any(pod["kind"] == "Pod" and not has_ended(pod) for pod in pods)

    def _make(self) -> None:
        size = self.wanted if self.recreates else self._size_of_current(None)
        made = _replica_set(self.deployment, size, self._next_revision())
        self._annotate(made)
        self.create.append(made)
        self.progress = ("True", "NewReplicaSetCreated")
        self._tell_revision(str(self._next_revision()))

    def _next_revision(self) -> int:
        return 1 + max((_revision(each) for each in self.old), default=0)

    def _keep_revision(self, current: Object) -> None:
        """One that comes back to its old template has the highest revision again."""
        number = str(max(_revision(current), self._next_revision()))
        if _notes(current).get(_REVISION) != number:
            self.change.append((current, {"metadata": {"annotations": {_REVISION: number}}}))
        self._tell_revision(number)

    def _tell_revision(self, number: str) -> None:
        if _notes(self.deployment).get(_REVISION) != number:
            note = {"metadata": {"annotations": {_REVISION: number}}}
            self.change.append((self.deployment, note))

    def _size_of_current(self, current: Object | None) -> int:
        now = 0 if current is None else _size(current)
        if now >= self.wanted:
            return self.wanted
        room = self.wanted + self.limits[0] - sum(map(_size, self.sets))
        return now + max(0, min(room, self.wanted - now))

    def _shrink_old(self, current: Object) -> bool:
        """Take pods from the old ReplicaSets: those first that serve nobody."""
        least = self.wanted - self.limits[1]
        unready = _size(current) - _count(current, "availableReplicas")
        most = sum(map(_size, self.sets)) - least - unready
        if most <= 0 or not any(map(_size, self.old)):
            return False
        sizes = {id(each): _size(each) for each in self.old}
        for each in self.old:
            useless = min(most, sizes[id(each)] - _count(each, "availableReplicas"))
            sizes[id(each)] -= max(0, useless)
            most -= max(0, useless)
        spare = sum(map(_available, self.sets)) - least
        for each in self.old:
            taken = min(max(0, spare), sizes[id(each)])
            sizes[id(each)] -= taken
            spare -= taken
        shrunk = [self._scale(each, sizes[id(each)]) for each in self.old]
        return any(shrunk)

    def _forget(self) -> None:
        """Delete the revisions beyond those that are to be kept."""
        limit = self.spec.get("revisionHistoryLimit", _HISTORY_LIMIT)
        useless = [s for s in self.old if not _size(s) and not _count(s, "replicas")]
        surplus = len(self.old) - limit
        self.delete += sorted(useless, key=_revision)[: max(0, surplus)]

    # --- another number --------------------------------------------------------------------

    def _resize(self) -> None:
        """Give what is more or less to the ReplicaSets as they are large."""
        active = [each for each in self.sets if _size(each)]
        if len(active) <= 1:
            chosen = next(iter([*active, *filter(None, [self.current]), *self.sets[-1:]]), None)
            if chosen is not None:
                self._scale(chosen, self.wanted)
            return
        current = self.current
        if current is not None and self._is_saturated(current):
            for each in self.old:
                self._scale(each, 0)
            return
        if self.recreates:
            return
        allowed = self.wanted + self.limits[0] if self.wanted else 0
        left = allowed - sum(map(_size, active))
        grows, added = left > 0, 0
        active.sort(key=lambda s: _created(s), reverse=grows)
        active.sort(key=_size, reverse=True)
        sizes = []
        for each in active:
            more = self._proportion(each, left, added) if left else 0
            sizes.append(_size(each) + more)
            added += more
        sizes[0] = max(0, sizes[0] + left - added)
        for each, size in zip(active, sizes, strict=True):
            self._scale(each, size)

    def _is_saturated(self, current: Object) -> bool:
        sizes = {_size(current), _count(current, "availableReplicas")}
        return sizes == {self.wanted} and _notes(current).get(_DESIRED) == str(self.wanted)

    def _proportion(self, replica_set: Object, left: int, added: int) -> int:
        size, note = _size(replica_set), _notes(replica_set).get(_MAX, "")
        if not self.wanted:
            part = -size
        else:
            before = int(note) if note.isdecimal() and int(note) else self._most()
            part = (2 * size * self._most() + before) // (2 * before) - size
        rest = left - added
        return min(part, rest) if left > 0 else max(part, rest)

    # --- writing ---------------------------------------------------------------------------

    def _most(self) -> int:
        return self.wanted + self.limits[0]

    def _annotate(self, replica_set: Object) -> None:
        notes = replica_set["metadata"].setdefault("annotations", {})
        notes |= {_DESIRED: str(self.wanted), _MAX: str(self._most())}

    def _scale(self, replica_set: Object, size: int) -> bool:
        notes = {_DESIRED: str(self.wanted), _MAX: str(self._most())}
        change: Object = {}
        if any(_notes(replica_set).get(key) != value for key, value in notes.items()):
            change["metadata"] = {"annotations": notes}
        if size != _size(replica_set):
            change["spec"] = {"replicas": size}
        if change:
            self.change.append((replica_set, change))
        return "spec" in change

    def plan(self) -> Plan:
        """What to write."""
        counts = self._counts()
        conditions, again = self._conditions(counts)
        return Plan(
            create=self.create,
            delete=self.delete,
            change=self.change,
            status={**counts, "conditions": conditions},
            again_in=again,
        )

    def _counts(self) -> dict[str, int]:
        counts = {key: sum(_count(each, key) for each in self.sets) for key in _COUNTS}
        asked = sum(map(_size, self.sets))
        counts["unavailableReplicas"] = max(0, asked - counts["availableReplicas"])
        counts["updatedReplicas"] = _count(self.current, "replicas") if self.current else 0
        return counts

    def _is_complete(self, counts: dict[str, int]) -> bool:
        keys = ("updatedReplicas", "replicas", "availableReplicas")
        return all(counts[key] == self.wanted for key in keys)

    def _conditions(self, counts: dict[str, int]) -> tuple[list[Object], float | None]:
        now, status = self.around.now, self.deployment.get("status") or {}
        found = {c["type"]: c for c in status.get("conditions") or ()}
        enough = counts["availableReplicas"] >= self.wanted - self.limits[1]
        reason = f"MinimumReplicas{'Available' if enough else 'Unavailable'}"
        _replace(found, condition("Available", str(enough), reason, now))
        told = self.progress or self._progress(counts, status, found.get("Progressing"))
        if told is not None:
            new = condition("Progressing", *told, now)
            _replace(found, {**new, "lastUpdateTime": second_time(now)}, renew=told[0] == "True")
        progressing, again = found.get("Progressing"), None
        if progressing and progressing["reason"] != "DeploymentPaused":
            again = self._deadline_in(progressing)
        return list(found.values()), again

    def _progress(
        self, counts: dict[str, int], status: Object, before: Object | None
    ) -> tuple[str, str] | None:
        """(status, reason) of the condition Progressing, if it changes."""
        if self.spec.get("paused"):
            return "Unknown", "DeploymentPaused"
        if before and before["reason"] == "DeploymentPaused":
            return "Unknown", "DeploymentResumed"
        rolled = counts["replicas"] == counts["updatedReplicas"]
        if before and before["reason"] == _AVAILABLE and rolled:
            return None
        if self._is_complete(counts):
            return "True", _AVAILABLE
        old_left = counts["replicas"] - counts["updatedReplicas"]
        old_before = status.get("replicas", 0) - status.get("updatedReplicas", 0)
        grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
        if old_left < old_before or any(counts[key] > status.get(key, 0) for key in grown):
            return "True", "ReplicaSetUpdated"
        left = self._deadline_in(before) if before else None
        if left is not None and left <= 0:
            return "False", "ProgressDeadlineExceeded"
        return None

    def _deadline_in(self, progressing: Object) -> float | None:
        if progressing["reason"] in (_AVAILABLE, "ProgressDeadlineExceeded"):
            return None
        seconds = self.spec.get("progressDeadlineSeconds", _DEADLINE_SECONDS)
        stamp = progressing.get("lastUpdateTime") or progressing["lastTransitionTime"]
        return seconds_left(seconds, stamp, self.around.now)


def _replace(found: dict[str, Any], new: Object, *, renew: bool = False) -> None:
    """Set a condition; one that says the same keeps its times, unless they are renewed."""
    old = found.get(new["type"])
    if old and (old["status"], old["reason"]) == (new["status"], new["reason"]) and not renew:
        return
    if old and old["status"] == new["status"]:
        new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    found[new["type"]] = new


def _replica_set(deployment: Object, replicas: int, revision: int) -> Object:
    meta, spec = deployment["metadata"], deployment["spec"]
    digest = template_hash(deployment)
    template = spec["template"]
    of_pods = template.get("metadata") or {}
    labels = {**(of_pods.get("labels") or {}), TEMPLATE_HASH: digest}
    selector = spec["selector"]
    matched = {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: digest}
    least = {k: spec[k] for k in ("minReadySeconds",) if k in spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name']}-{digest}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {_REVISION: str(revision)},
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            **least,
            "replicas": replicas,
            "selector": {**selector, "matchLabels": matched},
            "template": {**template, "metadata": {**of_pods, "labels": labels}},
        },
    }


def _bare(template: Object) -> Object:
    """A template without the label that its ReplicaSet gave it."""
    meta = template.get("metadata") or {}
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != TEMPLATE_HASH}
    kept = {k: v for k, v in meta.items() if v and k not in ("labels", "creationTimestamp")}
    return {**template, "metadata": {**kept, "labels": labels}}


def _size(replica_set: Object) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def _available(replica_set: Object) -> int:
    """Pods that serve; what it has told may be from before it was made smaller."""
    return min(_size(replica_set), _count(replica_set, "availableReplicas"))


def _count(replica_set: Object, field_name: str) -> int:
    return int((replica_set.get("status") or {}).get(field_name, 0))


def _notes(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _revision(replica_set: Object) -> int:
    number = _notes(replica_set).get(_REVISION, "")
    return int(number) if number.isdecimal() else 0


def _created(replica_set: Object) -> tuple[str, int]:
    return created_at(replica_set), _revision(replica_set)
