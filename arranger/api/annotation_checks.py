"""Finds annotations of pods with values that cannot be read, for an Event to their owners."""

from __future__ import annotations

from collections.abc import Container

from arranger.api.annotations import CARD_NAME, PLACEMENT, PREEMPTABLE, SERVICE_TYPE
from arranger.api.queue_annotations import requested_cards
from arranger.api.types.core import Pod


def invalid_values(pod: Pod, policies: Container[str]) -> tuple[str, ...]:
    """The ignored values of a pod's annotations about queues, cards and placement, as sentences.

    ``policies`` are the placement policies of its profile. Annotations about gangs are checked by
    :func:`~arranger.api.gang_membership.gang_membership`.
    """
    annotations = pod.metadata.annotations
    if not annotations:
        return ()
    problems = []
    if text := annotations.get(PLACEMENT):
        names = (part.strip() for part in text.split(","))
        problems += [
            f"{PLACEMENT}: {name!r} is no plugin of this profile"
            for name in names
            if name not in policies
        ]
    service = annotations.get(SERVICE_TYPE, "")
    if service not in ("", "inference", "training"):
        problems.append(f"{SERVICE_TYPE}: {service!r} is neither 'inference' nor 'training'")
    if annotations.get(CARD_NAME) and not requested_cards(pod):
        problems.append(f"{CARD_NAME}: {annotations[CARD_NAME]!r} names no card")
    preemptable = annotations.get(PREEMPTABLE, "")
    if preemptable and preemptable.lower() not in ("true", "1", "t", "false", "0", "f"):
        problems.append(
            f"{PREEMPTABLE}: {preemptable!r} is neither 'true' nor 'false', and counts as no"
        )
    return tuple(problems)
