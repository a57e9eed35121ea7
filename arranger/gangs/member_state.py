"""How far the members of a gang are."""

from __future__ import annotations

from enum import Enum

from arranger.api.types.core import Pod


class MemberState(Enum):
    """How far a member is.

    The API server knows nothing of BINDING and, until our eviction arrives there, of TERMINATING.
    """

    PENDING = "pending"
    BINDING = "binding"  # its Binding is on its way
    BOUND = "bound"
    TERMINATING = "terminating"  # it has a node, and is being deleted or evicted
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    #: Each is one object; what Enum has for this is asked in Python, several times a pod.
    __hash__ = object.__hash__


def member_state(pod: Pod) -> MemberState:
    """The state that the API shows; a pod that ended without being bound counts as ended."""
    if pod.status.phase == "Succeeded":
        return MemberState.SUCCEEDED
    if pod.status.phase == "Failed":
        return MemberState.FAILED
    return MemberState.BOUND if pod.spec.node_name else MemberState.PENDING
