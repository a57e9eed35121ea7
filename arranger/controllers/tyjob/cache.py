"""All TYJobs in memory, and the objects that they own. Fed with events; it writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from arranger.api.annotations import LEADER_UID
from arranger.api.effects import ObjectReference
from arranger.api.types.tyjob import (
    API_VERSION,
    GROUP,
    LEADER,
    TYJob,
    TYJobPod,
    parse_tyjob,
)
from arranger.controllers.runtime.objects import (
    LISTED,
    OwnerId,
    UnstructuredObject,
    controlling_owner,
    is_stale,
)
from arranger.controllers.runtime.tombstones import Tombstones
from arranger.controllers.runtime.trimming import decode_owned_object, trimmed
from arranger.controllers.tyjob.kept_jobs import kept, whole
from arranger.controllers.tyjob.leader_objects import LeaderConfigMap, LeaderService
from arranger.controllers.tyjob.observed_state import ObservedState, Refusal

OwnedObject = TYJobPod | LeaderService | LeaderConfigMap

#: Resource → what its objects are decoded as.
OWNED_KINDS: Final[Mapping[str, type[OwnedObject]]] = {
    "pods": TYJobPod,
    "services": LeaderService,
    "configmaps": LeaderConfigMap,
}


class TYJobCache:
    """TYJobs and what they own. Methods that take events return the keys of the jobs concerned.

    Attributes:
        tombstones: what of a job was deleted since its reconcile began, which no answer brings
            back.
    """

    def __init__(self) -> None:
        self.tombstones = Tombstones()
        self._jobs: dict[str, TYJob] = {}
        #: (job, resource) → name → object.
        self._owned: dict[tuple[OwnerId, str], dict[str, OwnedObject]] = {}
        #: Uid of the job → what the server refused last.
        self._refusals: dict[str, Refusal] = {}
        #: Uid of the job → the leader that ended by itself last. It may be deleted before anybody
        #: has looked.
        self._ended_leaders: dict[str, TYJobPod] = {}
        #: Uid of the job → worker that has succeeded → its uid and its leader's, likewise.
        self._through: dict[str, dict[str, tuple[str, str]]] = {}

    def on_job_updated(self, obj: UnstructuredObject, *, asked_at: str = "") -> set[str]:
        """A job was added or edited, or is the answer to a write of ours (``is_stale``)."""
        job = kept(parse_tyjob(trimmed(obj).body()))
        known = self._jobs.get(job.key)
        gone = self.tombstones.has(job.key, job.metadata.uid, asked_at=asked_at)
        if gone or is_stale(job, known, asked_at=asked_at):
            return set()
        if known is not None and known.metadata.uid != job.metadata.uid:
            self.on_job_deleted(job.key, known.metadata.uid)
        self._jobs[job.key] = job
        return {job.key}

    def on_job_deleted(self, key: str, uid: str) -> set[str]:
        """A job was deleted; the garbage collector removes the rest.

        There may be another job of its name by now.
        """
        self.tombstones.add(key, uid)
        if self._is_known(key, uid):
            del self._jobs[key]
            self._refusals.pop(uid, None)
            self._ended_leaders.pop(uid, None)
            self._through.pop(uid, None)
        return set()

    def _is_known(self, key: str, uid: str) -> bool:
        job = self._jobs.get(key)
        return job is not None and job.metadata.uid == uid

    def reference(self, key: str) -> ObjectReference:
        """The job of a key, for Events."""
        namespace, _, name = key.partition("/")
        job = self._jobs.get(key)
        uid = job.metadata.uid if job is not None else ""
        return ObjectReference(API_VERSION, "TYJob", namespace, name, uid)

    def job(self, key: str) -> TYJob | None:
        """The job of a key; without its spec if it has ended."""
        job = self._jobs.get(key)
        return None if job is None else whole(job)

    def observed_state(self, job: TYJob) -> ObservedState:
        """What is observed of a job."""
        uid = job.metadata.uid
        pods = {n: p for n, p in self._owned_by(job, "pods").items() if isinstance(p, TYJobPod)}
        maps = self._owned_by(job, "configmaps").values()
        data = next((each.data for each in maps if isinstance(each, LeaderConfigMap)), None)
        services = self._owned_by(job, "services").values()
        service = next((each for each in services if isinstance(each, LeaderService)), None)
        refusal, ended = self._refusals.get(uid), self._ended_leaders.get(uid)
        through = {name: leader for name, (_, leader) in self._through.get(uid, {}).items()}
        return ObservedState(pods, service, data, refusal, ended, through)

    def set_refusal(self, job: TYJob, why: str) -> bool:
        """The server refused a write ("" for: it refuses none any more); whether that is news."""
        uid, refusal = job.metadata.uid, Refusal(why, job.metadata.generation) if why else None
        before = self._refusals.pop(uid, None)
        if refusal is not None and self._is_known(job.key, uid):
            self._refusals[uid] = refusal
        return refusal != before

    def _owned_by(self, job: TYJob, plural: str) -> dict[str, OwnedObject]:
        return self._owned.get((_id_of(job), plural), {})

    def on_owned_updated(self, plural: str, owned: OwnedObject, *, asked_at: str = "") -> set[str]:
        """An object was added or edited, or is the answer to a write of ours (``is_stale``)."""
        owner = _owning_job(owned)
        if owner is None:
            return set()
        if self.tombstones.has(owner.key, owned.metadata.uid, asked_at=asked_at):
            return set()
        there = self._owned.setdefault((owner, plural), {})
        known = there.get(owned.metadata.name)
        if is_stale(owned, known, asked_at=asked_at):
            return set()
        there[owned.metadata.name] = owned
        ended = self._ended_leaders.get(owner.uid)
        if asked_at == LISTED and ended is not None and ended.metadata.uid == owned.metadata.uid:
            del self._ended_leaders[owner.uid]  # perhaps the backup does not have its end
        through = self._through.get(owner.uid, {})
        if asked_at == LISTED and owned.metadata.uid == through.get(owned.metadata.name, ("",))[0]:
            del through[owned.metadata.name]
        self._note_end(owner, owned)
        return {owner.key}

    def on_owned_deleted(self, plural: str, owned: OwnedObject) -> set[str]:
        """An object was deleted."""
        owner = _owning_job(owned)
        if owner is None:
            return set()
        self.tombstones.add(owner.key, owned.metadata.uid)
        there = self._owned.get((owner, plural), {})
        known = there.get(owned.metadata.name)
        if known is None or known.metadata.uid != owned.metadata.uid:
            return set()
        del there[owned.metadata.name]
        self._note_end(owner, owned)
        if not there:
            del self._owned[owner, plural]
        return {owner.key}

    def _note_end(self, owner: OwnerId, owned: OwnedObject) -> None:
        if not isinstance(owned, TYJobPod) or not self._is_known(*owner):
            return
        meta = owned.metadata
        if owned.role != LEADER:
            if owned.succeeded:
                leader = meta.annotations.get(LEADER_UID, "")
                self._through.setdefault(owner.uid, {})[meta.name] = meta.uid, leader
        elif owned.succeeded or owned.failed:
            self._ended_leaders[owner.uid] = owned


def decode_owned(plural: str, body: bytes) -> OwnedObject:
    """An object of a resource from an answer of the server.

    Raises:
        ParseError: it is none.
    """
    return decode_owned_object(body, OWNED_KINDS[plural])


def is_owned_by(owned: OwnedObject, job: TYJob) -> bool:
    """Whether a job owns an object: this job, and not an earlier one of its name."""
    return _owning_job(owned) == _id_of(job)


def _id_of(job: TYJob) -> OwnerId:
    return OwnerId(job.key, job.metadata.uid)


def _owning_job(owned: OwnedObject) -> OwnerId | None:
    return controlling_owner(owned.metadata, GROUP, "TYJob")
