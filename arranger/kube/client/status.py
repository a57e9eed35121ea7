"""What an answer that is not a success says: ``kind: Status`` and ``Retry-After``."""

from __future__ import annotations

import msgspec

from arranger.kube.client.transport import Response


class StatusCause(msgspec.Struct):
    """``details.causes[]``."""

    reason: str = ""
    message: str = ""


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
    def too_large_version(self) -> bool:
        """Whether the server has not yet seen our resourceVersion (it was restored, or lags)."""
        causes = self.details.causes if self.details else []
        return any(cause.reason == "ResourceVersionTooLarge" for cause in causes) or (
            "Too large resource version" in self.message
        )


_decoder = msgspec.json.Decoder(Status)


def parse_status(body: bytes | msgspec.Raw, code: int = 0) -> Status:
    """The Status in ``body``, or one made of ``code`` and the text where there is none."""
    try:
        status = _decoder.decode(body)
    except msgspec.DecodeError:
        status = Status(message=bytes(body)[:300].decode(errors="replace").strip())
    if not status.code:
        status.code = code
    return status


def retry_after(response: Response) -> float:
    """Seconds the server asks us to wait; 0 when it does not say."""
    text = response.headers.get("retry-after", "")
    if text.isdecimal():
        return float(text)
    details = parse_status(response.body, response.status).details
    return float(details.retry_after_seconds) if details else 0.0
