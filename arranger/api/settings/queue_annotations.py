"""What queues, PodGroups and pods say by annotations about queues, cards and placement.

See ``docs/design/queues.md``.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from arranger.api.annotations import (
    BUNDLE_GANG,
    BUNDLE_TIMEOUT,
    CARD_NAME,
    CHECKPOINT_BEFORE_EVICTION,
    CLOSED_BY_PARENT,
    GANG_NAME,
    GANG_TIMEOUT,
    JOB_PRIORITY,
    JOB_QUEUE_POLICY,
    MAX_RUN_TIME,
    PLACEMENT,
    PREEMPTABLE,
    QUEUE_NAME,
    QUEUE_STATE,
    SERVICE_TYPE,
)
from arranger.api.parsing.duration import parse_lasting_duration
from arranger.api.parsing.errors import ParseError, shown
from arranger.api.parsing.json_text import parse_json
from arranger.api.parsing.scalars import MAX_INT64, parse_int
from arranger.api.resource_requests import Amounts
from arranger.api.settings.gang_membership import gang_membership
from arranger.api.types.core import ObjectMeta, Pod
from arranger.api.types.queue import Queue
from arranger.api.types.tyjob import API_VERSION, DEFAULT_PRIORITY

DEFAULT_QUEUE: Final = "default"
#: What all queues are part of, whether or not there is a Queue of that name.
ROOT_QUEUE: Final = "root"
#: Job priorities are from 1 to 10.
_MAX_JOB_PRIORITY: Final = 10
_MAX_CARDS: Final = 1000
_JOB_QUEUE_POLICIES: Final = ("Priority", "DRF")
#: How annotations about gangs begin; those that mark a gang out of time may outlive it.
_GANG_PREFIXES: Final = tuple(key.rpartition("/")[0] + "/" for key in (GANG_NAME, BUNDLE_GANG))
_GANG_MARKS: Final = (GANG_TIMEOUT, BUNDLE_TIMEOUT)


def desired_state(queue: Queue) -> str:
    """``Open`` or ``Closed``, as the queue's owner wants it to be; "" where it is not set.

    Raises:
        ParseError: the annotation has another value.
    """
    text = queue.metadata.annotations.get(QUEUE_STATE, "")
    if text not in ("", "Open", "Closed"):
        raise ParseError(f"{shown(text)} is neither Open nor Closed")
    return text


def is_closed(queue: Queue) -> bool:
    """Whether a queue takes no work, whatever the queues are that it is part of.

    What its owner wants counts; without a word of his the state that is written, for others may
    have closed the queue, unless it was written because of a queue above.

    Raises:
        ParseError: the annotation with the state has another value.
    """
    if queue.name == ROOT_QUEUE:
        return False
    if desired := desired_state(queue):
        return desired == "Closed"
    by_parent = queue.metadata.annotations.get(CLOSED_BY_PARENT) == "true"
    return queue.status.state in ("Closed", "Closing") and not by_parent


def parse_cards(text: str) -> Amounts:
    """The cards in the value of an annotation: card → number.

    Raises:
        ParseError: it is not a JSON object from card to a whole number.
    """
    cards = parse_json(text, max_elements=_MAX_CARDS)
    if not isinstance(cards, dict):
        raise ParseError(f"{shown(text)} is not an object from card to number")
    for card, count in cards.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_INT64:
            raise ParseError(f"{shown(card)}: {shown(str(count))} is not a number of cards")
    return cards


def declared_queue(meta: ObjectMeta) -> str:
    """The queue that a pod, or an owner of pods, names itself; "" for none."""
    return meta.annotations.get(QUEUE_NAME) or meta.labels.get(QUEUE_NAME, "")


def queue_of(pod: Pod, group_queue: str = "") -> str:
    """The queue of a pod: the one it names, else its PodGroup's, else the default queue."""
    return declared_queue(pod.metadata) or group_queue or DEFAULT_QUEUE


def job_priority(meta: ObjectMeta) -> int:
    """The job priority of a pod: believed of those that a TYJob controls, else that of any job."""
    text = meta.annotations.get(JOB_PRIORITY, "")
    stated = _parse_priority(text) if text and is_of_tyjob(meta) else None
    return DEFAULT_PRIORITY if stated is None else stated


def is_of_tyjob(meta: ObjectMeta) -> bool:
    """Whether a TYJob controls a pod."""
    owner = meta.controller
    return owner is not None and owner.kind == "TYJob" and owner.api_version == API_VERSION


def _parse_priority(text: str) -> int | None:
    try:
        return parse_int(text, minimum=1, maximum=_MAX_JOB_PRIORITY)
    except ParseError:
        return None


def requested_cards(text: str) -> tuple[str, ...]:
    """The cards in the value of ``card.name``, in order of preference."""
    return tuple(card for card in (part.strip() for part in text.split("|")) if card)


def is_preemptable(text: str) -> bool:
    """Whether a pod may be evicted, by the value that counts for it; "" where nothing is said.

    An invalid value counts as no, as in Volcano.
    """
    return (text or "true").lower() in ("true", "1", "t")


def service_type(pod: Pod, stated: str, by_owner: Mapping[str, str]) -> str:
    """``inference``, ``training`` or ``""``: what is ``stated``, else by the kind of its owner."""
    if stated:
        return stated if stated in ("inference", "training") else ""
    owners = pod.metadata.owner_references
    return by_owner.get(owners[0].kind, "") if owners else ""


def invalid_values(pod: Pod, policies: Container[str], *, in_gang: bool = False) -> tuple[str, ...]:
    """The ignored values of a pod's annotations about queues, cards and placement, as sentences.

    ``policies`` are the placement policies of its profile; ``in_gang``: it is in a gang, perhaps
    because of its owner. Annotations about the pod's gang are
    checked by :func:`~arranger.api.settings.gang_membership.gang_membership`; here, that it has
    one.
    """
    annotations = pod.metadata.annotations
    if not annotations:
        return ()
    problems = []
    if text := annotations.get(PLACEMENT):
        unknown = [name for part in text.split(",") if (name := part.strip()) not in policies]
        problems += [f"{PLACEMENT}: {shown(name)} is no plugin of this profile" for name in unknown]
    job = annotations.get(JOB_PRIORITY, "")
    if job and not is_of_tyjob(pod.metadata):
        problems.append(f"{JOB_PRIORITY}: it counts on pods of TYJobs only")
    elif job and _parse_priority(job) is None:
        problems.append(f"{JOB_PRIORITY}: {shown(job)} is not a number from 1 to 10")
    policy = annotations.get(JOB_QUEUE_POLICY, "")
    if policy not in ("", *_JOB_QUEUE_POLICIES):
        problems.append(f"{JOB_QUEUE_POLICY}: {shown(policy)} is neither 'Priority' nor 'DRF'")
    service = annotations.get(SERVICE_TYPE, "")
    if service not in ("", "inference", "training"):
        problems.append(f"{SERVICE_TYPE}: {shown(service)} is neither 'inference' nor 'training'")
    if annotations.get(CARD_NAME) and not requested_cards(annotations[CARD_NAME]):
        problems.append(f"{CARD_NAME}: {shown(annotations[CARD_NAME])} names no card")
    for key in (MAX_RUN_TIME, CHECKPOINT_BEFORE_EVICTION):
        if text := annotations.get(key):
            try:
                parse_lasting_duration(text)
            except ParseError as error:
                problems.append(f"{key}: {error}")
    preemptable = annotations.get(PREEMPTABLE, "")
    if preemptable and preemptable.lower() not in ("true", "1", "t", "false", "0", "f"):
        text = f"{shown(preemptable)} is neither 'true' nor 'false', and counts as no"
        problems.append(f"{PREEMPTABLE}: {text}")
    if not in_gang and GANG_NAME not in annotations and BUNDLE_GANG not in annotations:
        for key in annotations:  # few are about gangs, and each pod is asked
            if key.startswith("gang."):
                problems += _settings_without_gang(pod)
                break
    return tuple(problems)


def _settings_without_gang(pod: Pod) -> list[str]:
    """What a pod says about a gang that it does not name."""
    found = [key for key in pod.metadata.annotations if key.startswith(_GANG_PREFIXES)]
    found = sorted(key for key in found if key not in _GANG_MARKS)
    if not found or gang_membership(pod) is not None:
        return []
    return [f"{', '.join(found)}: the pod is in no gang, which {GANG_NAME} would name"]
