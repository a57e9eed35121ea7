"""More rules, of what must have come about in the worlds of the swarm.

They are as those of ``rules.py``, for which that has no room, and are asked where a world says so:
they work out what might have been, which takes more time than other tests have.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.specification.legal import Specification
from tests.specification.rules import AtABinding, Together, may_have_its_place
from tests.specification.vocabulary.job_pods import JobPods
from tests.specification.vocabulary.manifests import name_of
from tests.specification.vocabulary.might_have import Raid
from tests.specification.vocabulary.occasions import Wrong, rules_of
from tests.specification.vocabulary.takers import Takers

_BINDINGS = (AtABinding, Together)


class WhoWaits(Takers):
    """Nothing has happened for long, and nobody else waits for the same nodes."""

    def who_may_have_room_is_placed(self) -> Wrong:
        """A pod or a gang waits only if it has no room even where all left who must yield to it.

        Of gangs it is said while they have no node, and all wait that they need.
        """
        for taker in self.plain_takers():
            yielding = taker.may_have_places_of(may_have_its_place)
            if taker.fits({pod["metadata"]["uid"] for pod in yielding}, _BINDINGS):
                names = ", ".join(map(name_of, yielding)) or "nobody"
                yield f"{taker.name} waits, and has room once {names} has left"


class WhoLeft(Raid):
    """Pods have left for somebody, and nothing went wrong in this world."""

    def nobody_left_who_could_stay(self) -> Wrong:
        """Of those that left none is enough to spare; of a gang all leave, or what it can lose."""
        here = {pod["metadata"]["uid"] for pod in self.victims}
        for others in self.others(may_have_its_place) if self.is_plain else ():
            left = {pod["metadata"]["uid"] for pod in others}
            if left < here and self.broken_by(others) is not None and self._is_enough(left):
                yield f"{self._told()}, and {', '.join(map(name_of, others)) or 'nobody'} is enough"
                return

    def no_gang_is_broken_in_vain(self) -> Wrong:
        """No gang leaves whole where others, no more important, are enough without that."""
        broken, most = self.broken_by(self.victims), self.most_important(self.victims)
        for others in self.others(may_have_its_place) if self.is_plain and broken else ():
            left = {pod["metadata"]["uid"] for pod in others}
            if (
                self.broken_by(others) == 0
                and self.most_important(others) <= most
                and self._is_enough(left)
            ):
                yield f"{self._told()}, and {', '.join(map(name_of, others))} would break no gang"
                return

    def _is_enough(self, left: set[str]) -> bool:
        return self.whole_taker.fits(left, _BINDINGS)

    def _told(self) -> str:
        names = ", ".join(map(name_of, self.victims))
        return f"{names} left for {self.whole_taker.name}"


class PodsOfJobs(JobPods):
    """Nothing has happened for long, and the controllers are at work."""

    def pods_of_jobs_know_each_other(self) -> Wrong:
        """Where a Volcano Job has the plugin svc, pods are told all names unless it says no."""
        for pod, job in self.pods_with_names():
            told, must = self.is_told_names(pod), self.is_to_be_told_names(job)
            if told != must:
                said = "is" if told else "is not"
                yield f"{name_of(pod)} {said} told the names of others, other than {name_of(job)}"


def at_rest(specification: Specification) -> Iterator[tuple[str, str]]:
    """(rule, what is wrong) once a world has come to rest."""
    spec, premises = specification, specification.premises
    occasions = [
        WhoWaits(spec.world, premises, (), ()),
        *(WhoLeft(r.world, premises, r.at, r.victims, r.taker) for r in spec.raids.raids()),
        PodsOfJobs(spec.world),
    ]
    for each in occasions:
        for rule in rules_of(type(each)):
            if rule.__name__ not in premises.unjudged:
                yield from ((rule.__name__, text) for text in rule(each))
