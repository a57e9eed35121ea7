"""Conditions as Kubernetes keeps them in ``status.conditions``."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def with_condition(
    conditions: list[Object], condition: tuple[str, str, str, str], now: str
) -> list[Object]:
    """The conditions with this one set, as apimachinery's ``meta.SetStatusCondition`` does it.

    Args:
        condition: type, status, reason and message.
        now: RFC 3339; becomes ``lastTransitionTime`` where the status changes.
    """
    kind, status, reason, message = condition
    earlier = next((c for c in conditions if c.get("type") == kind), {})
    same = earlier.get("status") == status
    fresh = {
        **earlier,
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": earlier["lastTransitionTime"] if same else now,
    }
    return [fresh if c is earlier else c for c in conditions] if earlier else [*conditions, fresh]
