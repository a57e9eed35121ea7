"""Evictions: deletions that disruption budgets may refuse."""

from __future__ import annotations

from collections.abc import Iterable

from arranger.embedded import Object
from arranger.embedded.errors import ApiError, bad_request, not_found
from arranger.embedded.storage.selectors import label_selector_of


def evict(
    pod: Object | None, name: str, eviction: Object, budgets: Iterable[Object], now: str
) -> tuple[Object, Object | None]:
    """Decide on an eviction: the options to delete with, and the budget after it was charged.

    Raises:
        ApiError: 429 when a budget has nothing left, 500 when several apply, 404, 400.
    """
    if (eviction.get("metadata") or {}).get("name", name) != name:
        raise bad_request("name in URL does not match name in Eviction object")
    if pod is None:
        raise not_found("pods", name)
    options: Object = dict(eviction.get("deleteOptions") or {})
    pending = pod["status"].get("phase") == "Pending" or not pod["spec"].get("nodeName")
    if pending or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return options, None
    labels = pod["metadata"].get("labels") or {}
    matching = [b for b in budgets if label_selector_of(b["spec"].get("selector")).matches(labels)]
    if len(matching) > 1:
        why = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
        raise ApiError(500, "", f"{why} does not support.")
    if not matching:
        return options, None
    (budget,) = matching
    status = budget.get("status") or {}
    disruptions_allowed = status.get("disruptionsAllowed", 0)
    if disruptions_allowed <= 0:
        raise _budget_exhausted(budget)
    disrupted = {**(status.get("disruptedPods") or {}), name: now}
    charged = {**status, "disruptionsAllowed": disruptions_allowed - 1, "disruptedPods": disrupted}
    return options, {**budget, "metadata": dict(budget["metadata"]), "status": charged}


def _budget_exhausted(budget: Object) -> ApiError:
    name = budget["metadata"]["name"]
    status = budget.get("status") or {}
    cause = {
        "reason": "DisruptionBudget",
        "message": f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy "
        f"pods and has {status.get('currentHealthy', 0)} currently",
    }
    why = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, "TooManyRequests", why, details={"causes": [cause]})
