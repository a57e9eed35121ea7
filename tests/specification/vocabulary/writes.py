"""Writes, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass

from tests.specification.trace import LEASES, PODS, Step
from tests.specification.vocabulary.manifests import name_of, node_of


@dataclass(eq=False, slots=True)
class Write:
    """Somebody has written something.

    Attributes:
        is_by_us: whether one of our schedulers has.
        leader: who holds the Lease, "" for nobody; None where that cannot be told, as others have
            written it, or as a backup was restored lately.
    """

    step: Step
    is_by_us: bool
    leader: str | None

    @property
    def is_ours(self) -> bool:
        """Whether one of our schedulers has written it, other than to hold the Lease."""
        return self.is_by_us and self.step.resource != LEASES

    @property
    def writer(self) -> str | None:
        return self.step.writer

    @property
    def what(self) -> str:
        """What was written."""
        return f"{self.step.resource.rpartition('/')[2]} {name_of(self.step.after)}"

    @property
    def node_before(self) -> str:
        """The node that a pod had before, "" for none or where it is no pod."""
        is_pod = self.step.resource == PODS and self.step.before is not None
        return node_of(self.step.before) if is_pod else ""

    @property
    def node_after(self) -> str:
        """The node that it has now."""
        return node_of(self.step.after)
