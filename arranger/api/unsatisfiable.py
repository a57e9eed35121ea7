"""How the scheduler says that something can never have a node as the cluster is, and who reads it.

The reason of a pod's condition stays ``Unschedulable``, because autoscalers look for it; so its
message begins with a word of its own.
"""

from __future__ import annotations

from typing import Final

#: The word, which is also the reason that a TYJob gives.
UNSATISFIABLE: Final = "Unsatisfiable"


def unsatisfiable_message(why: str, message: str) -> str:
    """A message that begins with why; as it is where ``why`` is empty."""
    return f"{UNSATISFIABLE}: {why}. {message}" if why else message


def is_unsatisfiable(message: str) -> bool:
    """Whether a message begins so."""
    return message.startswith(f"{UNSATISFIABLE}: ")
