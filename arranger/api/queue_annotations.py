"""What queues, PodGroups and pods say by annotations about queues, cards and placement.

See ``docs/design/queues.md``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from typing import Final

from arranger.api.annotations import (
    BUNDLE_GANG,
    BUNDLE_TIMEOUT,
    CARD_NAME,
    CLOSED_BY_PARENT,
    GANG_NAME,
    GANG_TIMEOUT,
    JOB_PRIORITY,
    JOB_QUEUE_POLICY,
    PLACEMENT,
    PREEMPTABLE,
    QUEUE_NAME,
    QUEUE_STATE,
    SERVICE_TYPE,
)
from arranger.api.gang_membership import gang_membership
from arranger.api.resource_requests import Amounts
from arranger.api.types.core import Pod
from arranger.api.types.queue import Queue
from arranger.api.types.tyjob import DEFAULT_PRIORITY

DEFAULT_QUEUE: Final = "default"
#: What all queues are part of, whether or not there is a Queue of that name.
ROOT_QUEUE: Final = "root"
#: Job priorities are from 1 to 10; what is longer was not written by the controller.
_JOB_PRIORITY: Final = re.compile(r"[0-9]{1,9}")
_JOB_QUEUE_POLICIES: Final = ("Priority", "DRF")
#: How annotations about gangs begin; those that mark a gang out of time may outlive it.
_GANG_PREFIXES: Final = tuple(key.rpartition("/")[0] + "/" for key in (GANG_NAME, BUNDLE_GANG))
_GANG_MARKS: Final = (GANG_TIMEOUT, BUNDLE_TIMEOUT)


def desired_state(queue: Queue) -> str:
    """``Open`` or ``Closed``, as the queue's owner wants it to be; "" where it is not set.

    Raises:
        ValueError: the annotation has another value.
    """
    text = queue.metadata.annotations.get(QUEUE_STATE, "")
    if text not in ("", "Open", "Closed"):
        raise ValueError(f"{text!r} is neither Open nor Closed")
    return text


def is_closed(queue: Queue) -> bool:
    """Whether a queue takes no work, whatever the queues are that it is part of.

    What its owner wants counts; without a word of his the state that is written, for others may
    have closed the queue, unless it was written because of a queue above.

    Raises:
        ValueError: the annotation with the state has another value.
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
        ValueError: it is not a JSON object from card to a whole number.
    """
    try:
        cards = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{text!r} is not JSON") from error
    if not isinstance(cards, dict):
        raise ValueError(f"{text!r} is not an object from card to number")
    for card, count in cards.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(f"{card}: {count!r} is not a number of cards")
    return dict(cards)


def queue_of(pod: Pod, group_queue: str = "") -> str:
    """The queue of a pod: the one it names, else its PodGroup's, else the default queue."""
    meta = pod.metadata
    own = meta.annotations.get(QUEUE_NAME) or meta.labels.get(QUEUE_NAME)
    return own or group_queue or DEFAULT_QUEUE


def job_priority(annotations: Mapping[str, str]) -> int:
    """The job priority of a pod; that of a TYJob by default where none is stated."""
    text = annotations.get(JOB_PRIORITY)
    return int(text) if text and _JOB_PRIORITY.fullmatch(text) else DEFAULT_PRIORITY


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
    checked by :func:`~arranger.api.gang_membership.gang_membership`; here, that it has one.
    """
    annotations = pod.metadata.annotations
    if not annotations:
        return ()
    problems = []
    if text := annotations.get(PLACEMENT):
        unknown = [name for part in text.split(",") if (name := part.strip()) not in policies]
        problems += [f"{PLACEMENT}: {name!r} is no plugin of this profile" for name in unknown]
    job = annotations.get(JOB_PRIORITY, "")
    if job and not _JOB_PRIORITY.fullmatch(job):
        problems.append(f"{JOB_PRIORITY}: {job!r} is not a number such as {DEFAULT_PRIORITY}")
    policy = annotations.get(JOB_QUEUE_POLICY, "")
    if policy not in ("", *_JOB_QUEUE_POLICIES):
        problems.append(f"{JOB_QUEUE_POLICY}: {policy!r} is neither 'Priority' nor 'DRF'")
    service = annotations.get(SERVICE_TYPE, "")
    if service not in ("", "inference", "training"):
        problems.append(f"{SERVICE_TYPE}: {service!r} is neither 'inference' nor 'training'")
    if annotations.get(CARD_NAME) and not requested_cards(annotations[CARD_NAME]):
        problems.append(f"{CARD_NAME}: {annotations[CARD_NAME]!r} names no card")
    preemptable = annotations.get(PREEMPTABLE, "")
    if preemptable and preemptable.lower() not in ("true", "1", "t", "false", "0", "f"):
        text = f"{preemptable!r} is neither 'true' nor 'false', and counts as no"
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
