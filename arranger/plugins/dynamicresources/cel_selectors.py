"""CEL selectors of devices, each compiled once and evaluated once for devices that look alike.

An evaluation takes a quarter of a millisecond, and a cluster may have tens of thousands of
devices. So a selector records what it reads of a device: for one that is equal in that, the
result is known. Most selectors read a driver, a model or a capacity, of which there are few.

Upstream: ``k8s.io/dynamic-resource-allocation/cel``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from arranger.api.types.resource_claims import Device, DeviceAttribute

#: A part of a device, such as ``("attributes", domain, name)``; () is all of it.
Path = tuple[str, ...]

_ABSENT: Final = object()
_SOME_ENVIRONMENT: Final = re.compile(r" \(in activation .*", re.DOTALL)
#: A string literal, or an optional selection ``.?name``.
_OPTIONAL: Final = re.compile(
    r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\.\?\s*([A-Za-z_]\w*)""", re.DOTALL
)
#: Compiled selectors kept; a cluster has a few dozen.
_MAX_SELECTORS: Final = 512
#: Results kept for one selector.
_MAX_RESULTS: Final = 65_536


class SelectorError(ValueError):
    """A selector cannot be compiled, or not be evaluated for some device."""


class CelSelector:
    """One compiled expression.

    Raises:
        SelectorError: it cannot be compiled.
    """

    def __init__(self, expression: str) -> None:
        self._program = _compile(expression)
        #: Paths read by an evaluation → their values → its result.
        self._results: dict[tuple[Path, ...], dict[tuple[Any, ...], bool | str]] = {}
        self._result_count = 0

    def matches(self, driver: str, device: Device) -> bool:
        """Whether it selects a device.

        Raises:
            SelectorError: the evaluation failed, for want of an attribute for example.
        """
        verdict = self._cached_result(driver, device)
        if verdict is None:
            verdict = self._evaluate(driver, device)
        if isinstance(verdict, str):
            raise SelectorError(f"CEL runtime error: {verdict}")
        return verdict

    def _cached_result(self, driver: str, device: Device) -> bool | str | None:
        for paths, verdicts in self._results.items():
            verdict = verdicts.get(tuple(_value_at(driver, device, path) for path in paths))
            if verdict is not None:
                return verdict
        return None

    def _evaluate(self, driver: str, device: Device) -> bool | str:
        reads: dict[Path, None] = {}
        verdict = _run(self._program, _cel_variables(driver, device, reads))
        if self._result_count >= _MAX_RESULTS:
            self._results.clear()
            self._result_count = 0
        # Each read depends only on the values read before, so these values decide the result.
        key = tuple(_value_at(driver, device, path) for path in reads)
        self._results.setdefault(tuple(reads), {})[key] = verdict
        self._result_count += 1
        return verdict


@lru_cache(maxsize=_MAX_SELECTORS)
def compile_selector(expression: str) -> CelSelector | SelectorError:
    """The selector of an expression, or why there is none."""
    try:
        return CelSelector(expression)
    except SelectorError as error:
        return error


def _value_at(driver: str, device: Device, path: Path) -> Any:
    """The value at a path of a device, in a form that can be compared and hashed."""
    if not path:
        return driver, msgspec.json.encode(device, order="sorted")
    if path[:1] == ("driver",):
        return driver
    if path[:1] not in (("attributes",), ("capacity",)):
        return device.allow_multiple_allocations
    field: dict[str, Any] = getattr(device, path[0])
    if len(path) == 3:
        found = field.get(f"{path[1]}/{path[2]}")
        if found is None and path[1] == driver:
            found = field.get(path[2])
        return None if found is None else msgspec.structs.astuple(found)
    return driver, msgspec.json.encode(field, order="sorted")


def _cel_variables(driver: str, device: Device, reads: dict[Path, None]) -> Any:
    """The variables of an evaluation; the paths it reads are added to ``reads``."""
    from celpy import celtypes

    def note(path: Path) -> None:
        reads[path] = None

    seen = _tracking_map()
    fields: dict[str, Any] = {
        "driver": celtypes.StringType(driver),
        "allowMultipleAllocations": celtypes.BoolType(device.allow_multiple_allocations),
    }
    given: tuple[tuple[str, Mapping[str, Any], Callable[[str, Any], Any]], ...] = (
        ("attributes", device.attributes, _attribute),
        ("capacity", device.capacity, _capacity),
    )
    for name, values, value_of in given:
        domains: dict[str, dict[str, Any]] = {}
        for qualified, value in values.items():
            domain, _, bare = qualified.rpartition("/")
            domains.setdefault(domain or driver, {})[bare] = value_of(qualified, value)
        inner = {d: seen(named, note, (name, d), _ABSENT) for d, named in domains.items()}

        def absent(domain: str, name: str = name) -> Any:
            return seen({}, note, (name, domain), _ABSENT)

        fields[name] = seen(inner, note, (name,), absent)
    return {"device": seen(fields, note, (), _ABSENT)}


def _attribute(name: str, given: DeviceAttribute) -> Any:
    from celpy import celtypes

    from arranger.plugins.dynamicresources.cel_library import Version

    if given.int_value is not None:
        return celtypes.IntType(given.int_value)
    if given.bool_value is not None:
        return celtypes.BoolType(given.bool_value)
    if given.string_value is not None:
        return celtypes.StringType(given.string_value)
    if given.version_value is None:
        return SelectorError(f"attribute {name}: unsupported attribute value")
    try:
        return Version.parse(given.version_value)
    except ValueError as error:
        return SelectorError(f"attribute {name}: {error}")


def _capacity(name: str, given: Any) -> Any:
    from arranger.plugins.dynamicresources.cel_library import FUNCTIONS

    try:
        return FUNCTIONS["quantity"](given.value)
    except ValueError as error:
        return SelectorError(f"capacity {name}: {error}")


def _noting(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of dict that records that all of a tracking map was read."""

    def noting(self: Any, *given: Any) -> Any:
        self._note(self._path)
        return method(self, *given)

    return noting


@lru_cache(maxsize=1)
def _tracking_map() -> Callable[..., Any]:
    """The type of maps that record what is read of them; made late, as celpy is slow to import."""
    from celpy import celtypes

    class TrackingMap(celtypes.MapType):
        def __init__(
            self, items: dict[str, Any], note: Callable[[Path], None], path: Path, otherwise: Any
        ) -> None:
            super().__init__(items)
            self._note, self._path, self._otherwise = note, path, otherwise

        def __getitem__(self, key: Any) -> Any:
            found = dict.get(self, key, _ABSENT)
            if found is _ABSENT and self._otherwise is not _ABSENT:
                return self._otherwise(str(key))
            if not isinstance(found, TrackingMap):
                self._note((*self._path, str(key)))
            if found is _ABSENT:
                raise KeyError(key)
            if isinstance(found, SelectorError):
                raise found
            return found

        # Everything else that can be done with a map may depend on all of it.
        __iter__, __len__ = _noting(dict.__iter__), _noting(dict.__len__)
        __contains__, get = _noting(dict.__contains__), _noting(dict.get)
        keys, items, values = _noting(dict.keys), _noting(dict.items), _noting(dict.values)

    return TrackingMap


def _compile(expression: str) -> Any:
    from celpy import Environment
    from celpy.celparser import CELParseError

    from arranger.plugins.dynamicresources.cel_library import FUNCTIONS, SELECT

    environment = Environment()
    # celpy cannot parse ``x.?name``; outside of strings it becomes ``x.optSelect("name")``.
    plain = _OPTIONAL.sub(
        lambda found: f'.{SELECT}("{found[1]}")' if found[1] else found[0], expression
    )
    try:
        tree = _expand_cel_bind(environment, environment.compile(plain))
    except CELParseError as error:
        said = str(error.args[0]).splitlines()[0] if error.args else expression
        raise SelectorError(f"CEL compile error: cannot be read: {said}") from error
    return environment.program(tree, functions=dict(FUNCTIONS))


def _expand_cel_bind(environment: Any, tree: Any) -> Any:
    """``cel.bind(name, value, body)`` as ``[value].map(name, body)[0]``, which means the same."""
    for node in list(tree.iter_subtrees()):
        if node.data != "member_dot_arg" or len(node.children) != 3:
            continue
        on, method, given = node.children
        named = [str(token) for token in on.scan_values(lambda _: True)]
        if named != ["cel"] or str(method) != "bind" or len(given.children) != 3:
            continue
        name, value, body = given.children
        mapped = environment.compile("[value].map(name, body)[0]")
        index = next(mapped.find_data("member_index"))
        parts = {"value": value, "name": name, "body": body}
        for parent in list(mapped.iter_subtrees()):
            parent.children = [_replaced(child, parts) for child in parent.children]
        node.data, node.children = index.data, index.children
    return tree


def _replaced(child: Any, parts: dict[str, Any]) -> Any:
    if getattr(child, "data", "") != "expr":
        return child
    words = [str(token) for token in child.scan_values(lambda _: True)]
    return parts.get(words[0], child) if len(words) == 1 else child


def _run(program: Any, seen: Any) -> bool | str:
    from celpy import celtypes

    try:
        verdict = program.evaluate(seen)
    except Exception as error:  # anything that an expression can raise
        return _reason(error)
    if not isinstance(verdict, celtypes.BoolType):
        return f"CEL result of type {type(verdict).__name__} could not be converted to bool"
    return bool(verdict)


def _reason(error: Exception) -> str:
    """The error, in the API server's words where they are known."""
    text = str(error.args[0]) if error.args else type(error).__name__
    if isinstance(error.__cause__, ValueError):
        text = str(error.__cause__)
    if found := re.fullmatch(r"no such member in mapping: '(.*)'", text):
        return f"no such key: {found[1]}"
    return _SOME_ENVIRONMENT.sub("", text)
