"""How listing or watching a resource ends, and what is to be done then."""

from __future__ import annotations

from arranger.kube.client.problems import Problem


class ExpiredError(Exception):
    """Our resourceVersion cannot be resumed from: fetch the full state."""


class WatchListUnsupportedError(Exception):
    """The server does not know WatchList, or ignores it."""


class NotServedError(Exception):
    """The server does not serve the resource."""


class ServerUnavailableError(Exception):
    """The server answered with an error, or not at all: back off."""

    def __init__(self, problem: Problem, wait: float = 0.0) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.wait = wait
