"""A bug that somebody could write any day, as a replacement in one file of the source."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class StaleBugError(Exception):
    """The source has changed: the text that a bug replaces is not there, or not once."""


@dataclass(frozen=True, slots=True)
class SeededBug:
    """One bug.

    Attributes:
        key: what it is called on the command line.
        name: what is wrong with it, as a sentence.
        file: where it is, from the root of the repository.
        before: the text as it is, which occurs once in the file.
        after: the text that is put in its place.
        tests: the folders and files of tests that are to notice it.
        only: the features of the swarm's worlds in which it is looked for; those that each seed
            has if there are none.
    """

    key: str
    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    only: tuple[str, ...] = ()

    def put_into(self, root: Path) -> str:
        """Write the bug into a copy of the repository; returns the file as it was.

        Raises:
            StaleBugError: the text is not there, or not once.
        """
        path = root / self.file
        before, changed = path.read_text(), self.changed(root)
        path.write_text(changed)
        return before

    def changed(self, root: Path) -> str:
        """The file with the bug in it.

        Raises:
            StaleBugError: the text is not there, or not once.
        """
        text = (root / self.file).read_text()
        found = text.count(self.before)
        if found != 1:
            raise StaleBugError(
                f"{self.key}: its text is {found} times in {self.file}. Write down the same "
                "mistake as it would be made in the source of today."
            )
        return text.replace(self.before, self.after)

    def is_run_at_import(self, root: Path) -> bool:
        """Whether it is in no function, so that it is run before anything happens."""
        tree, lines = ast.parse((root / self.file).read_text()), self.lines(root)
        functions = (each for each in ast.walk(tree) if isinstance(each, _FUNCTIONS))
        return not any(each.lineno <= lines[0] <= (each.end_lineno or 0) for each in functions)

    def lines(self, root: Path) -> range:
        """The lines that it changes, from the first to the last that differs."""
        text = (root / self.file).read_text()
        before, after = self.before.splitlines(), self.after.splitlines()
        same = [a == b for a, b in zip(before, after, strict=False)]
        skipped = same.index(False) if False in same else len(same)
        ends = [a == b for a, b in zip(reversed(before[skipped:]), reversed(after), strict=False)]
        kept = ends.index(False) if False in ends else len(ends)
        first = text[: text.index(self.before)].count("\n") + 1
        # Where something is only put in, it is between two lines.
        begin, end = first + skipped, first + len(before) - kept
        return range(begin, end) if begin < end else range(begin - 1, begin + 1)
