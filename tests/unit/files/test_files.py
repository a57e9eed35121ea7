"""Files that do their worst: each is refused in one line, quickly, within the limits."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from arranger.files.content import read_text
from arranger.files.json_text import parse_json
from arranger.files.limits import FileError, Limits
from arranger.files.yaml_lines import line_of
from arranger.files.yaml_text import documents, one_document

SMALL = Limits(size=1000, elements=100, repeated=50, depth=20, digits=40, documents=5)


def all_documents(text: str, limits: Limits = SMALL) -> list[Any]:
    return [value for _, value in documents(text, limits)]


LAUGHS = "a: &a [x, x, x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}]\n" for old, new in ("ab", "bc", "cd", "de")
)
CHAIN = "a0: &a0 {x: y}\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 40))
WRONG_YAML: dict[str, tuple[str, str]] = {
    "100,000 open brackets": ("[" * 100_000, "nested too deeply"),
    "100,000 open braces": ("{a: " * 100_000, "nested too deeply"),
    "100,000 lists in a line": ("- " * 100_000 + "x", "nested too deeply"),
    "maps by indentation": ("\n".join(" " * n + "a:" for n in range(50)), "nested too deeply"),
    "aliases of aliases": (LAUGHS, "aliases stand for more than 50 elements"),
    "a chain of aliases": (CHAIN, "aliases stand for more than 50 elements"),
    "merges of merges": (
        "a: &a {b: 1, c: 2}\n" + "".join(f"m{n}: {{<<: *a}}\n" for n in range(30)),
        "aliases stand for more than 50 elements",
    ),
    "an alias of itself": ("&a [*a]", "nested too deeply: a contains itself"),
    "an alias of nothing": ("[*a]", "not YAML: the alias a stands for nothing"),
    "an alias of another document": (
        "&a x\n---\n*a\n",
        "not YAML: the alias a stands for nothing",
    ),
    "many documents": ("--- x\n" * 6, "more than 5 documents"),
    "many elements": ("[" + "x, " * 200 + "]", "more than 100 elements"),
    "5,000 digits": ("a: " + "9" * 4000, "a number with too many digits"),
    "5,000 digits of another base": ("a: 0x" + "f" * 4000, "a number with too many digits"),
    "a number by its tag": ("!!int " + "9" * 5000, "a number with too many digits"),
    "a tag that makes objects": (
        "!!python/object/apply:os.system [ls]",
        "not YAML that is read here: the tag tag:yaml.org,2002:python/object/apply:os.system",
    ),
    "a tag that makes sets": (
        "!!set {a, b}",
        "not YAML that is read here: the tag tag:yaml.org,2002:set",
    ),
    "a tag of a number that is none": ("!!int x", "not YAML: this is no int"),
    "an empty number": ("!!int ''", "not YAML: this is no int"),
    "a truth that is none": ("!!bool maybe", "not YAML: this is no bool"),
    "a list as a key": ("{[a]: b}", "not YAML that is read here: a key is no scalar"),
    "a map as a key": ("? {a: b}\n: c", "not YAML that is read here: a key is no scalar"),
    "a merge of a text": ("<<: x", "not YAML: what is merged is no map"),
    "what it cannot mean": ("a: b: c", "mapping values are not allowed in this context"),
    "a control code": ("a: \x07", "not YAML: "),
    "half a character": ("\ud800", "not YAML: "),
    "an escape of none": ('"\\ud800"', "not YAML: "),
}


@pytest.mark.parametrize("case", WRONG_YAML.values(), ids=WRONG_YAML.keys())
def test_yaml_is_refused(case: tuple[str, str]) -> None:
    text, says = case
    with pytest.raises(FileError) as caught:
        all_documents(text)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


SAME_YAML: dict[str, str] = {
    "scalars": "[1, -0x1f, 0b11, 017, 1_000, 1:30, 1.5, .inf, -.inf, ~, null, yes, Off, '1']",
    "blocks": "a: |\n  x\n  y\nb: >-\n  x\n  y\n",
    "merges": "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {y: 4, <<: [*a, {z: 5, x: 6}]}",
    "aliases": "a: &a [1, {b: 2}]\nc: *a",
    "keys of all kinds": "{1: a, yes: b, ~: c, 1.5: d}",
    "tags": "[!!str 1, !!int '1', !!float 1, !!null '', !!seq [], !!map {}, ! 1]",
    "a key twice": "a: 1\na: 2",
    "nothing": "",
    "an empty document": "---\n---\na",
    "signs": "['=', '<<', a=b]",
}


@pytest.mark.parametrize("text", SAME_YAML.values(), ids=SAME_YAML.keys())
def test_yaml_means_what_it_means_to_pyyaml(text: str) -> None:
    assert all_documents(text) == list(yaml.load_all(text, yaml.CSafeLoader))


def test_a_date_stays_a_text() -> None:
    assert all_documents("[2024-01-01, 2024-01-01T00:00:00Z]") == [
        ["2024-01-01", "2024-01-01T00:00:00Z"]
    ]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["yes", "1e3", "0x1", "<<", "=", "~", "1:2", "- a", "*a", "&a", "2024-01-01"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_what_pyyaml_writes_is_read_back(value: Any, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    assert all_documents(text) == [yaml.load(text, yaml.CSafeLoader)]


@given(VALUES)
def test_what_json_writes_is_read_back(value: Any) -> None:
    written = json.dumps(value, allow_nan=False, default=str) if _finite(value) else "null"
    assert parse_json(written, SMALL) == (value if _finite(value) else None)


def _finite(value: Any) -> bool:
    if isinstance(value, list | dict):
        return all(map(_finite, value.values() if isinstance(value, dict) else value))
    return value not in (float("inf"), float("-inf"))


@given(st.text(alphabet="[]{}&*!|>'\"%@`#-?:, \n\ta1~.\\", max_size=60))
def test_whatever_it_is_pyyaml_agrees_or_it_is_refused(text: str) -> None:
    try:
        found = all_documents(text)
    except FileError:
        return
    assert found == list(yaml.load_all(text, yaml.CSafeLoader))


@given(st.text(max_size=60) | st.text(alphabet='[]{}",:0123456789eE+-.\\u \n', max_size=60))
def test_any_text_is_json_or_refused(text: str) -> None:
    try:
        found = parse_json(text, SMALL)
    except FileError:
        return
    assert found == json.loads(text)


WRONG_JSON: dict[str, tuple[str, str, int | None]] = {
    "100,000 open brackets": ("[" * 100_000, "more than 100 elements", None),
    "deeper than is allowed": ("[" * 30 + "]" * 30, "nested too deeply", None),
    "cut off": ('{"a":\n [', "not JSON: Expecting value", 2),
    "two values": ("{}\n{}", "not JSON: Extra data", 2),
    "no number": ("[NaN]", "not JSON: ", None),
    "5,000 digits": ("[" + "9" * 5000 + "]", "", None),
    "many elements": ("[" + "1," * 200 + "1]", "more than 100 elements", None),
    "half a character": ('"\\ud800"', "not JSON: ", None),
}


@pytest.mark.parametrize("case", WRONG_JSON.values(), ids=WRONG_JSON.keys())
def test_json_is_refused(case: tuple[str, str, int | None]) -> None:
    text, says, line = case
    with pytest.raises(FileError) as caught:
        parse_json(text, SMALL)
    assert str(caught.value).startswith(says)
    assert str(caught.value).isprintable()
    assert caught.value.line == line


def test_the_depth_of_json_is_refused_before_the_stack_ends() -> None:
    for depth in (500, 5_000, 100_000):
        with pytest.raises(FileError, match="nested too deeply"):
            parse_json("[" * depth + "]" * depth)


def bomb(folder: Path) -> Path:
    file = folder / "bomb.json.gz"
    file.write_bytes(gzip.compress(b" " * 2000))
    return file


def cut(folder: Path) -> Path:
    file = folder / "cut.gz"
    file.write_bytes(gzip.compress(bytes(range(256)) * 3)[:-20])
    return file


def spoiled(folder: Path) -> Path:
    file = folder / "spoiled.gz"
    content = bytearray(gzip.compress(b"some text " * 50))
    content[12:20] = b"\xff" * 8
    file.write_bytes(content)
    return file


def written(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


UNREADABLE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "too large": (written("a", b"x" * 1001), "larger than 0 MiB"),
    "without an end": (lambda _: Path("/dev/zero"), "larger than 0 MiB"),
    "too large when unpacked": (bomb, "larger than 0 MiB"),
    "half a gzip": (cut, "not a whole gzipped file"),
    "a spoiled gzip": (spoiled, "gzip"),
    "no gzip": (written("a.gz", b"hello"), "Not a gzipped file"),
    "no text": (written("a", b"\xff\xfe"), "not text in UTF-8"),
    "a folder": (lambda folder: folder, "Is a directory"),
    "not there": (lambda folder: folder / "none", "No such file"),
    "a name that is none": (lambda _: Path("a\0b"), "null"),
}


@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_file_is_refused(case: tuple[Callable[[Path], Path], str], tmp_path: Path) -> None:
    make, says = case
    with pytest.raises(FileError) as caught:
        read_text(make(tmp_path), SMALL)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


def test_one_document_is_one() -> None:
    assert one_document("a: 1") == {"a": 1}
    assert one_document("# nothing") is None
    with pytest.raises(FileError) as caught:
        one_document("a: 1\n---\nb: 2")
    assert (str(caught.value), caught.value.line) == ("more than one document", 3)


def test_lines_of_fields() -> None:
    text = "---\na: 1\n---\nb:\n- c: 2\n- d:\n    e: 3\n"
    assert line_of(text, 4, [("b", ""), ("", "1"), ("d", "")]) == 7
    assert line_of(text, 4, [("b", ""), ("", "9"), ("d", "")]) == 5
    assert line_of(text, 4, [("b", ""), ("", "9" * 5000)]) == 5
    with pytest.raises(FileError):
        line_of("\t[", 1, [("a", "")])
