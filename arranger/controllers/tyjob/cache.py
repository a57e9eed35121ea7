"""All TYJobs in memory, and what there is of each. Fed with events; it writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from arranger.api.types.core import ObjectMeta
from arranger.api.types.tyjob import (
    API_VERSION,
    LeaderAddress,
    LeaderService,
    RankPod,
    TYJob,
    read_tyjob,
)
from arranger.controllers.tyjob.observed_state import World
from arranger.kube.watch.reflector import newer

Part = RankPod | LeaderService | LeaderAddress
LookAt = Callable[[set[str]], None]

#: What a job is made of, by the name of the resource.
PARTS: Final[Mapping[str, type[Part]]] = {
    "pods": RankPod,
    "services": LeaderService,
    "configmaps": LeaderAddress,
}


class TYJobStore:
    """TYJobs and their parts. Methods that take events return the keys of the jobs concerned."""

    def __init__(self) -> None:
        self._jobs: dict[str, TYJob] = {}
        #: (uid of the job, resource) → name → part.
        self._parts: dict[tuple[str, str], dict[str, Part]] = {}
        #: Uid of the job → why the server refused what was needed last.
        self._refusals: dict[str, str] = {}

    # --- jobs ------------------------------------------------------------------------------

    def job_set(self, body: Mapping[str, Any]) -> set[str]:
        """A job was added or edited, or is the answer to a write of ours."""
        job = read_tyjob(dict(body))
        known = self._jobs.get(job.key)
        if known is not None and _older(job.metadata, known.metadata):
            return set()
        if known is not None and known.metadata.uid != job.metadata.uid:
            self.job_gone(job.key)
        self._jobs[job.key] = job
        return {job.key}

    def job_gone(self, key: str) -> None:
        """A job was deleted; the garbage collector removes the rest."""
        job = self._jobs.pop(key, None)
        if job is not None:
            self._refusals.pop(job.metadata.uid, None)

    def job(self, key: str) -> TYJob | None:
        """The job of a key."""
        return self._jobs.get(key)

    def world(self, job: TYJob) -> World:
        """What there is of a job."""
        uid = job.metadata.uid
        pods = {n: p for n, p in self._of(uid, "pods").items() if isinstance(p, RankPod)}
        told = self._of(uid, "configmaps").values()
        data = next((part.data for part in told if isinstance(part, LeaderAddress)), None)
        service = bool(self._of(uid, "services"))
        return World(pods, service, data, self._refusals.get(uid, ""))

    def refused(self, job: TYJob, why: str) -> bool:
        """The server refused a write ("" for: it refuses none any more); whether that is news."""
        before = self._refusals.pop(job.metadata.uid, "")
        if why:
            self._refusals[job.metadata.uid] = why
        return why != before

    def _of(self, uid: str, plural: str) -> dict[str, Part]:
        return self._parts.get((uid, plural), {})

    # --- parts -----------------------------------------------------------------------------

    def replaced(self, plural: str, parts: Iterable[Part], *, namespace: str = "") -> set[str]:
        """These are all the parts there are of a resource (in one namespace)."""
        now: dict[str, Part] = {part.metadata.uid: part for part in parts}
        known = [
            part
            for (_, resource), there in self._parts.items()
            for part in there.values()
            if resource == plural and namespace in ("", part.metadata.namespace)
        ]
        gone = (self.part_gone(plural, part) for part in known if part.metadata.uid not in now)
        there = (self.part_set(plural, part) for part in now.values())
        return set().union(*gone, *there)

    def part_set(self, plural: str, part: Part) -> set[str]:
        """A part was added or edited, or is the answer to a write of ours."""
        owner = _owner(part.metadata)
        if owner is None:
            return set()
        uid, key = owner
        there = self._parts.setdefault((uid, plural), {})
        known = there.get(part.metadata.name)
        if known is not None and _older(part.metadata, known.metadata):
            return set()
        there[part.metadata.name] = part
        return {key}

    def part_gone(self, plural: str, part: Part) -> set[str]:
        """A part was deleted."""
        owner = _owner(part.metadata)
        if owner is None:
            return set()
        uid, key = owner
        there = self._parts.get((uid, plural), {})
        known = there.get(part.metadata.name)
        if known is None or known.metadata.uid != part.metadata.uid:
            return set()
        del there[part.metadata.name]
        if not there:
            del self._parts[uid, plural]
        return {key}


class PartSink:
    """Passes the parts of one resource on; the sink of a reflector."""

    def __init__(
        self, store: TYJobStore, look_at: LookAt, plural: str, *, namespace: str = ""
    ) -> None:
        self._store = store
        self._look_at = look_at
        self._plural = plural
        self._namespace = namespace

    def replaced(self, objects: list[Any], resource_version: str) -> None:
        """These are all of them."""
        self._look_at(self._store.replaced(self._plural, objects, namespace=self._namespace))

    def applied(self, obj: Part) -> None:
        """One was added or modified."""
        self._look_at(self._store.part_set(self._plural, obj))

    def deleted(self, obj: Part) -> None:
        """One is gone."""
        self._look_at(self._store.part_gone(self._plural, obj))


def read_part(plural: str, body: bytes) -> Part:
    """A part from an answer of the server.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return msgspec.json.decode(body, type=PARTS[plural])


def is_part_of(part: Part, job: TYJob) -> bool:
    """Whether a job owns a part: this job, and not an earlier one of its name."""
    owner = _owner(part.metadata)
    return owner is not None and owner[0] == job.metadata.uid


def _owner(metadata: ObjectMeta) -> tuple[str, str] | None:
    """Uid and key of the TYJob that an object is part of."""
    for owner in metadata.owner_references:
        if owner.controller and owner.kind == "TYJob" and owner.api_version == API_VERSION:
            return owner.uid, f"{metadata.namespace}/{owner.name}"
    return None


def _older(metadata: ObjectMeta, known: ObjectMeta) -> bool:
    """Whether this is an earlier state of the same object."""
    version, than = metadata.resource_version, known.resource_version
    return metadata.uid == known.uid and version != than and not newer(version, than)
