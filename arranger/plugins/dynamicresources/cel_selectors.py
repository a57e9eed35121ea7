"""CEL selectors of devices, each compiled once and evaluated once for devices that look alike.

An evaluation takes a quarter of a millisecond, and a cluster may have tens of thousands of
devices. So a selector records what it reads of a device: for one that is equal in that, the
result is known. Most selectors read a driver, a model or a capacity, of which there are few.

What a tenant writes is bounded: its length as upstream, the steps of an evaluation
(:data:`MAX_STEPS`), and what is kept of all selectors together.

Upstream: ``k8s.io/dynamic-resource-allocation/cel``.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec

from arranger.api.types.resource_claims import Device, DeviceAttribute
from arranger.plugins.dynamicresources.effort import COMPILE, STEP, TOKEN, Effort

#: A part of a device, such as ``("attributes", domain, name)``; () is all of it.
Path = tuple[str, ...]

_ABSENT: Final = object()
_SOME_ENVIRONMENT: Final = re.compile(r" \(in activation .*", re.DOTALL)
#: A string literal, or an optional selection ``.?name``.
_TOKEN: Final = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\w+|\S""", re.DOTALL)
_OPTIONAL: Final = re.compile(
    r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\.\?\s*([A-Za-z_]\w*)""", re.DOTALL
)
#: Characters of an expression (``CELSelectorExpressionMaxLength``).
MAX_LENGTH: Final = 10 * 1024
#: Words and signs of an expression: so many are read in 50 ms.
MAX_TOKENS: Final = 2500
#: Steps of one evaluation, 50 ms of them: upstream's limit of a million units of cost would let one
#: device keep all other pods waiting for seconds. Selectors that people write take about a hundred.
MAX_STEPS: Final = 10_000
#: Compiled selectors that are kept, and their characters; a cluster has a few dozen of a line each.
_MAX_SELECTORS: Final = 256
_MAX_KEPT: Final = 256 * 1024
#: Results kept for one selector.
_MAX_RESULTS: Final = 4096


#: Levels of brackets in an expression.
_MAX_NESTING: Final = 64


class SelectorError(ValueError):
    """A selector cannot be compiled, or not be evaluated for some device."""


class CelSelector:
    """One compiled expression.

    Raises:
        SelectorError: it cannot be compiled.
    """

    def __init__(self, expression: str) -> None:
        tokens = count_tokens(expression)
        if len(expression) > MAX_LENGTH:
            raise SelectorError(
                f"CEL compile error: too long: {len(expression)} characters, at most {MAX_LENGTH}"
            )
        if tokens > MAX_TOKENS:
            raise SelectorError(
                f"CEL compile error: {tokens} words and signs, and at most {MAX_TOKENS} are read"
            )
        self._program = _compile(expression)
        #: Paths read by an evaluation → their values → its result.
        self._results: dict[tuple[Path, ...], dict[tuple[Any, ...], bool | str]] = {}
        self._result_count = 0

    def matches(self, driver: str, device: Device, effort: Effort | None = None) -> bool:
        """Whether it selects a device.

        Raises:
            SelectorError: the evaluation failed, for want of an attribute for example.
            EffortSpentError: it has not been evaluated, for want of units in ``effort``.
        """
        verdict = self._cached_result(driver, device)
        if verdict is None:
            if effort is not None:
                effort.check()
            verdict = self._evaluate(driver, device)
            if effort is not None:
                effort.count(STEP * self._program.steps)
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


def count_tokens(expression: str) -> int:
    """How many words and signs it has; 0 of one that is too long to be read."""
    return len(_TOKEN.findall(expression)) if len(expression) <= MAX_LENGTH else 0


class CompiledSelectors:
    """The selectors that were used last, as many as fit."""

    def __init__(self) -> None:
        self._selectors: OrderedDict[str, CelSelector | SelectorError] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._selectors)

    def get(self, expression: str) -> CelSelector | SelectorError | None:
        """The selector of an expression, or why there is none; None if it is not compiled yet."""
        found = self._selectors.get(expression)
        if found is not None:
            self._selectors.move_to_end(expression)
        return found

    def compile(self, expression: str, effort: Effort | None = None) -> CelSelector | SelectorError:
        """The selector of an expression, or why there is none.

        Raises:
            EffortSpentError: it is not compiled yet, and there are no units left for it.
        """
        found = self.get(expression)
        if found is None:
            if effort is not None:
                effort.spend(COMPILE + TOKEN * count_tokens(expression))
            try:
                found = CelSelector(expression)
            except SelectorError as error:
                found = error
            self._selectors[expression] = found
            self._size += len(expression)
            while len(self._selectors) > _MAX_SELECTORS or (
                self._size > _MAX_KEPT and len(self._selectors) > 1
            ):
                self._size -= len(self._selectors.popitem(last=False)[0])
        return found


def _value_at(driver: str, device: Device, path: Path) -> Any:
    """The value at a path of a device, in a form that can be compared and hashed."""
    if not path:
        return driver, _digest(device)
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
    return driver, _digest(field)


def _digest(value: Any) -> bytes:
    """Stands for a value that may be large."""
    return blake2b(msgspec.json.encode(value, order="sorted"), digest_size=16).digest()


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

    from arranger.plugins.dynamicresources.cel_evaluator import Program
    from arranger.plugins.dynamicresources.cel_library import FUNCTIONS, SELECT

    if _depth(expression) > _MAX_NESTING:
        raise SelectorError("CEL compile error: nested too deeply")
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
    except RecursionError as error:
        raise SelectorError("CEL compile error: nested too deeply") from error
    return Program(environment, tree, FUNCTIONS, MAX_STEPS)


def _depth(expression: str) -> int:
    """How deeply brackets are nested at most, those in texts included."""
    depth = deepest = 0
    for character in expression:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest


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
    except RecursionError:
        return "nested too deeply"
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
