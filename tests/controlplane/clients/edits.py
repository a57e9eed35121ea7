"""What stock clients write into objects of our kinds."""

from __future__ import annotations

from typing import Final

from tests.project.crds.samples import SAMPLES, Sample

#: Definition → a field of the spec that a person edits, and its new value. Commands have no spec.
EDITS: Final[dict[str, tuple[str, int]]] = {
    "gangs.arranger.io": ("waitTimeSeconds", 90),
    "jobs.batch.volcano.sh": ("maxRetry", 7),
    "podgroups.scheduling.sigs.k8s.io": ("minMember", 7),
    "podgroups.scheduling.volcano.sh": ("minMember", 7),
    "podgroups.scheduling.x-k8s.io": ("minMember", 7),
    "queues.scheduling.volcano.sh": ("weight", 7),
    "tyjobs.arranger.io": ("priority", 7),
}


def a_sample(crd: str) -> Sample:
    """The sample of a definition that says most."""
    return max((s for s in SAMPLES.values() if s.crd == crd), key=lambda s: len(s.spec))
