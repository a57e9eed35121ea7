"""The ``gangs.workloads`` of the configuration file: kinds whose pods are gangs by their owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from arranger.daemon.config.section import ConfigSection
from arranger.daemon.config.shipped_workloads import SHIPPED_WORKLOADS
from arranger.gangs.workloads.expressions import Expression
from arranger.gangs.workloads.kinds import (
    OWNER_WORDS,
    POD_WORDS,
    ROLE_WORDS,
    RoleRule,
    WorkloadKind,
)


def _readable(words: frozenset[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text:
            Expression(text, words)
        return text

    return check


OfPod = Annotated[str, AfterValidator(_readable(POD_WORDS))]
OfOwner = Annotated[str, AfterValidator(_readable(OWNER_WORDS))]
OfRole = Annotated[str, AfterValidator(_readable(ROLE_WORDS))]


class RoleConfig(ConfigSection):
    """Roles of a workload's pods."""

    each: OfOwner = ""
    """Expression of a list or map in the owner with one element a role, which `name` and `minimum`
    read as `role`, and its name in a map as `key`; one role where silent.
    """
    name: OfRole
    """Expression of the role's name; letter case does not matter."""
    minimum: OfRole
    """Expression of how many of its pods must run together."""


class WorkloadConfig(ConfigSection):
    """A kind of owner whose pods are a gang."""

    api_version: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/v[a-z0-9]+$")]
    """API group and version of the kind; with the group and `kind` of one that is shipped it
    changes that one, and what is not set stays.
    """
    kind: Annotated[str, Field(min_length=1)]
    """The kind, as pods' owner references name it."""
    resource: str = ""
    """Its plural; required for a kind that is not shipped."""
    other_versions: list[Annotated[str, Field(pattern=r"^v[a-z0-9]+$")]] = []
    """Versions that are read where the server does not serve that of `apiVersion`."""
    enabled: bool = True
    """Whether its pods are gangs; a kind that is off is not read."""
    label: str = ""
    """Label of pods that names their owner where a controller of its own stands between; silent
    where the owner controls all of its pods.
    """
    through: list[str] = []
    """Kinds of the controllers for whose pods the label counts."""
    uid_label: str = ""
    """Label of such pods with the owner's uid, if there is one."""
    roles: list[RoleConfig] = []
    role: OfPod = ""
    """Expression of a pod's role."""
    gang: list[OfPod] = []
    """Expressions of what tells the gangs of one owner apart by their pods; one where silent."""
    gang_per_role: OfOwner = ""
    """Expression of whether each role is a gang of its own: where the pods of one role are made
    only when others run.
    """
    alone: OfPod = ""
    """Expression of whether a pod is in no gang."""
    minimum: OfOwner = ""
    """Expression of how many pods must run together, which goes before the roles' minimums; the sum
    of these where silent or absent.
    """
    queue: OfOwner = ""
    """Expression of the queue, which goes before the owner's `scheduling.volcano.sh/queue-name`."""
    wait_time: OfOwner = ""
    """Expression of the seconds that nodes may be held while the gang is incomplete."""

    @property
    def key(self) -> tuple[str, str]:
        """API group and kind."""
        return self.api_version.partition("/")[0], self.kind

    def built(self) -> WorkloadKind:
        """The kind, for the engine."""
        group, _, version = self.api_version.partition("/")
        return WorkloadKind(
            group,
            (version, *self.other_versions),
            self.kind,
            self.resource,
            label=self.label,
            through=tuple(self.through),
            uid_label=self.uid_label,
            roles=tuple(
                RoleRule(
                    Expression(role.name, ROLE_WORDS),
                    Expression(role.minimum, ROLE_WORDS),
                    _optional(role.each, OWNER_WORDS),
                )
                for role in self.roles
            ),
            role=_optional(self.role, POD_WORDS),
            gang=tuple(Expression(text, POD_WORDS) for text in self.gang),
            gang_per_role=_optional(self.gang_per_role, OWNER_WORDS),
            alone=_optional(self.alone, POD_WORDS),
            minimum=_optional(self.minimum, OWNER_WORDS),
            queue=_optional(self.queue, OWNER_WORDS),
            wait_time=_optional(self.wait_time, OWNER_WORDS),
        )


def merged_workloads(given: Sequence[WorkloadConfig]) -> list[WorkloadConfig]:
    """The shipped kinds with the changes of the file, and those that it adds.

    Raises:
        ValueError: a kind lacks what it needs, or is there twice.
    """
    merged = {each.key: each for each in map(WorkloadConfig.model_validate, SHIPPED_WORKLOADS)}
    if len({each.key for each in given}) != len(given):
        raise ValueError("gangs.workloads: a kind is there twice")
    for each in given:
        known = merged.get(each.key)
        changes: dict[str, Any] = {name: getattr(each, name) for name in each.model_fields_set}
        result = each if known is None else known.model_copy(update=changes)
        if not result.resource:
            raise ValueError(f"gangs.workloads: {each.kind} lacks its resource")
        if bool(result.label) != bool(result.through):
            raise ValueError(f"gangs.workloads: {each.kind} needs both of label and through")
        merged[each.key] = result
    return list(merged.values())


def workload_kinds(given: Sequence[WorkloadConfig]) -> tuple[WorkloadKind, ...]:
    """The kinds that are on."""
    return tuple(each.built() for each in merged_workloads(given) if each.enabled)


def _optional(text: str, words: frozenset[str]) -> Expression | None:
    return Expression(text, words) if text else None
