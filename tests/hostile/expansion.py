"""JSON that Python's objects cannot hold, written into the server's answers.

The API server passes on what it was given as bytes: lists thousands of levels deep, numbers of a
million digits. An object in the store has a mark instead, a string made by :func:`deep` and its
like, and :class:`Expansions` writes what it stands for into whatever the server sends.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from arranger.embedded.server import ApiResponse
from arranger.embedded.transport.hook import Passage
from arranger.kube.client.transport import Request

T = TypeVar("T")

_MARK: Final = re.compile(rb'"@@(\w+):(\d+)@@"')
_WRITTEN: Final[dict[bytes, Callable[[int], bytes]]] = {
    b"deep_list": lambda n: b"[" * n + b"]" * n,
    b"deep_object": lambda n: b'{"a":' * n + b"{}" + b"}" * n,
    b"digits": lambda n: b"9" * n,
    b"exponent": lambda n: b"1e%d" % n,
    b"text": lambda n: b'"' + b"x" * n + b'"',
    b"digit_text": lambda n: b'"' + b"9" * n + b'"',
}


def deep_list(levels: int) -> str:
    """``[[[…]]]``."""
    return f"@@deep_list:{levels}@@"


def deep_object(levels: int) -> str:
    """``{"a":{"a":…}}``."""
    return f"@@deep_object:{levels}@@"


def digits(count: int) -> str:
    """A number of so many nines."""
    return f"@@digits:{count}@@"


def exponent(power: int) -> str:
    """The number ``1e<power>``."""
    return f"@@exponent:{power}@@"


def long_text(length: int) -> str:
    """A string of so many letters."""
    return f"@@text:{length}@@"


def digit_text(length: int) -> str:
    """A string of so many nines."""
    return f"@@digit_text:{length}@@"


def expanded(encoded: bytes) -> bytes:
    """JSON with what its marks stand for."""
    if b'"@@' not in encoded:
        return encoded
    return _MARK.sub(lambda mark: _WRITTEN[mark[1]](int(mark[2])), encoded)


class Expansions:
    """A hook of the embedded server that expands marks in all it sends.

    Args:
        heard: told of every request.
    """

    def __init__(self, heard: Callable[[Request], None] = lambda _: None) -> None:
        self._heard = heard

    async def around_request(
        self, request: Request, user: str, respond: Callable[[], T]
    ) -> T | ApiResponse:
        self._heard(request)
        try:
            answer = respond()
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            # It stumbles over what it would have refused, and refuses what is made of it.
            code = 500 if request.method == "GET" else 422
            return ApiResponse(code, {"kind": "Status", "code": code, "message": repr(error)[:200]})
        if not isinstance(answer, ApiResponse) or isinstance(answer.body, str):
            return answer
        text = expanded(msgspec.json.encode(answer.body)).decode()
        return ApiResponse(
            answer.status, text, {"content-type": "application/json", **answer.headers}
        )

    def passage(self, request: Request, user: str, line: bytes) -> Passage | None:
        text = expanded(line)
        return None if text is line else Passage((text + b"\n",))
