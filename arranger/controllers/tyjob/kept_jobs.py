"""How a TYJob is kept: nothing of it that nobody reads, and what is large as JSON.

As dicts the templates of a job take eight times the memory that they have in the API server, where
whoever may create jobs may have hundreds of a megabyte.
"""

from __future__ import annotations

from typing import Final

import msgspec

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.nesting import TOO_DEEP
from arranger.api.parsing.objects import decode_object
from arranger.api.types.tyjob import TYJob, TYJobSpec, validate_tyjob
from arranger.controllers.tyjob.observed_state import TERMINAL_STAGES

#: Bytes of a spec as JSON with more of which it is kept so: it takes some milliseconds to read.
_LARGE: Final = 16 * 1024


def kept(job: TYJob) -> TYJob:
    """A job as it is kept; of one that has ended nobody reads the spec."""
    if job.spec is None:
        return job
    if str(job.status.get("stage")) in TERMINAL_STAGES:
        return msgspec.structs.replace(job, spec=None)
    try:
        encoded = msgspec.json.encode(job.spec)
    except (RecursionError, OverflowError, ValueError, TypeError):
        # It cannot be written into pods either.
        problem = "; ".join(validate_tyjob(job)) or TOO_DEEP
        return msgspec.structs.replace(job, spec=None, problem=problem)
    if len(encoded) <= _LARGE:
        return job
    return msgspec.structs.replace(job, spec=None, packed=encoded)


def whole(job: TYJob) -> TYJob:
    """A job that was kept, with its spec, unless it has ended."""
    if not job.packed:
        return job
    try:
        spec = decode_object(job.packed, TYJobSpec)
    except ParseError as error:
        return msgspec.structs.replace(job, packed=b"", problem=str(error))
    return msgspec.structs.replace(job, spec=spec, packed=b"")
