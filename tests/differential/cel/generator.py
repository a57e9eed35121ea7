"""Random expressions about devices, most of which mean something, and random devices."""

from __future__ import annotations

from random import Random
from typing import Any

Json = dict[str, Any]
DRIVERS = ("gpu.example.com", "nic.example.com")
_TEXTS = (
    "",
    "a",
    "a100",
    "gpu.example.com",
    "GPU Memory",
    "80Gi",
    "1.2.3",
    "v1.2",
    "äöü",
    "12",
    "-7",
)
_PATTERNS = ("a", "^[ah]100$", ".*", "(", "[0-9]+", "g.u", "")
_NAMES = ("x", "y", "z")
_GPU = 'device.attributes["gpu.example.com"]'
_LOOPS = ("exists", "all", "exists_one")


def random_device(random: Random) -> Json:
    """A device with some of the attributes that expressions ask for."""
    driver = random.choice(DRIVERS)
    attributes: Json = {}
    values: tuple[tuple[str, list[Json]], ...] = (
        ("model", [{"string": "a100"}, {"string": "h100"}]),
        ("index", [{"int": 0}, {"int": 3}, {"int": -5}]),
        ("healthy", [{"bool": True}, {"bool": False}]),
        ("firmware", [{"version": "1.2.0"}, {"version": "1.10.0-rc.1"}]),
        ("odd", [{"string": "äöü"}, {"int": 2**62}, {"bool": True}, {"version": "0.0.1"}]),
    )
    for name, options in values:
        if random.random() < 0.7:
            domain = random.choice(("", f"{driver}/", "other.example.com/"))
            attributes[domain + name] = random.choice(options)
    device: Json = {"driver": driver, "attributes": attributes, "capacity": {}}
    if random.random() < 0.8:
        device["capacity"]["memory"] = {"value": random.choice(("40Gi", "80Gi", "81920Mi"))}
    if random.random() < 0.2:
        device["allowMultipleAllocations"] = random.random() < 0.5
    return device


def random_expression(random: Random) -> str:
    """An expression that is a truth, if it means something."""
    return _Expression(random).truth(random.choice((2, 3, 4, 5)))


class _Expression:
    def __init__(self, random: Random) -> None:
        self._random = random
        #: Names with the kinds of their values.
        self._names: list[tuple[str, str]] = []

    def of(self, kind: str, depth: int) -> str:
        """A value of a kind, or, rarely, of another."""
        random = self._random
        if random.random() < 0.03:
            kind = random.choice(("truth", "number", "text", "texts", "numbers", "any"))
        own = [name for name, each in self._names if each == kind]
        if own and random.random() < 0.4:
            return random.choice(own)
        if depth > 0 and random.random() < 0.08:
            yes, no = self.of(kind, depth - 1), self.of(kind, depth - 1)
            return f"({self.truth(depth - 1)} ? {yes} : {no})"
        if depth > 0 and random.random() < 0.05:
            return self._bound(kind, depth - 1)
        made: str = getattr(self, kind)(depth)
        return made

    def _bound(self, kind: str, depth: int) -> str:
        random = self._random
        name, inner = random.choice(_NAMES), random.choice(("number", "text", "texts", "any"))
        value = self.of(inner, depth)
        return f"cel.bind({name}, {value}, {self._with((name, inner), kind, depth)})"

    def _with(self, name: tuple[str, str], kind: str, depth: int) -> str:
        before = self._names
        self._names = [each for each in before if each[0] != name[0]] + [name]
        made = self.of(kind, depth)
        self._names = before
        return made

    def _pick(self, depth: int, simple: tuple[str, ...], *others: Any) -> str:
        if depth <= 0 or self._random.random() < 0.15:
            return self._random.choice(simple)
        made: str = self._random.choice(others)()
        return made

    def _method(self, depth: int, of: str, names: tuple[str, ...], *args: str) -> str:
        given = ", ".join(self.of(each, depth) for each in args)
        return f"{self.of(of, depth)}.{self._random.choice(names)}({given})"

    def _loop(
        self,
        depth: int,
        over: str,
        macros: tuple[str, ...],
        kind: str,
        gives: str,
        *,
        two: bool = False,
        kept: bool = False,
    ) -> str:
        """A macro over a list; ``two`` names, or what is ``kept`` besides."""
        name = self._random.choice(_NAMES)
        body = self._with((name, kind), gives, depth)
        names = f"i, {name}" if two else name
        more = f", {name}" if kept else ""
        return f"{self.of(over, depth)}.{self._random.choice(macros)}({names}, {body}{more})"

    # --- kinds -------------------------------------------------------------------------------

    def truth(self, depth: int) -> str:
        """A truth."""
        random, d = self._random, depth - 1
        operator = random.choice(("==", "!=", "<", "<=", ">", ">="))
        same = random.choice(("==", "!="))
        any_kind = random.choice(("number", "text", "texts", "numbers", "quantity", "version"))
        sets = ("contains", "equivalent", "intersects")
        return self._pick(
            depth,
            (
                "true",
                "false",
                "device.allowMultipleAllocations",
                'has(device.attributes["gpu.example.com"].model)',
            ),
            lambda: f"{self.truth(d)} {random.choice(('&&', '||'))} {self.truth(d)}",
            lambda: f"({self.truth(d)} {random.choice(('&&', '||'))} {self.truth(d)})",
            lambda: f"!({self.truth(d)})",
            lambda: f"{self.of('number', d)} {operator} {self.of('number', d)}",
            lambda: f"{self.of('text', d)} {operator} {self.of('text', d)}",
            lambda: f"{self.of(any_kind, d)} {same} {self.of(any_kind, d)}",
            lambda: f"{self.of('any', d)} {operator} {self.of('any', d)}",
            lambda: f"{self.of('any', d)} == {self.of(random.choice(('text', 'number')), d)}",
            lambda: f"{self.of('text', d)} in {self.of('texts', d)}",
            lambda: f"{self.of('any', d)} in {self.of(random.choice(('texts', 'numbers')), d)}",
            lambda: f"{self.of('text', d)} in {self._domain()}",
            lambda: self._method(
                d,
                "text",
                (
                    "startsWith",
                    "endsWith",
                    "contains",
                ),
                "text",
            ),
            lambda: f"{self.of('text', d)}.matches('{random.choice(_PATTERNS)}')",
            lambda: f"{self.of('text', d)}.matches({self.of('text', d)})",
            lambda: self._loop(d, "texts", _LOOPS, "text", "truth"),
            lambda: self._loop(d, "numbers", _LOOPS, "number", "truth"),
            lambda: self._loop(
                d,
                "numbers",
                (
                    "all",
                    "exists",
                ),
                "number",
                "truth",
                two=True,
            ),
            lambda: f"has({self._domain()}.{self._attribute()})",
            lambda: f"{self._optional()}.hasValue()",
            lambda: f"{self._optional()}.orValue({self.of('any', d)}) == {self.of('any', d)}",
            lambda: self._method(
                d,
                "quantity",
                (
                    "isGreaterThan",
                    "isLessThan",
                ),
                "quantity",
            ),
            lambda: self._method(
                d,
                "version",
                (
                    "isGreaterThan",
                    "isLessThan",
                ),
                "version",
            ),
            lambda: f"{random.choice(('isQuantity', 'isSemver'))}({self.of('text', d)})",
            lambda: f"{self.of(random.choice(('texts', 'numbers')), d)}.isSorted()",
            lambda: f"sets.{random.choice(sets)}({self.of('numbers', d)}, {self.of('numbers', d)})",
            lambda: f"type({self.of('any', d)}) == {random.choice(('int', 'string', 'bool'))}",
            lambda: self.any(d),
        )

    def number(self, depth: int) -> str:
        """A whole number, mostly."""
        random, d = self._random, depth - 1
        return self._pick(
            depth,
            ("0", "1", "2", "-3", "7", "9223372036854775807", "1.5", "2u"),
            lambda: f"({self.of('number', d)} {random.choice('+-*/%')} {self.of('number', d)})",
            lambda: f"-{self.of('number', 0)}",
            lambda: f"{self.of(random.choice(('text', 'texts', 'numbers')), d)}.size()",
            lambda: f"size({self.of(random.choice(('text', 'texts', 'numbers')), d)})",
            lambda: f"int({self.of(random.choice(('text', 'number', 'any')), d)})",
            lambda: self._method(
                d,
                "text",
                (
                    "indexOf",
                    "lastIndexOf",
                ),
                "text",
            ),
            lambda: f"{self.of('numbers', d)}.{random.choice(('sum', 'min', 'max'))}()",
            lambda: f"{self.of('numbers', d)}.indexOf({self.of('number', d)})",
            lambda: f"{self.of('numbers', d)}[{self.of('number', d)}]",
            lambda: f"{self.of('quantity', d)}.compareTo({self.of('quantity', d)})",
            lambda: f"{self.of('quantity', d)}.asInteger()",
            lambda: f"{self.of('version', d)}.{random.choice(('major', 'minor', 'patch'))}()",
            lambda: f'{{"a": {self.of("number", d)}, "b": 2}}.{random.choice("abc")}',
            lambda: f"[7, 3][?{self.of('number', d)}].orValue({self.of('number', d)})",
        )

    def text(self, depth: int) -> str:
        """A text."""
        random, d = self._random, depth - 1
        return self._pick(
            depth,
            (*(f'"{text}"' for text in _TEXTS), "device.driver", "r'a\\b'", "'\\u00e4'"),
            lambda: f"({self.of('text', d)} + {self.of('text', d)})",
            lambda: f"{self.of('text', d)}.{random.choice(('lowerAscii', 'upperAscii', 'trim'))}()",
            lambda: f"{self.of('text', d)}.replace({self.of('text', d)}, {self.of('text', d)})",
            lambda: self._method(d, "text", ("substring",), "number", "number"),
            lambda: f"{self.of('text', d)}.charAt({self.of('number', d)})",
            lambda: f"{self.of('text', d)}.find('{random.choice(_PATTERNS)}')",
            lambda: f"{self.of('texts', d)}.join({self.of('text', d)})",
            lambda: f"{self.of('texts', d)}[{self.of('number', d)}]",
            lambda: f"string({self.of(random.choice(('number', 'truth', 'any')), d)})",
            lambda: f"{self._optional()}.orValue({self.of('text', d)})",
        )

    def texts(self, depth: int) -> str:
        """A list of texts."""
        random, d = self._random, depth - 1
        return self._pick(
            depth,
            ("[]", '["a"]', '["a100", "h100"]', '["b", "a", ""]'),
            lambda: f"[{', '.join(self.of('text', d) for _ in range(random.randint(1, 4)))}]",
            lambda: f"({self.of('texts', d)} + {self.of('texts', d)})",
            lambda: self._loop(d, "texts", ("filter",), "text", "truth"),
            lambda: self._loop(d, "numbers", ("map",), "number", "text"),
            lambda: f"{self.of('text', d)}.split({self.of('text', d)})",
            lambda: f"{self.of('text', d)}.findAll('{random.choice(_PATTERNS)}')",
            lambda: f"{self.of('texts', d)}.{random.choice(('sort', 'reverse', 'distinct'))}()",
            lambda: self._loop(d, "texts", ("sortBy",), "text", "number"),
        )

    def numbers(self, depth: int) -> str:
        """A list of numbers."""
        random, d = self._random, depth - 1
        return self._pick(
            depth,
            ("[]", "[1]", "[3, 1, 2]", "[0, -1, 5, 5]"),
            lambda: f"[{', '.join(self.of('number', d) for _ in range(random.randint(1, 4)))}]",
            lambda: f"({self.of('numbers', d)} + {self.of('numbers', d)})",
            lambda: self._loop(d, "numbers", ("filter",), "number", "truth"),
            lambda: self._loop(d, "texts", ("map",), "text", "number"),
            lambda: self._loop(d, "numbers", ("map",), "number", "truth", kept=True),
            lambda: f"{self.of('numbers', d)}.{random.choice(('sort', 'reverse', 'distinct'))}()",
            lambda: f"lists.range({self.of('number', d)} % 40)",
            lambda: f"[{self.of('numbers', d)}, {self.of('numbers', d)}].flatten()",
            lambda: self._method(d, "numbers", ("slice",), "number", "number"),
            lambda: self._loop(d, "numbers", ("transformList",), "number", "number", two=True),
        )

    def quantity(self, depth: int) -> str:
        """A quantity."""
        random, d = self._random, depth - 1
        memory = f'device.capacity["{random.choice(DRIVERS)}"].memory'
        return self._pick(
            depth,
            ('quantity("1Gi")', 'quantity("80Gi")', memory),
            lambda: memory,
            lambda: f"quantity({self.of('text', d)})",
            lambda: self._method(
                d, "quantity", ("add", "sub"), random.choice(("quantity", "number"))
            ),
        )

    def version(self, depth: int) -> str:
        """A version."""
        d = depth - 1
        firmware = f"{self._domain()}.firmware"
        return self._pick(
            depth,
            ('semver("1.2.0")', 'semver("v1.10", true)', firmware),
            lambda: firmware,
            lambda: f"semver({self.of('text', d)})",
        )

    def any(self, depth: int) -> str:
        """An attribute, or something else that only an evaluation can tell."""
        attribute = f"{self._domain()}.{self._attribute()}"
        index = f'{self._domain()}["{self._attribute()}"]'
        computed = f"{self._domain()}[{self.of('text', depth - 1)}]" if depth > 0 else attribute
        return self._random.choice((attribute, attribute, attribute, index, computed))

    def _domain(self) -> str:
        domain = self._random.choice((*DRIVERS, *DRIVERS, "other.example.com", "none"))
        driver = self._random.random() < 0.3
        return f"device.attributes[{'device.driver' if driver else chr(34) + domain + chr(34)}]"

    def _attribute(self) -> str:
        return self._random.choice(("model", "index", "healthy", "firmware", "odd", "nope"))

    def _optional(self) -> str:
        random, domain, name = self._random, self._domain(), self._attribute()
        return random.choice(
            (
                f"{domain}.?{name}",
                f'{domain}[?"{name}"]',
                f"device.?attributes.nope.?{name}",
                "optional.none()",
                f"optional.of({domain}.{name})",
                f"{domain}.?{name}.or({domain}.?{self._attribute()})",
                f"{domain}.?{name}.optMap(v, v == v)",
                f"[{self.of('number', 1)}].first()",
            )
        )
