"""What manifests say, read from plain dictionaries, once more and by nobody else's code.

Values that cannot be read count as what forbids least: the specification never objects to what it
does not understand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

Object = dict[str, Any]
Amounts = dict[str, int]

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ns|us|µs|ms|s|m|h|$)", re.ASCII)
_SUFFIXES = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": 1}
_SUFFIXES |= {letter: 1000**n for n, letter in enumerate("kMGTPE", 1)}
_SUFFIXES |= {f"{letter}i": 1024**n for n, letter in enumerate("KMGTPE", 1)}
_QUANTITY = re.compile(
    r"([+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,2})?)([a-zA-Z]{0,2})", re.ASCII
)

#: What is beyond all numbers, and what API servers cap it at.
_LARGE = re.compile(r"\d{31,}|\d{1,30}[eE]\+?\d{3,}", re.ASCII)
_LARGEST = 2**63 - 1


@lru_cache(maxsize=65536)
def quantity(text: str, unit: int = 1) -> int:
    """A quantity such as ``1500m`` or ``2Gi`` in so many parts of its unit, rounded up."""
    found = _QUANTITY.fullmatch(text)
    if found is None and _LARGE.fullmatch(text):
        return _LARGEST
    if found is None or found[2] not in _SUFFIXES:
        return 0
    exact = Fraction(found[1]) * _SUFFIXES[found[2]]
    return -((-exact * unit).__floor__())


def amounts(said: Mapping[str, Any] | None) -> Amounts:
    """Resource → how much: cpu in thousandths, others whole."""
    pairs = (said or {}).items()
    return {name: quantity(str(text), 1000 if name == "cpu" else 1) for name, text in pairs}


def added(*all_of_them: Mapping[str, int]) -> Amounts:
    """The sum, by resource."""
    total: Amounts = {}
    for each in all_of_them:
        for name, n in each.items():
            total[name] = total.get(name, 0) + n
    return total


def larger(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    """The larger of two, by resource."""
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in {**first, **second}}


#: What may be asked for a pod as a whole; of anything else its containers ask.
_OF_ALL = ("cpu", "memory", "hugepages-")


def asks(pod: Object) -> Amounts:
    """What a pod asks of its node: its containers, or what its start needs, and its overhead."""
    spec = pod["spec"]
    running = added(*(_requests(each) for each in spec.get("containers") or ()))
    beside: Amounts = {}  # init containers that stay
    start: Amounts = {}
    for each in spec.get("initContainers") or ():
        mine = _requests(each)
        if each.get("restartPolicy") == "Always":
            beside = added(beside, mine)
            start = larger(start, beside)
        else:
            start = larger(start, added(beside, mine))
    of_all = {n: amount for n, amount in _requests(spec).items() if n.startswith(_OF_ALL)}
    whole = larger(added(running, beside), start) | of_all
    total = added(whole, amounts(spec.get("overhead")))
    return {name: n for name, n in total.items() if n > 0}


def _requests(of: Mapping[str, Any]) -> Amounts:
    """What is requested; where only a limit was given, the server has made that the request."""
    return amounts((of.get("resources") or {}).get("requests"))


# --- pods ----------------------------------------------------------------------------------------


def name_of(obj: Object) -> str:
    """``namespace/name``, or the name of what is in no namespace."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def uid_of(obj: Object) -> str:
    """What tells it from another of its name."""
    return str(obj["metadata"].get("uid", ""))


def labels_of(obj: Object) -> Mapping[str, str]:
    """Its labels."""
    return obj["metadata"].get("labels") or {}


def notes_of(obj: Object) -> Mapping[str, str]:
    """Its annotations; of more than 16 KiB those that are short, which count in any case."""
    notes: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    if sum(map(len, notes.values())) <= 16_384:
        return notes
    return {key: text for key, text in notes.items() if len(text) <= 256}


def node_of(pod: Object) -> str:
    """Where a pod is bound to; "" while it is not."""
    return str(pod["spec"].get("nodeName") or "")


def nominated_to(pod: Object) -> str:
    """The node that a waiting pod is promised, "" for none."""
    return "" if node_of(pod) else str((pod.get("status") or {}).get("nominatedNodeName") or "")


def has_ended(pod: Object) -> bool:
    """Whether it has succeeded or failed, and uses nothing any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_leaving(pod: Object) -> bool:
    """Whether its deletion has begun."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def priority_of(pod: Object) -> int:
    """Its priority as admission has written it."""
    return int(pod["spec"].get("priority") or 0)


def is_told_to_make_room(pod: Object) -> bool:
    """Whether its conditions say that a scheduler evicts it."""
    return _is_told(pod, "PreemptionByScheduler")


def is_told_its_time_is_over(pod: Object) -> bool:
    """Whether its conditions say that a scheduler ends it, as it has run so long."""
    return _is_told(pod, "MaximumExecutionTimeExceeded")


def is_told_its_node_is_reserved(pod: Object) -> bool:
    """Whether its conditions say that it leaves for a Reservation."""
    return _is_told(pod, "NodeReserved")


def is_given_notice(pod: Object) -> bool:
    """Whether its conditions say that it will be evicted, not yet."""
    return any(
        (each.get("type"), each.get("status")) == ("arranger.io/EvictionNotice", "True")
        for each in (pod.get("status") or {}).get("conditions") or ()
    )


def has_started(pod: Object) -> bool:
    """Whether its kubelet has begun to run it."""
    return bool((pod.get("status") or {}).get("startTime"))


def seconds_run(pod: Object) -> float | None:
    """How long a pod had run when its deletion began; None for one that had not started."""
    started = (pod.get("status") or {}).get("startTime")
    if not started:
        return None
    meta = pod["metadata"]
    ends = datetime.fromisoformat(meta["deletionTimestamp"]) - datetime.fromisoformat(started)
    return ends.total_seconds() - int(meta.get("deletionGracePeriodSeconds") or 0)


def seconds_in(text: str) -> float | None:
    """Seconds of a duration such as ``1h30m``; None where it is none, or shorter than a second."""
    parts = _DURATION.findall(text)
    if not text or _DURATION.sub("", text):
        return None
    seconds = sum(float(n) * _UNITS[unit or "s"] for n, unit in parts)
    return seconds if seconds >= 1 else None


def _is_told(pod: Object, reason: str) -> bool:
    return any(
        (each.get("type"), each.get("status"), each.get("reason"))
        == ("DisruptionTarget", "True", reason)
        for each in (pod.get("status") or {}).get("conditions") or ()
    )


def ports_of(pod: Object) -> Iterator[tuple[str, str, int]]:
    """The ports of its node that a pod takes: protocol, address, number."""
    spec = pod["spec"]
    inits = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in [*(spec.get("containers") or ()), *inits]:
        for port in container.get("ports") or ():
            if number := port.get("hostPort"):
                address = port.get("hostIP") or "0.0.0.0"
                yield port.get("protocol") or "TCP", address, number


def ports_clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    """Whether two pods cannot both have these ports of a node."""
    apart = one[1] != other[1] and "0.0.0.0" not in (one[1], other[1])
    return (one[0], one[2]) == (other[0], other[2]) and not apart


# --- selectors -----------------------------------------------------------------------------------


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = (selector.get("matchLabels") or {}).items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _meets(each, labels) for each in selector.get("matchExpressions") or ()
    )


def _meets(rule: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(rule["key"]), rule.get("values") or ()
    match rule["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as which:
            try:
                mine, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return mine > bound if which == "Gt" else mine < bound
    return True


def terms_allow(terms: Iterable[Mapping[str, Any]] | None, node: Object) -> bool:
    """Whether any term of a node selector holds of a node."""
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(_meets(each, labels_of(node)) for each in term.get("matchExpressions") or ())
        and all(_meets(each, fields) for each in term.get("matchFields") or ())
        for term in terms or ()
    )


def wants_node(pod: Object, node: Object) -> bool:
    """Whether the pod's own selector and required affinity allow the node."""
    spec, labels = pod["spec"], labels_of(node)
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or terms_allow(required.get("nodeSelectorTerms"), node)


def tolerates(pod: Object, taint: Mapping[str, Any]) -> bool:
    """Whether a pod may be placed in spite of a taint."""
    return any(
        each.get("effect") in (None, "", taint["effect"])
        and each.get("key") in (None, "", taint["key"])
        and (
            each.get("operator", "Equal") not in ("Equal", "")
            or each.get("value", "") == taint.get("value", "")
        )
        for each in pod["spec"].get("tolerations") or ()
    )


def hard_taints(node: Object) -> Iterator[Mapping[str, Any]]:
    """The taints that keep pods off a node; a cordon is one."""
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] in ("NoSchedule", "NoExecute"):
            yield taint
    if node["spec"].get("unschedulable"):
        yield {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def untolerated(pod: Object, node: Object) -> Iterator[Mapping[str, Any]]:
    """The taints that keep a pod off a node."""
    return (taint for taint in hard_taints(node) if not tolerates(pod, taint))


def offers(node: Object) -> Amounts:
    """What a node has for pods."""
    status = node.get("status") or {}
    said = status.get("allocatable")
    return amounts(said if said is not None else status.get("capacity"))


def affinity_terms(pod: Object, kind: str) -> list[Object]:
    """The required terms of ``podAffinity`` or ``podAntiAffinity``."""
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []


def term_selects(
    term: Object, owner: Object, other: Object, namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """Whether an affinity term of ``owner`` means another pod; ``namespaces`` are their labels."""
    names, selector = term.get("namespaces") or [], term.get("namespaceSelector")
    space = other["metadata"]["namespace"]
    if not names and selector is None:
        names = [owner["metadata"]["namespace"]]
    labels = {"kubernetes.io/metadata.name": space, **namespaces.get(space, {})}
    if space not in names and not selects(selector, labels):
        return False
    mine = labels_of(owner)
    extra = [
        {"key": key, "operator": operator, "values": [mine[key]]}
        for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(keys) or ()
        if key in mine
    ]
    wanted = term.get("labelSelector")
    if wanted is None:
        return False
    rules = [*(wanted.get("matchExpressions") or ()), *extra]
    return selects({**wanted, "matchExpressions": rules}, labels_of(other))
