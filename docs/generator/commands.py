"""The commands and their options, from click."""

from __future__ import annotations

from typing import Any

import click

from arranger.cli.main import main
from docs.generator.markdown import code, heading, table
from docs.generator.markdown import page as text_of

INTRODUCTION = (
    "`arranger` is also installed as `kubectl-arranger`, so `kubectl arranger …` works. "
    "Every command has `-h` and `--help`."
)


def page() -> str:
    """One section for each command."""
    lines = heading("Commands", "`arranger/cli`", INTRODUCTION)
    for name in sorted(main.commands):
        command = main.commands[name]
        context = click.Context(command, info_name=f"arranger {name}")
        usage = " ".join(command.collect_usage_pieces(context))
        lines += [f"## arranger {name}", "", *_paragraphs(command.help or ""), ""]
        lines += ["```", f"arranger {name} {usage}", "```", ""]
        rows = [_option(each) for each in command.params if isinstance(each, click.Option)]
        lines += table(["option", "value", "default", "meaning"], rows)
    return text_of(lines)


def _paragraphs(help_text: str) -> list[str]:
    return [" ".join(part.split()) for part in help_text.split("\n\n") for part in (part, "")][:-1]


def _option(option: click.Option) -> list[str]:
    names = ", ".join(code(each) for each in sorted(option.opts, key=len))
    if option.is_flag:
        value, default = "", "off"
    else:
        value = _choices(option.type) or option.type.name
        default = code(option.default) if isinstance(option.default, str | int | float) else ""
    if option.required:
        default = "required"
    return [names, value, default, option.help or ""]


def _choices(kind: click.ParamType[Any]) -> str:
    return ", ".join(map(code, kind.choices)) if isinstance(kind, click.Choice) else ""
