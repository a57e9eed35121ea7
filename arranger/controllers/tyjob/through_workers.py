"""How the status of a TYJob notes which workers have succeeded: set → numbers, such as ``0-3,7``.

In ranges, because a job may have thousands of workers. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from arranger.api.parsing.scalars import parse_int_or
from arranger.api.types.tyjob import TYJob
from arranger.controllers.runtime.number_ranges import format_ranges


def noted_workers(job: TYJob) -> frozenset[str]:
    """The pods of the workers that the status says have succeeded, of those that are asked for."""
    noted = job.status.get("succeededWorkers")
    if not isinstance(noted, dict) or job.spec is None:
        return frozenset()
    name = job.metadata.name
    return frozenset(
        f"{name}-{part.name}-{number}"
        for part in job.spec.worker_sets
        for number in _numbers(noted.get(part.name), part.counts)
    )


def note_of(job: TYJob, through: Collection[str]) -> dict[str, str]:
    """What the status notes where these workers have succeeded."""
    name, spec = job.metadata.name, job.valid_spec
    found = {}
    for part in spec.worker_sets:
        numbers = (n for n in range(part.counts) if f"{name}-{part.name}-{n}" in through)
        if text := format_ranges(numbers):
            found[part.name] = text
    return found


def _numbers(text: object, counts: int) -> Iterator[int]:
    """The numbers of a text, up to the first that is not as we write it: no number comes twice."""
    after = -1
    for part in text.split(",") if isinstance(text, str) else ():
        begin, _, end = part.partition("-")
        first = parse_int_or(begin, -1)
        if first <= after:
            return
        after = parse_int_or(end, -1) if end else first
        yield from range(first, min(after + 1, counts))
