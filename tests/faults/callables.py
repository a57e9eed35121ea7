"""Faults in our own code: any function or method of it made to raise about one object.

Nothing is listed by hand: the callables are those of the modules that were seen to be given the
object in a run without faults.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import msgspec

from arranger.api.effects import AnnotatePod, Bind, DeletePod, PatchPodStatus
from arranger.cluster.nodes.node_view import NodeInfo, NodeView
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.state.holds import GangHold
from arranger.gangs.gang import Gang
from arranger.quota.queue_spec import QueueQuota

#: Where objects are judged, counted and decided about.
PACKAGES = (
    "arranger.engine",
    "arranger.gangs",
    "arranger.quota",
    "arranger.cluster",
    "arranger.framework",
    "arranger.plugins",
    "arranger.preemption",
    "arranger.daemon.informer_handlers",
)
#: What catches the faults, and so must not have any.
_SPARED = (
    "arranger.engine.faults",
    "arranger.controllers.runtime.barrier",
    "arranger.controllers.runtime.work_queue",
)
_SPARED_CLASS = "EngineFaults"


class InjectedFaultError(Exception):
    """Raised in place of, or after, what a callable does."""


@dataclass(frozen=True, order=True)
class Callee:
    """A function of ours, or a method.

    Attributes:
        owner: the class; "" for a function.
    """

    module: str
    owner: str
    name: str

    def __str__(self) -> str:
        return ".".join(
            filter(None, (self.module.removeprefix("arranger."), self.owner, self.name))
        )


def is_about(values: Iterable[Any], name: str) -> bool:
    """Whether any of the values is, names or holds the object of this name."""
    return any(_names(value, name) for value in values)


def _names(value: Any, name: str) -> bool:
    match value:
        case str():
            return value == name or value.endswith(f"/{name}")
        case PodInfo() | QueuedPod():
            return _names(value.pod, name)
        case NodeInfo():
            return _names(value.table.nodes[value.row], name)
        case NodeView():
            row, rows = value.table.index.get(name, -1), value.rows
            return row in (range(rows.start, rows.stop) if isinstance(rows, slice) else rows)
        case QueueQuota():
            return value.name == name
        case Gang() if value.pod_group is not None:
            return value.pod_group.metadata.name == name
        case QueuedEntity():
            return any(_names(member, name) for member in value.members.values())
        case GangHold():
            return any(_names(member, name) for member in value.members.values())
        case msgspec.Struct():
            metadata = getattr(value, "metadata", None)
            return metadata is not None and metadata.name == name
        case Bind() | PatchPodStatus() | DeletePod() | AnnotatePod():
            return value.pod.name == name
        case tuple():
            return is_about(value[:8], name)
        case _:
            return False


def _callees(packages: tuple[str, ...]) -> Iterator[tuple[Callee, Any, FunctionType]]:
    for module_name, module in sorted(sys.modules.items()):
        if not module_name.startswith(packages) or module_name.startswith(_SPARED):
            continue
        for name, found in list(vars(module).items()):
            if getattr(found, "__module__", "") != module_name:
                continue
            if inspect.isfunction(found) and found.__name__ == name:
                yield Callee(module_name, "", name), module, found
            elif inspect.isclass(found) and name != _SPARED_CLASS and found.__name__ == name:
                for attribute, method in list(vars(found).items()):
                    plain = inspect.isfunction(method) and not attribute.startswith("__")
                    if plain and not _is_generator(method):
                        yield Callee(module_name, name, attribute), found, method


def _is_generator(function: FunctionType) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


@contextmanager
def _replaced(
    wrap: Callable[[Callee, FunctionType], Any],
    only: Callee | None,
    packages: tuple[str, ...] = PACKAGES,
) -> Iterator[None]:
    undo: list[tuple[Any, str, Any]] = []
    functions: dict[int, tuple[FunctionType, Any]] = {}
    for callee, owner, original in list(_callees(packages)):
        if only is not None and callee != only:
            continue
        wrapped = functools.wraps(original)(wrap(callee, original))
        if callee.owner:
            undo.append((owner, callee.name, original))
            setattr(owner, callee.name, wrapped)
        else:
            functions[id(original)] = original, wrapped
    for module in [m for name, m in sys.modules.items() if name.startswith("arranger")]:
        for name, found in list(vars(module).items()):
            if id(found) in functions and functions[id(found)][0] is found:
                undo.append((module, name, found))
                setattr(module, name, functions[id(found)][1])
    try:
        yield
    finally:
        for owner, name, original in undo:
            setattr(owner, name, original)


@contextmanager
def recorded(name: str, packages: tuple[str, ...] = PACKAGES) -> Iterator[set[Callee]]:
    """Notes every callable of these packages that is given the object of this name inside."""
    seen: set[Callee] = set()

    def wrap(callee: Callee, original: FunctionType) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if callee not in seen and is_about((*args, *kwargs.values()), name):
                seen.add(callee)
            return original(*args, **kwargs)

        return call

    with _replaced(wrap, None, packages):
        yield seen


@dataclass
class Fault:
    """A callable that raises about an object.

    Attributes:
        after: whether it raises when it has done its work, not instead.
        times: how often it raises; None for ever.
        met: how often it has raised.
    """

    callee: Callee
    name: str
    after: bool = False
    times: int | None = None
    met: int = 0
    _lifted: bool = True

    @contextmanager
    def injected(self) -> Iterator[None]:
        """It raises inside."""

        def wrap(_: Callee, original: FunctionType) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                hit = self._hits(args, kwargs)
                if hit and not self.after:
                    self.met += 1
                    raise InjectedFaultError(f"{self.callee}")
                result = original(*args, **kwargs)
                if hit:
                    self.met += 1
                    raise InjectedFaultError(f"{self.callee}")
                return result

            async def wait(*args: Any, **kwargs: Any) -> Any:
                hit = self._hits(args, kwargs)
                self.met += hit
                if hit and not self.after:
                    raise InjectedFaultError(f"{self.callee}")
                result = await original(*args, **kwargs)
                if hit:
                    raise InjectedFaultError(f"{self.callee}")
                return result

            return wait if inspect.iscoroutinefunction(original) else call

        with _replaced(wrap, self.callee, (self.callee.module,)):
            self._lifted = False
            yield
            self._lifted = True  # whoever has kept the method goes on calling it

    def _hits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if self._lifted or (self.times is not None and self.met >= self.times):
            return False
        return is_about((*args, *kwargs.values()), self.name)
