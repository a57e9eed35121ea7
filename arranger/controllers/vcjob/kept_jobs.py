"""How a Volcano Job is kept: what is large of its spec as JSON, in an eighth of the memory."""

from __future__ import annotations

from typing import Final

import msgspec

from arranger.api.parsing.objects import decode_object
from arranger.api.types.volcano_job import JobSpec, VolcanoJob

#: Bytes of a spec as JSON with more of which it is kept so: it takes some milliseconds to read.
_LARGE: Final = 16 * 1024


def kept(job: VolcanoJob) -> VolcanoJob:
    """A job as it is kept; what it has of its spec then is what the cache asks about."""
    try:
        encoded = msgspec.json.encode(job.spec)
    except (RecursionError, OverflowError, ValueError, TypeError):
        return job
    if len(encoded) <= _LARGE:
        return job
    few = JobSpec([], scheduler_name=job.spec.scheduler_name, queue=job.spec.queue)
    return msgspec.structs.replace(job, spec=few, packed=encoded)


def whole(job: VolcanoJob) -> VolcanoJob:
    """A job that was kept, with its spec.

    Raises:
        ParseError: it cannot be read again.
    """
    if not job.packed:
        return job
    return msgspec.structs.replace(job, spec=decode_object(job.packed, JobSpec), packed=b"")
