"""Has the specification judge whatever happens to a cluster in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from arranger.daemon.config.schema import Config
from arranger.embedded.storage.store import Change, Store
from tests.faults.injector import RequestListener
from tests.faults.matchers import ClientRequest
from tests.specification.legal import Specification
from tests.specification.premises import Premises
from tests.specification.requests import Asked, RequestBook
from tests.specification.trace import SOMEBODY, Step

#: Seconds within which a scheduler hears of everything in a world in which things go wrong. How
#: long a gang takes to be bound is not said there, only that it is not in pieces at rest.
NOTICE_AMONG_FAULTS = 120.0
#: Seconds after which a world in which nobody changes anything has come to rest.
REST = 60.0


class Writers(Protocol):
    """Knows who writes at this moment, and whether writes may fail: a :class:`FaultInjector`."""

    answering: str
    harmful: bool

    @property
    def is_quiet(self) -> bool:
        """Whether nothing goes wrong any more."""

    def listen(self, listener: RequestListener) -> None:
        """Tell of each write from now on."""


class JudgedTrace:
    """Hands every write of a store to a :class:`Specification`, and the requests for them.

    Args:
        faults: say who writes, and whether single writes may fail; without any, nobody knows who.
        now: the time of a write.

    Attributes:
        premises: what holds in this world; a test may say so at any time.
        may_be_unreadable: whether objects are such as no API server lets in.
        specification: of the store that is followed now.
        requests: what was asked for, since this store has been followed.
    """

    def __init__(
        self, *faults: Writers, now: Callable[[], float], premises: Premises | None = None
    ) -> None:
        self.faults = faults
        self.premises = premises or Premises()
        self.specification = Specification(self.premises)
        self.requests = RequestBook(self.premises)
        self.may_be_unreadable = False
        self._now = now
        self._before: list[Specification] = []
        self._requested_before: list[tuple[str, str]] = []
        self._at_rest: list[str] = []
        for each in faults:
            each.listen(self)

    def expect_scheduler(self, name: str, config: Config) -> None:
        """A process of this name schedules, with this configuration."""
        premises, queues = self.premises, config.queues
        premises.schedulers.add(name)
        premises.scheduler_names.update(each.scheduler_name for each in config.profiles)
        premises.preempt_within_queue = queues.preempt_within_queue
        premises.max_checkpoint = config.max_checkpoint_seconds
        premises.respect_priority = queues.respect_priority
        premises.exempt_card_pods = queues.card_unlimited_cpu_memory
        premises.service_by_owner = queues.pod_owner_reference_to_service_type
        premises.extended.update(
            resource.name for each in config.extenders for resource in each.managed_resources
        )

    def follow(self, store: Store) -> None:
        """From now on this is the cluster; what it has already was always there."""
        if self.specification.world.objects:
            self._before.append(self.specification)
            self.specification = Specification(self.premises)
            self._requested_before += self.requests.violations
            self.requests = RequestBook(self.premises)
        for resource in store.resources():
            for obj in store.items(resource):
                version = int(obj["metadata"]["resourceVersion"])
                self._take(Step(version, float("-inf"), resource, "ADDED", None, obj, SOMEBODY))
        spec = self.specification
        store.subscribe(lambda change: self._on_change(spec, change))

    def restored(self, store: Store) -> None:
        """The server has gone back to a backup, of which nobody need have heard yet."""
        self.follow(store)
        self.specification.restored(self._now())

    @property
    def specifications(self) -> Sequence[Specification]:
        """Of all stores that were followed, the present one last."""
        return *self._before, self.specification

    @property
    def wrong_requests(self) -> Sequence[tuple[str, str]]:
        """(rule, what was wrong) of all of them."""
        return *self._requested_before, *self.requests.violations

    def begins(self) -> None:
        """Schedulers start from now on: they read all that is there before they do anything."""
        changed = self.specification.world.changed
        changed.update((key, (float("-inf"), SOMEBODY)) for key in tuple(changed))

    def expect_faults(self) -> None:
        """Things go wrong here; known by itself where a :class:`FaultInjector` does it."""
        self.premises.writes_may_fail, self.premises.bind_seconds = True, float("inf")
        self.premises.notice = max(self.premises.notice, NOTICE_AMONG_FAULTS)

    def _on_change(self, spec: Specification, change: Change) -> None:
        if spec is not self.specification:
            return
        if any(each.harmful for each in self.faults) and not self.premises.writes_may_fail:
            self.expect_faults()
        known = next((each.answering for each in self.faults if each.answering), SOMEBODY)
        writer = known if self.faults else None
        self._take(
            Step(
                change.version,
                self._now(),
                change.resource,
                change.type,
                change.before,
                change.after,
                writer,
            )
        )

    def _take(self, step: Step) -> None:
        self.specification.take(step)
        self.requests.take(step)

    def on_sent(self, request: ClientRequest) -> None:
        """A process asks for something."""
        if (asked := _read(request)) is not None:
            self.requests.sent(asked, request.at)

    def on_received(self, request: ClientRequest, status: int) -> None:
        """The server has done it, or refused it."""
        if status < 300 and (asked := _read(request)) is not None:
            self.requests.done(asked)

    def on_answered(self, request: ClientRequest, status: int) -> None:
        """The process has heard of it, or that it never will."""
        if (asked := _read(request)) is not None:
            self.requests.told(asked, status)

    def violations(self) -> Sequence[str]:
        """What was wrong so far."""
        self.specification.settle(self.specification.world.now)
        found = [str(v) for spec in self.specifications for v in spec.violations]
        return [*found, *(f"{text} [{rule}]" for rule, text in self.wrong_requests)]

    def judge_rest(self) -> None:
        """A scheduler is at work: if all has been quiet for long, what should be so must be."""
        now, spec = self._now(), self.specification
        last = spec.upheavals[-1][0] if spec.upheavals else float("-inf")
        if now - last >= REST and all(each.is_quiet for each in self.faults):
            self._at_rest += spec.at_rest(now)

    def check(self) -> None:
        """Nothing was wrong, and everything could be judged."""
        found = [*self.violations(), *self._at_rest]
        assert not found, "\n".join(found[:20])
        unreadable = [text for s in self.specifications for text in s.unreadable]
        assert self.may_be_unreadable or not unreadable, unreadable[:20]


def _read(request: ClientRequest) -> Asked | None:
    if "watch" in request.query and "sendInitialEvents" not in request.query:
        return None
    asked = Asked.read(request.user, request.method, request.path, lambda: request.json)
    return None if asked is None else replace(asked, number=id(request))


def loop_time() -> float:
    """The time of the running loop; before there is one, the beginning."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0
