"""``kubectl_complete-arranger``: what kubectl asks for when somebody presses Tab after
``kubectl arranger``.

kubectl runs it with the words so far, the one that is being typed last, and reads what cobra's
commands print: a candidate a line, its help after a tab, and in the last line what to do with them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import IntEnum

from click.shell_completion import ShellComplete

from arranger.api.printable import one_line
from arranger.cli.main import main


class Directive(IntEnum):
    """What a shell does with candidates, by cobra's numbers."""

    FILES_TOO = 0
    NO_FILES = 4
    FOLDERS = 16


def completions(words: Sequence[str]) -> tuple[list[str], Directive]:
    """The candidates for the last word, with their help, and what to do with them."""
    *before, typed = words or [""]
    found = ShellComplete(main, {}, "kubectl arranger", "").get_completions(list(before), typed)
    lines = []
    directive = Directive.NO_FILES
    for each in found:
        if each.type == "plain":
            lines.append(f"{each.value}\t{one_line(each.help)}" if each.help else str(each.value))
        else:
            directive = Directive.FOLDERS if each.type == "dir" else Directive.FILES_TOO
    return lines, directive


def complete() -> None:
    """The program."""
    lines, directive = completions(sys.argv[1:])
    for line in lines:
        print(line)
    print(f":{directive.value}")
