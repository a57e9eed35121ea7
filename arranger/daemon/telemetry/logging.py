"""Logging: JSON lines in a cluster, colours on a terminal; one pipeline for all libraries."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from typing import Final

import structlog
from structlog.typing import EventDict

from arranger.api.printable import printable_lines
from arranger.daemon.token_bucket import TokenBucket


def configure_logging(*, level: str = "INFO", terminal: bool | None = None) -> None:
    """Send structlog and the standard library's logging to stderr in one format.

    ``terminal`` forces the format; by default a TTY gets the readable one.
    """
    readable = sys.stderr.isatty() if terminal is None else terminal
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[structlog.types.Processor] = (
        [
            structlog.processors.format_exc_info,
            _shown_as_text,
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ]
        if readable
        else [
            structlog.processors.format_exc_info,
            _what_happened_first,
            structlog.processors.JSONRenderer(),
        ]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_Bounded())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # What it reports here it raises as well, and that is told once and with what to do.
    logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


#: Different messages that are counted at a time.
_MAX_BUCKETS: Final = 1000


class _Bounded(logging.Filter):
    """Lets no more through of one message than a bucket allows, and counts the rest in the next.

    Many messages are about one object each, and of objects there may be thousands that are wrong.
    """

    def __init__(self) -> None:
        super().__init__()
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self._left_out: Counter[tuple[str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it may be written; asked before it is put into words."""
        # structlog hands over the whole line as a dictionary.
        line = record.msg if isinstance(record.msg, dict) else None
        key = record.name, str(line["event"] if line else record.msg)
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= _MAX_BUCKETS:
                self._buckets.clear()  # of messages put into words before they come here
            bucket = self._buckets[key] = TokenBucket()
        if not bucket.take(record.created):
            self._left_out[key] += 1
            return False
        if more := self._left_out.pop(key, 0):
            if line is not None:
                line["left_out"] = more
            else:
                record.msg = f"{record.msg} (left out: {more} of this kind)"
        return True


def _shown_as_text(_: object, __: str, line: EventDict) -> EventDict:
    """What others said, without control codes; a terminal would obey them."""
    return {name: _as_text(value) for name, value in line.items()}


def _as_text(value: object) -> object:
    """Numbers and truth values as they are, all else as a text that can be shown."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return printable_lines(value if isinstance(value, str) else str(value))


def _what_happened_first(_: object, __: str, line: EventDict) -> EventDict:
    """When and what, before all that belongs to it."""
    first = ("timestamp", "level", "event")
    return {**{name: line[name] for name in first if name in line}, **line}
