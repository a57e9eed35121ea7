"""YAML in a file: built from the parser's events, so that no depth of it needs a stack of ours.

libyaml's own loader calls itself for each level and ends the process at some depth; its parser does
not. Numbers, truth values and merge keys are those of PyYAML's safe loader. A date stays the text
that it is, as JSON would have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from arranger.files.limits import LIMITS, TOO_DEEP, FileError, Limits

_TAG: Final = "tag:yaml.org,2002:"
#: A text longer than this is no number.
_MAX_PLAIN: Final = 1 << 20


class _Word:
    """A value that no file can have."""


_NONE: Final = _Word()
#: The key ``<<``.
_MERGE: Final = _Word()


def documents(text: str, limits: Limits = LIMITS) -> Iterator[tuple[int, Any]]:
    """(line, value) of every document; what is empty is None.

    Raises:
        FileError: it is not YAML, or too large, too deep, or blown up by aliases.
    """
    loader = None
    try:
        loader = yaml.CSafeLoader(text)
        reader = _Reader(loader, limits)
        while True:
            event = reader.next()
            if isinstance(event, yaml.StreamEndEvent):
                return
            if isinstance(event, yaml.DocumentStartEvent):
                yield reader.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ": ".join(filter(None, (error.context, error.problem)))
        where = (mark.line + 1, mark.column + 1) if mark is not None else (None, None)
        raise FileError(f"not YAML: {' '.join(said.split())}", *where) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise FileError(f"not YAML: {' '.join(str(error).split())}") from None
    finally:
        if loader is not None:
            loader.dispose()


def one_document(text: str, limits: Limits = LIMITS) -> Any:
    """The value of the only document; None without any.

    Raises:
        FileError: there are several, or as :func:`documents` raises.
    """
    found = None
    for n, (line, value) in enumerate(documents(text, limits)):
        if n:
            raise FileError("more than one document", line)
        found = value
    return found


@dataclass(slots=True)
class _Built:
    """A value, how many elements it stands for, and how deep it is."""

    value: Any
    weight: int = 1
    height: int = 0


@dataclass(slots=True)
class _Open:
    """A list or a map that has not ended."""

    content: Any
    anchor: str | None
    weight: int = 1
    height: int = 0
    key: Any = _NONE
    merged: list[dict[Any, Any]] = field(default_factory=list)


class _Reader:
    """Builds documents from events."""

    def __init__(self, loader: Any, limits: Limits) -> None:
        self._loader, self._limits = loader, limits
        self._elements = self._repeated = self._documents = 0
        self._anchors: dict[str, _Built | None] = {}
        self._open: list[_Open] = []
        self._line = 0

    def next(self) -> Any:
        """The next event."""
        event = self._loader.get_event()
        self._line = event.start_mark.line + 1
        return event

    def document(self) -> tuple[int, Any]:
        """The document whose start was the last event, and the line of its content."""
        self._documents += 1
        if self._documents > self._limits.documents:
            raise self._error(f"more than {self._limits.documents} documents")
        self._anchors.clear()
        line: int | None = None
        while True:
            event = self.next()
            line = line or self._line
            built = self._built(event)
            if built is None:
                continue
            if not self._open:
                return line, _text(built.value)
            self._put(built)

    def _built(self, event: Any) -> _Built | None:
        """What the event completes; None for the beginning of a list or a map."""
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor or "")
        self._elements += 1
        if self._elements > self._limits.elements:
            raise self._error(f"more than {self._limits.elements} elements")
        if isinstance(event, yaml.ScalarEvent):
            return self._anchored(event.anchor, _Built(self._scalar(event)))
        if isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            is_list = isinstance(event, yaml.SequenceStartEvent)
            if event.tag not in (None, "!", f"{_TAG}seq" if is_list else f"{_TAG}map"):
                raise self._error(f"not YAML that is read here: the tag {event.tag}")
            if event.anchor is not None:
                self._anchors[event.anchor] = None
            self._open.append(_Open([] if is_list else {}, event.anchor))
            self._check_depth(0)
            return None
        return self._close()

    def _close(self) -> _Built:
        ended = self._open.pop()
        content = ended.content
        if ended.merged:
            content = {}
            for each in reversed(ended.merged):
                self._repeat(len(each))
                content.update(each)
            content.update(ended.content)
        return self._anchored(ended.anchor, _Built(content, ended.weight, ended.height + 1))

    def _anchored(self, anchor: str | None, built: _Built) -> _Built:
        if anchor is not None:
            self._anchors[anchor] = built
        return built

    def _alias(self, anchor: str) -> _Built:
        if anchor not in self._anchors:
            raise self._error(f"not YAML: the alias {anchor} stands for nothing")
        built = self._anchors[anchor]
        if built is None:
            raise self._error(f"{TOO_DEEP}: {anchor} contains itself")
        self._repeat(built.weight)
        self._check_depth(built.height)
        return built

    def _repeat(self, elements: int) -> None:
        self._repeated += elements
        if self._repeated > self._limits.repeated:
            raise self._error(f"aliases stand for more than {self._limits.repeated} elements")

    def _check_depth(self, more: int) -> None:
        if len(self._open) + more > self._limits.depth:
            raise self._error(TOO_DEEP)

    def _put(self, built: _Built) -> None:
        """Into the list or the map that is open."""
        top, value = self._open[-1], built.value
        top.weight += built.weight
        top.height = max(top.height, built.height)
        if isinstance(top.content, list):
            top.content.append(_text(value))
        elif isinstance(top.key, _Word) and top.key is _NONE:
            if isinstance(value, list | dict):
                raise self._error("not YAML that is read here: a key is no scalar")
            top.key = value
        else:
            if top.key is _MERGE:
                top.merged += self._merged(value)
            else:
                top.content[top.key] = _text(value)
            top.key = _NONE

    def _merged(self, value: Any) -> list[dict[Any, Any]]:
        maps = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in maps):
            raise self._error("not YAML: what is merged is no map")
        return maps

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        tag: str | None = event.tag
        if tag is None or tag == "!":
            plain = event.implicit[0] and len(text) <= _MAX_PLAIN
            resolved = self._loader.resolve(yaml.ScalarNode, text, (True, False)) if plain else None
            tag = resolved or f"{_TAG}str"
        kind = tag.removeprefix(_TAG)
        try:
            match kind:
                case "str" | "timestamp" | "value":
                    return text
                case "null":
                    return None
                case "bool":
                    return self._loader.bool_values[text.lower()]
                case "merge":
                    return _MERGE
                case "int" | "float" if len(text) > self._limits.digits:
                    raise self._error("a number with too many digits")
                case "int":
                    return self._loader.construct_yaml_int(yaml.ScalarNode(tag, text))
                case "float":
                    return self._loader.construct_yaml_float(yaml.ScalarNode(tag, text))
        except (KeyError, IndexError, ValueError, OverflowError) as error:
            if isinstance(error, FileError):
                raise
            raise self._error(f"not YAML: this is no {kind}") from None
        raise self._error(f"not YAML that is read here: the tag {tag}")

    def _error(self, reason: str) -> FileError:
        return FileError(reason, self._line)


def _text(value: Any) -> Any:
    """What stands as a value; ``<<`` is a text there."""
    return "<<" if value is _MERGE else value
