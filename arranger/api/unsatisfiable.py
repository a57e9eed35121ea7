"""How the scheduler says that something can never have a node as the cluster is, and who reads it.

The reason of a pod's condition stays ``Unschedulable``, because autoscalers look for it; so its
message says it, in one sentence that begins with a word of its own.
"""

from __future__ import annotations

from typing import Final

#: The word, which is also the reason that a TYJob gives.
UNSATISFIABLE: Final = "Unsatisfiable"


def unsatisfiable_message(message: str, why: str) -> str:
    """A message with the sentence added to it; as it is where ``why`` is empty."""
    return f"{message} {UNSATISFIABLE}: {why}." if why else message


def is_unsatisfiable(message: str) -> bool:
    """Whether a message has the sentence."""
    return f"{UNSATISFIABLE}: " in message
