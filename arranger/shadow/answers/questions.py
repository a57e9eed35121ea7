"""What a shadow can be asked about what waits: words to answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final

import msgspec

from arranger.api.settings.gang_membership import gang_membership
from arranger.api.types.core import Pod
from arranger.engine.context.entity import QueuedEntity
from arranger.shadow.answers.leaving import Leaving
from arranger.shadow.answers.suggestions import QUICK_SECONDS, THOROUGH_SECONDS, Suggester
from arranger.shadow.answers.why import Answer, WhyAnswers
from arranger.shadow.forecasts.forecast import TAKES_TOO_LONG, Driver
from arranger.shadow.inputs.objects import ClusterObjects
from arranger.shadow.inputs.words import singular

#: Answers to one question; of a queue in which more waits the first.
MAX_ANSWERS: Final = 20


@dataclass(frozen=True, slots=True)
class Why:
    """Asks why something waits.

    Attributes:
        what: ``NAME``, ``pod/NAME``, ``gang/NAME``, ``queue/NAME`` or the ``KIND/NAME`` of what
            controls pods.
        namespace: of what is named, unless that says so itself (``pod/other/NAME``).
        suggest: whether changes are tried that may help.
        thorough: whether there are twenty seconds to try them, rather than less than one.
    """

    what: str
    namespace: str = "default"
    suggest: bool = True
    thorough: bool = False
    kind: ClassVar[Any] = list[Answer]

    def answer(self, driver: Driver) -> list[Answer]:
        """See :class:`~arranger.shadow.shadow.Question`.

        Raises:
            LookupError: there is no such thing, or nothing of it waits.
        """
        what = self.what
        kind, _, name = what.partition("/") if "/" in what else ("pod", "", what)
        key = name if "/" in name else f"{self.namespace}/{name}"
        leaving = Leaving(dict(driver.objects.terminating), driver.began)
        told = driver.settle()
        answers = WhyAnswers(told, leaving)
        seconds = THOROUGH_SECONDS if self.thorough else QUICK_SECONDS
        suggester = Suggester(driver, told, seconds) if self.suggest else None

        def finish(found: Iterable[Answer]) -> list[Answer]:
            given = islice(found, MAX_ANSWERS)
            return [_with_suggestions(each, answers, suggester) for each in given]

        match singular(kind):
            case "pod":
                return finish([answers.pod(key)])
            case "gang" | "podgroup":
                return finish(answers.waiting(_pods_of_gang(told.objects, answers, key)))
            case "queue":
                return finish(answers.in_queue(name))
            case _:
                return finish(answers.waiting(_pods_of_owner(told.objects, kind, key)))


def _with_suggestions(answer: Answer, answers: WhyAnswers, suggester: Suggester | None) -> Answer:
    entity = answers.entity_of(answer.pods[0]) if answer.pods else None
    if suggester is None or entity is None or answer.reason == TAKES_TOO_LONG:
        return answer
    found, others = suggester.suggest(entity, entity.representative)
    return msgspec.structs.replace(answer, suggestions=found, not_tried=others)


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
    found = sorted(pod.key for pod in objects.controlled_by(kind, key)[0])
    if not found and objects.named(kind, key):
        raise LookupError(f"{kind} {key} has no pods")
    if not found:
        raise LookupError(f"no pod is controlled by {kind} {key}")
    return found
