"""On which line of a text a field stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import yaml

from arranger.files.limits import FileError

#: Characters of a text that is looked through; a line is not worth more.
_MAX_LENGTH: Final = 4 << 20


def line_of(text: str, start: int, steps: Sequence[tuple[str, str]]) -> int:
    """The line of a field of the document that begins on line ``start``.

    Args:
        text: YAML or JSON that was read with this package, so that it is not too deep.
        steps: the way to the field, each the name of a field or the index in a list.

    Raises:
        FileError: the text is too long, or JSON that is no YAML.
    """
    if len(text) > _MAX_LENGTH:
        raise FileError("too long to look for a line")
    try:
        for node in yaml.compose_all(text, Loader=yaml.CSafeLoader):
            if node is None or node.start_mark.line + 1 != start:
                continue
            for name, index in steps:
                inner = _child(node, name, index)
                if inner is None:
                    break
                node = inner
            return int(node.start_mark.line) + 1
    except (yaml.YAMLError, RecursionError) as error:
        raise FileError("not YAML") from error
    return start


def _child(node: yaml.Node, name: str, index: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return value  # type: ignore[no-any-return]
    elif isinstance(node, yaml.SequenceNode) and 0 < len(index) < 10:
        items: list[yaml.Node] = node.value
        return items[int(index)] if int(index) < len(items) else None
    return None
