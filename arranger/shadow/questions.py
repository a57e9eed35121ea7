"""What ``arranger why`` is asked: words to answers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from arranger.api.gang_membership import gang_membership
from arranger.api.types.core import Pod
from arranger.daemon.config.schema import Config
from arranger.engine.entity import QueuedEntity
from arranger.shadow.forecast import forecast
from arranger.shadow.objects import ClusterObjects
from arranger.shadow.suggestions import Suggester
from arranger.shadow.why import Answer, WhyAnswers

#: Answers to one question; of a queue in which more waits the first.
MAX_ANSWERS: Final = 20


def ask(
    objects: ClusterObjects,
    what: str,
    *,
    namespace: str,
    config: Config,
    now: datetime,
    suggest: bool = True,
) -> list[Answer]:
    """Why something waits: ``NAME``, ``pod/NAME``, ``gang/NAME``, ``queue/NAME`` or the
    ``KIND/NAME`` of what controls pods.

    Args:
        namespace: of what is named, unless that says so itself (``pod/other/NAME``).
        suggest: whether changes are tried that may help.

    Raises:
        LookupError: there is no such thing, or nothing of it waits.
        ConfigError: the configured plugins cannot be used.
    """
    kind, _, name = what.partition("/") if "/" in what else ("pod", "", what)
    key = name if "/" in name else f"{namespace}/{name}"
    told = forecast(objects, config, now=now)
    answers = WhyAnswers(told)
    suggester = Suggester(told, config, now) if suggest else None

    def finish(found: Iterable[Answer]) -> list[Answer]:
        given = islice(found, MAX_ANSWERS)
        return [_with_suggestions(each, answers, suggester) for each in given]

    match kind.lower():
        case "pod" | "pods" | "po":
            return finish([answers.pod(key)])
        case "gang" | "gangs" | "podgroup" | "podgroups" | "pg":
            return finish(answers.waiting(_pods_of_gang(told.objects, answers, key)))
        case "queue" | "queues":
            return finish(answers.in_queue(name))
        case _:
            return finish(answers.waiting(_pods_of_owner(told.objects, kind, key)))


def _with_suggestions(answer: Answer, answers: WhyAnswers, suggester: Suggester | None) -> Answer:
    entity = answers.entity_of(answer.pods[0]) if answer.pods else None
    if suggester is None or entity is None:
        return answer
    found = suggester.suggest(entity, entity.representative)
    return msgspec.structs.replace(answer, suggestions=found)


def _pods_of_gang(objects: ClusterObjects, answers: WhyAnswers, key: str) -> list[str]:
    def is_of(entity: QueuedEntity | None) -> bool:
        return entity is not None and entity.group is not None and key in entity.group.gang_names

    found = []
    for pod in objects.of(Pod):
        membership = gang_membership(pod)
        if (membership is not None and membership.gang == key) or is_of(answers.entity_of(pod.key)):
            found.append(pod.key)
    if not found:
        raise LookupError(f"there is no pod of gang {key}")
    return sorted(found)


def _pods_of_owner(objects: ClusterObjects, kind: str, key: str) -> list[str]:
    found = sorted(pod.key for pod in objects.controlled_by(kind, key))
    if not found:
        raise LookupError(f"no pod is controlled by {kind} {key}")
    return found
