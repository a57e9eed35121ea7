"""The kinds whose pods are gangs without being told, and where in them everything is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from arranger.gangs.workloads.expressions import Expression
from arranger.gangs.workloads.paths import ANY, Path, paths_of

#: The first words of paths: in an owner, with ``role`` in an element of ``roles[].each``, of which
#: ``key`` is the name in its map. Pods are read for what differs among the pods of one owner.
POD_WORDS: Final = frozenset({"pod"})
OWNER_WORDS: Final = frozenset({"metadata", "spec", "status", "pod"})
ROLE_WORDS: Final = OWNER_WORDS | {"role", "key"}


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Roles that an owner lists, or one that it has.

    Attributes:
        each: a list or map with one element a role; None for a single role.
        name: the name of the role.
        minimum: how many of its pods must run together.
    """

    name: Expression
    minimum: Expression
    each: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadKind:
    """A kind of owner, and where in it the gang of its pods is defined.

    A pod is owned by what its controller reference names; or, where another controller stands
    between, by what the pod's label names.

    Attributes:
        group: its API group.
        versions: the versions that are read, the first that is served.
        resource: its plural.
        label: the label of pods with the name of the owner.
        through: the kinds of controllers (``Job``) whose pods are owned by what the label names.
        uid_label: the label with the owner's uid, if there is one.
        role: the role of a pod.
        gang: where an owner has several gangs, what tells them apart by their pods.
        gang_per_role: when each role is a gang of its own, since the pods of a later role are made
            only when those of an earlier one run.
        alone: the pods that are in no gang.
        minimum: how many of all pods must run together; the sum of its roles' where silent.
        queue: the queue.
        wait_time: how many seconds nodes may be held.
    """

    group: str
    versions: tuple[str, ...]
    kind: str
    resource: str
    label: str = ""
    through: tuple[str, ...] = ()
    uid_label: str = ""
    roles: tuple[RoleRule, ...] = ()
    role: Expression | None = None
    gang: tuple[Expression, ...] = ()
    gang_per_role: Expression | None = None
    alone: Expression | None = None
    minimum: Expression | None = None
    queue: Expression | None = None
    wait_time: Expression | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Where its objects are, by version."""
        root = f"/apis/{self.group}" if self.group else "/api"
        return tuple(f"{root}/{version}/{self.resource}" for version in self.versions)

    def read_paths(self) -> list[Path]:
        """What is read of its objects."""
        given = [self.gang_per_role, self.minimum, self.queue, self.wait_time]
        found = [path for each in given if each is not None for path in paths_of(each)]
        for rule in self.roles:
            listed = [] if rule.each is None else paths_of(rule.each)
            found += listed
            where: list[Path | None] = [(*path, ANY) for path in listed]
            for role in where or [None]:
                found += [*paths_of(rule.name, role), *paths_of(rule.minimum, role)]
        return found

    @property
    def reads_pods(self) -> bool:
        """Whether what it says of a gang may differ among its pods."""
        return any("pod" in expression.words for expression in self._owner_expressions())

    @property
    def metadata_only(self) -> bool:
        """Whether nothing but the metadata of its objects is read."""
        read = {word for expression in self._owner_expressions() for word in expression.words}
        return not read & {"spec", "status"}

    def _owner_expressions(self) -> list[Expression]:
        given = [self.gang_per_role, self.minimum, self.queue, self.wait_time]
        for rule in self.roles:
            given += [rule.each, rule.name, rule.minimum]
        return [expression for expression in given if expression is not None]
