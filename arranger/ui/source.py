"""What the pages stand on, as the command that serves them provides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from arranger.engine.engine import Engine
from arranger.shadow.answers.why import Answer
from arranger.shadow.forecasts.comparison import Difference, PresentState
from arranger.shadow.inputs.objects import ClusterObjects


class State(Protocol):
    """The cluster as the shadow has it; only read."""

    @property
    def engine(self) -> Engine:
        """Fed with everything, and never run."""

    @property
    def objects(self) -> ClusterObjects:
        """What it was fed with."""


@dataclass(frozen=True, slots=True)
class WhatIfForm:
    """What somebody has filled in; several are one a line, or separated by blanks."""

    manifests: str = ""
    namespace: str = "default"
    delete: str = ""
    cordon: str = ""
    add_nodes: str = ""
    queues: str = ""


class QuestionError(Exception):
    """A question has no answer; the message is for whoever asked."""


class Source(Protocol):
    """A shadow, and what it can be asked."""

    @property
    def name(self) -> str:
        """Of the cluster or the files, for the foot of the pages."""

    @property
    def follows(self) -> bool:
        """Whether the state changes at all."""

    @property
    def version(self) -> int:
        """Another one whenever the state is."""

    @property
    def state(self) -> State:
        """As of now."""

    @property
    def unread(self) -> Sequence[str]:
        """What may not or cannot be read, a line each."""

    async def until_changed(self, version: int) -> int:
        """Wait for another version."""

    async def health(self) -> list[tuple[str, str]]:
        """Who leads, since when, and how fast the API server answers: (name, text)."""

    async def why(self, what: str) -> list[Answer]:
        """Why ``pod/NAMESPACE/NAME``, ``gang/…``, ``queue/NAME`` or ``KIND/…`` waits.

        Raises:
            QuestionError: there is no answer.
        """

    async def present(self) -> PresentState:
        """What the scheduler would do now.

        Raises:
            QuestionError: there is no answer.
        """

    async def what_if(self, form: WhatIfForm) -> Difference:
        """What changes would do.

        Raises:
            QuestionError: they cannot be read, do not apply, or there is no answer.
        """
