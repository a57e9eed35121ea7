"""Who leads: an election in the event loop, or one that a thread of its own keeps."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from arranger.daemon.config.schema import LeaderElectionConfig
from arranger.daemon.telemetry.metrics import Metrics
from arranger.kube.client.problems import ProblemReporter
from arranger.kube.client.transport import RequestTransport
from arranger.kube.leader_election import LeaderElection, LeaseConfig
from arranger.kube.lease_thread import ClosableTransport, LeaseThread, MainLoopProblems, Wrapper

Election = LeaderElection | LeaseThread
OpenTransport = Callable[[], Awaitable[ClosableTransport]]


class LeadershipLostError(Exception):
    """Another replica may be leading: this process must write nothing more, and end."""


@dataclass(frozen=True, slots=True)
class ElectionListener:
    """Who hears of the election, always in the event loop, and what it needs besides.

    Attributes:
        on_started: called with the epoch once we lead.
        on_recovered: called when we may write again after a stall.
        clock: the calendar, for the time stamps of the lease.
    """

    on_started: Callable[[int], None]
    on_recovered: Callable[[], None]
    metrics: Metrics
    rng: random.Random
    problems: ProblemReporter
    clock: Callable[[], datetime]


def make_election(
    settings: LeaderElectionConfig,
    identity: str,
    lease: RequestTransport | OpenTransport,
    listener: ElectionListener,
) -> Election | None:
    """The election by the configuration, None for none.

    ``lease`` is the transport to use, or opens one, which is then used by a thread.
    """
    if not settings.leader_elect:
        return None
    name, metrics = settings.resource_name, listener.metrics
    times = settings.lease_duration, settings.renew_deadline, settings.retry_period

    def make(transport: RequestTransport, wrap: Wrapper) -> LeaderElection:
        return LeaderElection(
            transport,
            LeaseConfig(settings.resource_namespace, name, identity, *times),
            rng=listener.rng,
            on_started=wrap(listener.on_started),
            on_stopped=wrap(partial(metrics.set_leading, name, False)),
            on_recovered=wrap(listener.on_recovered),
            clock=listener.clock,
            metrics=metrics,
            problems=MainLoopProblems(listener.problems, wrap),
        )

    return LeaseThread(lease, make) if callable(lease) else make(lease, lambda call: call)
