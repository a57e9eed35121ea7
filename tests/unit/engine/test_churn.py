"""What comes and goes leaves nothing behind: hostile and ordinary objects, of new names each round.

A walk over all that can be reached from the engine counts what it holds. Caches fill first; from
then on it must stay as large as it is.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from logging import Logger
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeVar

import msgspec
import pytest

from arranger.api.effects import Applied
from arranger.cluster.change_log import ChangeLog
from arranger.cluster.nodes import node_results, selector_counts
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.framework.runtime import evaluation_cache
from arranger.plugins import default_profile
from arranger.plugins.dynamicresources import allocation_cache, cel_selectors
from tests.builders import a_node, a_pod, a_pod_group
from tests.builders.base import ManifestBuilder
from tests.devices import a_claim, a_device, a_device_class, a_slice, cel, claiming

AnyBuilder = TypeVar("AnyBuilder", bound=ManifestBuilder)

NODES: Final = 4
#: Rounds after which the caches are full, and rounds after which all is counted again.
FILLED, MORE = 20, 10
#: Logs are cut at a length of their own.
SKIPPED: Final = (
    ChangeLog,
    Logger,
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
)
HOST: Final = "kubernetes.io/hostname"


def parts_of(obj: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, by where."""
    if isinstance(obj, dict):
        for key, value in obj.items():
            yield "[key]", key
            yield "[]", value
    elif isinstance(obj, list | tuple | set | frozenset | deque):
        for each in obj:
            yield "[]", each
    elif isinstance(obj, MethodType):
        yield "", obj.__self__
    if isinstance(obj, msgspec.Struct):
        for name in obj.__struct_fields__:
            yield f".{name}", getattr(obj, name)
        return
    for name, value in getattr(obj, "__dict__", {}).items():
        yield f".{name}", value
    for kind in type(obj).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if hasattr(obj, name):
                yield f".{name}", getattr(obj, name)


def holdings(root: Any) -> Counter[str]:
    """Where → how much is held there: the lengths of containers, and of texts."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    kept: list[Any] = []
    todo: deque[tuple[str, Any]] = deque([("", root)])
    while todo:
        path, obj = todo.popleft()
        if isinstance(obj, str | bytes):
            found[path] += 1 + len(obj) // 64
        if isinstance(obj, SKIPPED) or id(obj) in seen:
            continue
        seen.add(id(obj))
        kept.append(obj)  # so that no other object gets its id
        found[path] += 1
        for name, part in parts_of(obj):
            todo.append((path if name == "[]" and path.endswith("[]") else f"{path}{name}", part))
    return found


def a_round(n: int) -> Iterable[Any]:
    """Objects that one tenant makes, none of whose names has been seen before."""
    names = [f"r{n}-{i}" for i in range(10)]
    ours = a_pod(f"p{n}").in_namespace(f"ns{n}").labelled(app=f"a{n}").needs(cpu="100m")
    terms = [
        {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": name}}} for name in names
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    for i, pod in enumerate(
        (
            ours,
            ours.needs({f"example.com/{name}": 1 for name in names}),
            ours.needs({f"example.com/{name}": 1 for name in names}).on("n1"),
            ours.selects({f"example.com/{name}": "x" for name in names}),
            ours.with_spec(affinity={"podAntiAffinity": required}),
            ours.with_spec(affinity={"podAntiAffinity": required}).on("n2"),
            ours.with_spec(affinity={"podAffinity": required}),
            ours.spreads(HOST, over={"app": f"a{n}"}),
            ours.spreads(f"example.com/{n}", over={"app": f"a{n}"}),
            ours.with_spec(tolerations=[{"key": name, "operator": "Exists"} for name in names]),
            ours.host_port(1000 + n),
            ours.in_gang(f"g{n}", 3),
            ours.in_queue(f"q{n}"),
            ours.annotated({f"example.com/{name}": "x" for name in names}),
            ours.needs(cpu=100).with_priority(n),
            ours.on(f"no-such-node-{n}"),
            claiming(ours, f"c{n}"),
        )
    ):
        yield there(pod.with_uid(f"uid-{n}-{i}"), n, name=f"p{n}-{i}")
    yield there(a_claim(f"c{n}").asks(selectors=[cel(f'device.driver != "{n}"')]), n)
    yield there(a_pod_group(f"g{n}", least=2), n)


def there(builder: AnyBuilder, n: int, **metadata: str) -> AnyBuilder:
    """In the namespace of a round."""
    return builder._set("metadata", namespace=f"ns{n}", **metadata)


def live_through(engine: Engine, n: int, now: float) -> float:
    """The objects of a round come, are tried for a while, and go."""
    kinds, objects = engine.handlers.kinds, [each.build() for each in a_round(n)]
    for obj in objects:
        kinds[type(obj)].updated(obj, now)
    for _ in range(4):
        settle(engine, now)
        now += 20
    for obj in objects:
        kinds[type(obj)].deleted(obj, now)
    for _ in range(2):
        settle(engine, now)
        now += 400
    engine.check_consistent()
    return now


def settle(engine: Engine, now: float) -> None:
    """Run, and let all effects succeed."""
    for _ in range(20):
        effects = engine.run(now)
        for effect in effects:
            engine.on_outcome(effect, Applied(), now)
        if not engine.ready:
            return


def test_what_comes_and_goes_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cel_selectors, "_MAX_SELECTORS", 8)
    monkeypatch.setattr(selector_counts, "_MAX_CACHED", 8)
    monkeypatch.setattr(node_results, "_MAX_KEPT", 8)
    monkeypatch.setattr(evaluation_cache, "MAX_KEPT", 8)
    monkeypatch.setattr(allocation_cache, "MAX_DIGESTS", 8)
    engine = Engine(EngineSettings([default_profile()]))
    for n in range(NODES):
        engine.handlers.on_node_updated(a_node(f"n{n}").offers(cpu=8).build(), 0.0)
        engine.handlers.on_object_updated(a_slice(f"n{n}", a_device("g")).build(), 0.0)
    engine.handlers.on_object_updated(a_device_class("gpu").build(), 0.0)
    now = 0.0
    for n in range(FILLED):
        now = live_through(engine, n, now)
    before = holdings(engine)
    for n in range(FILLED, FILLED + MORE):
        now = live_through(engine, n, now)
    after = holdings(engine)
    grown = {where: after[where] - before[where] for where in after if after[where] > before[where]}
    most = max(grown, key=lambda where: grown[where], default="")
    assert {where: more for where, more in grown.items() if more >= MORE} == {}, most
    assert sum(after.values()) <= 1.02 * sum(before.values())
