"""Nothing prints but ``arranger/cli/output``, which shows what others say as text and no more."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.paths import REPO

#: Who may write to a terminal, and why.
ALLOWED = {
    "arranger/cli/completion.py": "words of our own commands, which kubectl reads",
    "arranger/cli/output/screen.py": "the one way there",
    "arranger/cli/output/errors.py": "errors, in one line",
    "arranger/daemon/telemetry/logging.py": "the log: JSON in ASCII, or shown as text",
}
#: What writes to a terminal, or makes a text more than a text there.
PRINTING = {
    *("print", "input", "breakpoint"),
    *("click.echo", "click.secho", "click.style", "click.prompt", "click.confirm"),
    *("click.progressbar", "click.echo_via_pager", "click.get_text_stream"),
    *("click.get_binary_stream", "click.ClickException", "click.FileError"),
    *("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "os.write"),
    *("rich.print", "rich.console.Console", "rich.get_console", "rich.markup"),
    *("rich.markup.escape", "rich.text.Text.from_markup", "rich.text.Text.from_ansi"),
    *("rich.prompt", "rich.inspect"),
    *("logging.StreamHandler", "traceback.print_exc", "traceback.print_exception"),
    *("warnings.warn",),
}


def names_used(source: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that is used."""
    tree = ast.parse(source)
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imported[alias.asname or alias.name.partition(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, _, rest = dotted(node).partition(".")
            yield node.lineno, ".".join(filter(None, (imported.get(first, first), rest)))


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def printing(file: str) -> list[int]:
    used = names_used((REPO / file).read_text(encoding="utf-8"))
    return sorted({line for line, name in used if name in PRINTING})


def test_nothing_prints_past_the_screen() -> None:
    files = [path.relative_to(REPO).as_posix() for path in (REPO / "arranger").rglob("*.py")]
    assert {file: lines for file in files if (lines := printing(file))}.keys() <= ALLOWED.keys()


def test_what_is_allowed_is_needed() -> None:
    assert [file for file in ALLOWED if not printing(file)] == []


def test_the_guard_sees_each_way_to_print() -> None:
    ways = {
        "print(1)",
        "import click\nclick.echo(1)",
        "from click import echo",
        "import rich.console as c\nc.Console()",
        "from rich.console import Console",
        "import sys\nsys.stdout.write('a')",
        "from rich import print as p",
        "import click\nraise click.ClickException('a')",
    }
    for way in ways:
        assert {name for _, name in names_used(way)} & PRINTING, way
