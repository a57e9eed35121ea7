"""Objects of the kinds that we read, made from choices by the types that they are decoded as.

Most of what is chosen suits its field, so that an object gets far; now and then it is something
odd: too large, too long, too deep, of another type, or not there.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import inspect

from arranger.api import annotations
from tests.fuzz.choices import Choices

Object = dict[str, Any]

_KEYS: Final = sorted(
    {text for text in vars(annotations).values() if isinstance(text, str) and "/" in text}
)
_LABELS: Final = (
    *_KEYS,
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "app",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.memory",
    "example.com/\x1b[2J",
)
QUANTITIES: Final = (
    *("1", "0", "100m", "1Gi", "9E", "-1", "1e1000000", "10e999999", "1e-1000000", "0.5n"),
    *("9223372036854775807", "-9223372036854775808", "1e9223372036854775808", "NaN", "Inf", ""),
    *("9" * 400, "1Ki1", "٣", "1.", ".5", "+1", "4Pi", "3Pi"),
)
#: As an API server takes and stores them.
_SOUND_QUANTITIES: Final = ("1", "0", "100m", "1Gi", "2", "9E", "10e999999", "4Pi", "3Pi", "1n")
_RESOURCES: Final = ("cpu", "memory", "example.com/foo", "nvidia.com/gpu", "ephemeral-storage")
_SMALL_NUMBERS: Final = (0, 1, 2, 3, 100, 2**31 - 1)
_NUMBERS: Final = (0, 1, 2, 3, 100, -1, 2**31 - 1, -(2**31), 2**53, 2**63 - 1, -(2**63), 10**20)
_TIMES: Final = (
    *("2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    *("9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"),
    *("2026-01-01T00:00:00", "2026-01-01T00:00:00.123456Z", "soon", ""),
)
WORDS: Final = (
    *("evil", "", "default", "evil-2", "n-1", "a/b", "..", "Never", "Always", "true", "false"),
    *("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "Honor", "Ignore"),
    *("NoSchedule", "NoExecute", "DoNotSchedule", "ScheduleAnyway", "Running", "Succeeded"),
    *("Failed", "Pending", "TCP", "UDP", "1", "9" * 5000, "-1", "100%", "1h30m", "9" * 30 + "h"),
    *("Open", "Closed", "root", "[]", '["evil/a", "default/b"]', '{"a": 1}', "[" * 5000, "{"),
    *("required=topology.kubernetes.io/zone", "preferred=app", "Strict", "NonStrict"),
    *("once-satisfied", "cpu", "memory", "pods", "example.com/foo", "nvidia.com/gpu", "PodFailed"),
    *("RestartJob", "AbortJob", "*", "device.driver == 'a'", "[1].all(x, x > 0)", "a" * 300),
    *(
        "\x1b[2J[/red]",
        "ſ\u202e\x00\n",
        "\ufffd",
        "👩‍👩‍👧",
        "kubernetes.io/hostname",
        "ExactCount",
        "All",
    ),
    *("inference", "training", "Priority", "DRF", "0.0.0.0", "::1", "Ready", "NVIDIA-A100"),
)
_DEEP: Final[list[Any]] = []
for _ in range(30):
    _DEEP[:] = [_DEEP.copy()]
#: Fields that keep a pod from being tried.
_RARE: Final = frozenset({"deletionTimestamp", "schedulingGates"})
#: Fields without which an object is of no interest.
_NEEDED: Final = frozenset({"containers", "schedulerName", "spec", "phase"})
#: Field → what it says mostly, the first more often than the others.
_USUAL: Final[dict[str, tuple[str, ...]]] = {
    "schedulerName": ("arranger", "arranger", "arranger", "default-scheduler"),
    "phase": ("Pending", "Pending", "", "Running", "Failed", "Succeeded"),
    "nodeName": ("", "", "n-1", "evil-1", "nowhere"),
    "topologyKey": ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "app", ""),
    "nominatedNodeName": ("", "n-1", "nowhere"),
    "resourceClaimName": ("evil-0", "evil-1", "evil-2"),
    "claimName": ("evil-0", "evil-1", "evil-2"),
    "podGroupName": ("evil-0", "evil-1", "evil-2"),
    "storageClassName": ("evil-0", "evil-1", ""),
    "deviceClassName": ("evil-0", "evil-1"),
    "driver": ("a", "evil-0"),
    "operator": ("In", "Exists", "Gt", "NotIn", "DoesNotExist", "Lt", "Equal", ""),
    "values": ("1", "evil", "n-1", ""),
    "effect": ("NoSchedule", "", "NoExecute"),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "preemptionPolicy": ("PreemptLowerPriority", "Never", ""),
    "restartPolicy": ("Always", "Never", ""),
    "allocationMode": ("ExactCount", "All", ""),
    "volumeName": ("", "evil-0", "evil-1"),
    "queue": ("", "evil-0", "default"),
    "parent": ("", "root", "evil-0", "evil-1"),
}
_ODD: Final[tuple[Any, ...]] = (
    *(None, 5, -1, 0.5, 1e300, 10**20, True, "", "x", "a" * 70_000, [], [5], [[]], {}, {"a": 1}),
    *({"name": 5}, _DEEP, [None], {"": None}, "9" * 5000),
)


#: Once in how many values there is something odd; 0 for never, as most objects are.
_ODDNESS: Final = (0, 0, 0, 200, 60, 20)


def an_object(choices: Choices, kind: type[msgspec.Struct]) -> Object:
    """An object of a kind, with or without something odd in it."""
    made = _Maker(choices, choices.one_of(_ODDNESS)).struct(inspect.type_info(kind), 0)
    meta = made["metadata"] if isinstance(made.get("metadata"), dict) else {}
    named = {"name": f"evil-{choices.below(3)}", "namespace": "evil", "resourceVersion": "7"}
    named["uid"] = f"uid-{named['name']}-{kind.__name__}"
    made["metadata"] = {**meta, **named}
    return made


class _Maker:
    """Makes one object.

    Args:
        oddness: once in how many values there is something odd; 0 for never.
    """

    def __init__(self, choices: Choices, oddness: int) -> None:
        self._choices = choices
        self._oddness = oddness
        #: Of six fields so many are there.
        self._density = choices.one_of((1, 2, 4))

    def struct(self, info: Any, depth: int) -> Object:
        """The fields of a Struct, each of them or not."""
        made: Object = {}
        for field in info.fields:
            name = field.encode_name
            rare = name in _RARE
            dense = self._choices.rarely(24) if rare else self._choices.below(6) < self._density
            if dense or field.required or name in _NEEDED:
                made[name] = self._value(field.type, name, depth + 1)
        return made

    def _value(self, info: Any, name: str, depth: int) -> Any:
        choices = self._choices
        if self._is_odd():
            return choices.one_of(_ODD)
        match info:
            case inspect.UnionType():
                return self._value(choices.one_of(_without_none(info.types)), name, depth)
            case inspect.StructType():
                return self.struct(info, depth) if depth < 12 else {}
            case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
                wanted = choices.below(3) if choices.left else 0
                wanted = max(wanted, name in ("containers", "values"))
                return [self._value(info.item_type, name, depth + 1) for _ in range(wanted)]
            case inspect.DictType():
                return self._mapping(info, name, depth)
            case inspect.IntType() | inspect.FloatType():
                return choices.one_of(_NUMBERS if self._oddness else _SMALL_NUMBERS)
            case inspect.BoolType():
                return bool(choices.below(2))
            case inspect.DateTimeType():
                return choices.one_of(_TIMES if self._oddness else _TIMES[:4])
            case inspect.StrType():
                return self._text(name)
            case inspect.EnumType():
                return choices.one_of([each.value for each in info.cls])
            case inspect.LiteralType():
                return choices.one_of(info.values)
        return choices.one_of((*_ODD, {"replicas": 3, "minAvailable": 10**20}))

    def _mapping(self, info: Any, name: str, depth: int) -> Object:
        choices = self._choices
        wanted = choices.below(4) if choices.left else 0
        amounts = isinstance(info.value_type, inspect.UnionType) and name != "annotations"
        if amounts:
            quantities = QUANTITIES if self._oddness else _SOUND_QUANTITIES
            return {choices.one_of(_RESOURCES): choices.one_of(quantities) for _ in range(wanted)}
        keys = _LABELS if name in ("annotations", "labels", "matchLabels") else WORDS
        return {
            choices.one_of(keys): self._value(info.value_type, "value", depth + 1)
            for _ in range(wanted)
        }

    def _text(self, name: str) -> str:
        if self._is_odd():
            return self._choices.text()
        if name in _USUAL:
            return self._choices.one_of(_USUAL[name])
        if name in ("key", "label"):
            return self._choices.one_of((*_LABELS, *WORDS))
        return self._choices.one_of(WORDS)

    def _is_odd(self) -> bool:
        return self._oddness > 0 and self._choices.rarely(self._oddness)


def _without_none(types: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(each for each in types if not isinstance(each, inspect.NoneType))
