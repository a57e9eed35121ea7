"""What an answer says: the class of its code, ``kind: Status`` and ``Retry-After``."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum, auto
from typing import Final

import msgspec

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.api.parsing.protobuf import MAGIC, read_message, unwrap
from arranger.api.parsing.protobuf_messages import Messages
from arranger.api.parsing.scalars import parse_int
from arranger.kube.client.transport import Response


class AnswerClass(Enum):
    """What a status code says about a request, as far as clients act on it."""

    SUCCESS = auto()
    #: 401: not executed, for want of a valid credential.
    UNAUTHORIZED = auto()
    #: 429: not executed, because there are too many requests.
    THROTTLED = auto()
    NOT_FOUND = auto()
    #: 409: somebody else was faster, or it exists, or it is another one of that name.
    CONFLICT = auto()
    #: 422: the object would not be valid.
    INVALID = auto()
    #: Any other refusal: the same request will be refused again.
    REJECTED = auto()
    #: 5xx: the server may have executed it.
    SERVER_ERROR = auto()
    #: 0, which stands for none.
    NO_ANSWER = auto()

    @property
    def is_overload(self) -> bool:
        """Whether fewer requests at once would help."""
        return self in (AnswerClass.THROTTLED, AnswerClass.SERVER_ERROR)


_CLASSES = {
    0: AnswerClass.NO_ANSWER,
    401: AnswerClass.UNAUTHORIZED,
    404: AnswerClass.NOT_FOUND,
    409: AnswerClass.CONFLICT,
    422: AnswerClass.INVALID,
    429: AnswerClass.THROTTLED,
}


def classify(code: int) -> AnswerClass:
    """The class of an HTTP status code; 0 stands for no answer."""
    if 200 <= code < 300:
        return AnswerClass.SUCCESS
    if code >= 500:
        return AnswerClass.SERVER_ERROR
    return _CLASSES.get(code, AnswerClass.REJECTED)


#: Seconds that we wait at most because a server says so.
MAX_RETRY_AFTER: Final = 3600


class StatusCause(msgspec.Struct):
    """``details.causes[]``."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, rename="camel"):
    """``details`` of a Status."""

    retry_after_seconds: int = 0
    causes: list[StatusCause] = []


class Status(msgspec.Struct):
    """A Kubernetes Status, as error body or as the object of an ERROR watch event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def expired(self) -> bool:
        """Whether the resourceVersion or the continue token is gone (410)."""
        return self.code == 410 or self.reason in ("Expired", "Gone")

    @property
    def retry_after(self) -> float:
        """Seconds that the server asks us to wait; 0 when it does not say."""
        seconds = self.details.retry_after_seconds if self.details else 0
        return float(max(0, min(seconds, MAX_RETRY_AFTER)))

    @property
    def names_another_uid(self) -> bool:
        """Whether the object of the name is another one than was meant (422 of a patch, 409 of a
        delete: ``rest.BeforeDelete``, ``storage.Preconditions``)."""
        causes = self.details.causes if self.details else []
        if any(cause.field == "metadata.uid" for cause in causes):
            return True
        return "UID in" in self.message and "precondition" in self.message

    @property
    def too_large_version(self) -> bool:
        """Whether the server has not yet seen our resourceVersion (it was restored, or lags)."""
        causes = self.details.causes if self.details else []
        return any(cause.reason == "ResourceVersionTooLarge" for cause in causes) or (
            "Too large resource version" in self.message
        )


#: ``k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto``.
_MESSAGES: Final = Messages(
    {
        Status: {"code": 6, "reason": 4, "message": 3, "details": 5},
        StatusDetails: {"retry_after_seconds": 5, "causes": 4},
        StatusCause: {"reason": 1, "message": 2, "field": 3},
    }
)


def parse_status(body: bytes | msgspec.Raw, code: int = 0) -> Status:
    """The Status in ``body``, or one made of ``code`` and the text where there is none."""
    try:
        if (text := bytes(body)).startswith(MAGIC):
            status = read_message(unwrap(text), _MESSAGES.of(Status))
        else:
            status = decode_object(body, Status, cut=True)
    except ParseError:
        status = Status(message=bytes(body)[:300].decode(errors="replace").strip())
    if not status.code:
        status.code = code
    return status


def retry_after(response: Response) -> float:
    """Seconds the server asks us to wait; 0 when it does not say."""
    text = response.headers.get("retry-after", "")
    with suppress(ParseError):
        return min(parse_int(text), MAX_RETRY_AFTER)
    return parse_status(response.body, response.status).retry_after
