"""What a name, a message or a label may hold that a terminal or rich would obey."""

from __future__ import annotations

import re

from hypothesis import strategies as st

#: Each of them did harm somewhere.
HOSTILE = [
    "\x1b[2J\x1b[1;1H",
    "\x1b]0;owned\x07",
    "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "\x9b31m",
    "\r\x1b[K",
    "a\rb",
    "a\nb",
    "a\tb",
    "\u202eevil\u202c",
    "\u2066x\u2069",
    "\u200b\ufeff",
    "\u2028",
    "\x00",
    "\x7f\x08\x08",
    "[/x]",
    "[bold]b[/bold]",
    "[link=http://evil]x[/link]",
    "[[/]]",
    "\\[red]",
    ":skull:",
    "{evil}",
    "%s%n",
    "🦄\u0301",
]
hostile_texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=12),
    st.lists(st.sampled_from(HOSTILE), min_size=2, max_size=3).map("".join),
)
#: rich's own colours.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def harm(output: str) -> str:
    """What of an output is more than text; rich's own colours are none."""
    plain = without_colours(output)
    return "".join(sorted({each for each in plain if each != "\n" and not each.isprintable()}))


def without_colours(output: str) -> str:
    """The output without rich's own colours."""
    return _STYLE.sub("", output)
