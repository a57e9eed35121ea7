"""Reads what is set for a gang, from the annotations of its pods and from PodGroups.

Settings in the pods' annotations take precedence over those of the PodGroup, and its annotations
over its spec. An invalid value counts as absent and is reported, so that a typing error neither
loses a pod nor goes unseen. See ``docs/design/gang-scheduling.md`` and ``docs/design/bundles.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Final, TypeVar

from arranger.api import annotations as keys
from arranger.api.bounded_cache import bounded_cache
from arranger.api.parsing.duration import MAX_DURATION, parse_duration
from arranger.api.parsing.errors import ParseError, shown
from arranger.api.parsing.json_text import parse_json
from arranger.api.parsing.scalars import parse_bool, parse_int
from arranger.api.quantity import LARGEST, QuantityError
from arranger.api.resource_requests import parse_resource_list
from arranger.api.types.pod_groups import (
    MAX_MIN_RESOURCES,
    MAX_TASKS,
    AnyPodGroup,
    CommunityPodGroup,
    NativePodGroup,
    PodGroupSpec,
)

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

_MAX_PODS: Final = 999_999_999
_INT32: Final = 2**31 - 1
_MAX_NAME: Final = 253
#: Gangs that can be placed together; as long a list costs all of their pods.
_MAX_GROUPS: Final = 256
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

#: The annotations that settings are read from; the others name the gang or mark its pods.
SETTINGS_ANNOTATIONS: Final = (
    keys.GANG_MIN,
    keys.POD_GROUP_MIN,
    keys.GANG_TOTAL,
    keys.GANG_MODE,
    keys.GANG_WAIT,
    keys.GANG_GROUPS,
    keys.GANG_GROUPS_ALIAS,
    keys.GANG_MATCH,
    keys.POD_GROUP_MATCH,
    keys.TOPOLOGY,
    keys.BUNDLE_GANG,
    keys.BUNDLE_MIN,
    keys.BUNDLE_TOTAL,
    keys.BUNDLE_STRICT,
    keys.BUNDLE_WAIT,
)
_SETTINGS: Final = frozenset(SETTINGS_ANNOTATIONS)


class Mode(Enum):
    """What becomes of the members that were placed when others cannot be."""

    #: They give their nodes back at once.
    STRICT = "Strict"
    #: They keep them until the gang is complete or its wait time is over.
    NON_STRICT = "NonStrict"


class MatchPolicy(Enum):
    """Which members count towards the minimum."""

    #: All members; and once the minimum has been bound it does not matter any more.
    ONCE_SATISFIED = "once-satisfied"
    #: Those that have a node and are not bound yet.
    ONLY_WAITING = "only-waiting"
    #: Those that have a node, bound or not, and those that have succeeded.
    WAITING_AND_RUNNING = "waiting-and-running"


@dataclass(frozen=True, slots=True)
class Topology:
    """Keep the gang inside one domain of the node label ``key``, ``required`` or preferred."""

    key: str
    required: bool


@dataclass(frozen=True, slots=True)
class GangSettings:
    """What one source sets for a gang; ``None`` where it sets nothing.

    Attributes:
        minimum: members that must run together, whatever their bundles.
        wait_time: seconds that members may hold nodes for the others.
        groups: the names of the gangs to be placed together with this one.
        bundle_minimums: (bundle, minimum) for the bundles the source defines.
        evict_together: whether no member may be evicted without all the others.
        priority: the priority of all members, instead of their own.
        may_preempt: whether pods may be evicted to make room for the gang.
    """

    minimum: int | None = None
    mode: Mode | None = None
    wait_time: float | None = None
    groups: tuple[str, ...] | None = None
    match_policy: MatchPolicy | None = None
    topology: Topology | None = None
    bundle_minimums: tuple[tuple[str, int], ...] = ()
    evict_together: bool | None = None
    priority: int | None = None
    may_preempt: bool | None = None

    def with_fallback(self, other: GangSettings) -> GangSettings:
        """These settings, and those of ``other`` where these set nothing."""
        return combined((self, other))


#: What one source alone decides; minimums of bundles are put together.
SINGLE_SETTINGS: Final = tuple(f.name for f in fields(GangSettings) if f.name != "bundle_minimums")


def combined(sources: Iterable[GangSettings]) -> GangSettings:
    """What several sources set, the first that sets something first."""
    values, minimums, open_names = dict[str, Any](), dict[str, int](), list(SINGLE_SETTINGS)
    for source in sources:
        for name in tuple(open_names):
            if (value := getattr(source, name)) is not None:
                values[name] = value
                open_names.remove(name)
        for bundle, minimum in source.bundle_minimums:
            minimums.setdefault(bundle, minimum)
    return GangSettings(**values, bundle_minimums=tuple(sorted(minimums.items())))


#: Of a source that sets nothing.
NO_SETTINGS: Final = GangSettings()


def is_dns_name(text: str) -> bool:
    """Whether a text is a name by DNS-1123, as that of a gang is to be."""
    return _NAME.fullmatch(text) is not None


def settings_annotations(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Those of a pod's annotations that settings are read from and that are not empty."""
    return tuple([item for item in annotations.items() if item[0] in _SETTINGS and item[1]])


@bounded_cache(4096)
def pod_settings(
    said: tuple[tuple[str, str], ...], bundle: str, label: str
) -> tuple[GangSettings, tuple[str, ...]]:
    """The settings in a pod's annotations, and the invalid values among them.

    Cached, as most members of a gang have the same values.
    """
    annotations = dict(said)
    problems: list[str] = []
    settings = _koordinator_settings(annotations, problems)
    if keys.BUNDLE_GANG in annotations:
        settings = settings.with_fallback(_bundle_settings(annotations, bundle, problems))
    if settings.minimum is None:
        # A deprecated label of the scheduler plugins.
        key = keys.POD_GROUP_MIN
        minimum = _read_annotation({key: label}, key, _parse_pod_count, problems)
        settings = replace(settings, minimum=minimum)
    return settings, tuple(problems)


def pod_group_settings(group: AnyPodGroup, problems: list[str]) -> GangSettings:
    """What a PodGroup sets for its gang; appends its invalid values to ``problems``."""
    from_annotations = _koordinator_settings(group.metadata.annotations, problems)
    if isinstance(group, NativePodGroup):
        policy, constraints = group.spec.scheduling_policy, group.spec.scheduling_constraints
        key = constraints.topology[0].key if constraints and constraints.topology else ""
        from_spec = GangSettings(
            # The basic policy schedules pods one by one, so that no minimum must be reached.
            minimum=policy.gang.min_count if policy.gang else 0,
            topology=Topology(key, required=True) if key else None,
            evict_together=group.spec.evict_together or None,
            priority=group.spec.priority,
            may_preempt=False if group.spec.preemption_policy == "Never" else None,
        )
        return from_annotations.with_fallback(from_spec)
    spec = group.spec
    wait = _whole("scheduleTimeoutSeconds", spec.schedule_timeout_seconds, problems)
    # In the upstream Go types these fields have "omitempty": an absent field means zero.
    least = 1 if isinstance(group, CommunityPodGroup) else 0
    minimum = _whole("minMember", spec.min_member, problems, least=least)
    _check_min_resources(spec, problems)
    tasks = spec.min_task_member
    if len(tasks) > MAX_TASKS:
        what = f"{len(tasks)} tasks are more than {MAX_TASKS}"
        problems.append(f"spec.minTaskMember: {what}, and none of them counts")
        tasks = {}
    minimums = ((task, _whole("minTaskMember", n, problems)) for task, n in sorted(tasks.items()))
    if len(spec.priority_class_name) > _MAX_NAME:
        name = shown(spec.priority_class_name)
        problems.append(f"spec.priorityClassName: {name} has more than {_MAX_NAME} characters")
    wait_time = min(float(wait), MAX_DURATION) or None
    from_spec = GangSettings(minimum, wait_time=wait_time, bundle_minimums=tuple(minimums))
    return from_annotations.with_fallback(from_spec)


def _check_min_resources(spec: PodGroupSpec, problems: list[str]) -> None:
    resources = spec.min_resources
    if len(resources) > MAX_MIN_RESOURCES:
        what = f"{len(resources)} resources are more than {MAX_MIN_RESOURCES}"
        problems.append(f"spec.minResources: {what}, and none of them counts")
        return
    try:
        for name, amount in parse_resource_list(resources).items():
            # The reader has capped it: what is that large may be larger.
            _whole(f"minResources[{shown(name)}]", amount, problems, most=LARGEST - 1)
    except QuantityError as error:
        problems.append(f"spec.minResources: {error}")


def _koordinator_settings(annotations: Mapping[str, str], problems: list[str]) -> GangSettings:
    def first(read: Callable[[str], T], *names: str) -> T | None:
        values = (_read_annotation(annotations, name, read, problems) for name in names)
        return next((value for value in values if value is not None), None)

    minimum = first(_parse_pod_count, keys.GANG_MIN, keys.POD_GROUP_MIN)
    _check_total(annotations, keys.GANG_TOTAL, minimum, problems)
    return GangSettings(
        minimum=minimum,
        mode=first(_enum_parser(Mode), keys.GANG_MODE),
        wait_time=first(parse_duration, keys.GANG_WAIT) or None,
        groups=first(_parse_gang_names, keys.GANG_GROUPS, keys.GANG_GROUPS_ALIAS),
        match_policy=first(_enum_parser(MatchPolicy), keys.GANG_MATCH, keys.POD_GROUP_MATCH),
        topology=first(_parse_topology, keys.TOPOLOGY),
    )


def annotated_minimum(annotations: Mapping[str, str]) -> int | None:
    """The minimum that annotations state; None where they state none that can be read."""
    texts = (annotations.get(key, "") for key in (keys.GANG_MIN, keys.POD_GROUP_MIN))
    for text in filter(None, texts):
        with suppress(ParseError):
            return _parse_pod_count(text)
    return None


def _bundle_settings(
    annotations: Mapping[str, str], bundle: str, problems: list[str]
) -> GangSettings:
    strict = _read_annotation(annotations, keys.BUNDLE_STRICT, parse_bool, problems)
    minimum = _read_annotation(annotations, keys.BUNDLE_MIN, _parse_pod_count, problems)
    _check_total(annotations, keys.BUNDLE_TOTAL, minimum, problems)
    return GangSettings(
        bundle_minimums=() if minimum is None else ((bundle, minimum),),
        mode=None if strict is None else Mode.STRICT if strict else Mode.NON_STRICT,
        wait_time=_read_annotation(annotations, keys.BUNDLE_WAIT, parse_duration, problems) or None,
    )


def _read_annotation(
    annotations: Mapping[str, str], key: str, read: Callable[[str], T], problems: list[str]
) -> T | None:
    text = annotations.get(key, "")
    if not text:
        return None
    try:
        return read(text)
    except ParseError as error:
        problems.append(f"{key}: {error}")
        return None


def _check_total(
    annotations: Mapping[str, str], key: str, minimum: int | None, problems: list[str]
) -> None:
    """Read how many members there will be; an attempt takes all that have come, so none is kept."""
    total = _read_annotation(annotations, key, _parse_pod_count, problems)
    if total is not None and minimum is not None and total < minimum:
        problems.append(f"{key}: {total} members cannot reach the minimum of {minimum}")


def _whole(
    field: str, number: int | None, problems: list[str], *, least: int = 0, most: int = _INT32
) -> int:
    """What a number counts as; one that its definition refuses is told, and counts as the nearest.

    An older definition, or another's, may have let it in.
    """
    if number is not None and number < least:
        problems.append(f"spec.{field}: {number} is less than {('zero', 'one')[least]}")
    elif number is not None and number > most:
        problems.append(f"spec.{field}: {shown(str(number))} is more than {most}")
    return max(0, min(number or 0, _MAX_PODS))


def _enum_parser(kind: type[E]) -> Callable[[str], E]:
    def read(text: str) -> E:
        try:
            return kind(text)
        except ValueError:
            known = ", ".join(each.value for each in kind)
            raise ParseError(f"{shown(text)} is none of {known}") from None

    return read


def _parse_pod_count(text: str) -> int:
    try:
        return parse_int(text, maximum=_MAX_PODS)
    except ParseError:
        raise ParseError(f"{shown(text)} is not a number of pods") from None


def _parse_gang_names(text: str) -> tuple[str, ...]:
    try:
        names = parse_json(text, max_elements=_MAX_GROUPS)
    except ParseError:
        names = None
    if not isinstance(names, list) or not all(_is_gang_name(name) for name in names):
        raise ParseError(f'{shown(text)} is not a list such as ["namespace/gang", ...]')
    return tuple(sorted(set(names)))


def _is_gang_name(name: object) -> bool:
    if not isinstance(name, str):
        return False
    namespace, slash, gang = name.partition("/")
    return bool(namespace and slash and is_dns_name(gang))


def _parse_topology(text: str) -> Topology:
    how, equals, key = text.partition("=")
    if how not in ("required", "preferred") or not equals or not key:
        expected = "required=<node label> nor preferred=<node label>"
        raise ParseError(f"{shown(text)} is neither {expected}")
    return Topology(key, required=how == "required")
