"""Errors, answered as the Status objects of the real API server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from arranger.embedded import Object

#: What code meets that reads an object of a wrong shape where the server has not looked.
MALFORMED: Final = (
    *(ArithmeticError, AttributeError, KeyError, IndexError, TypeError, ValueError),
    RecursionError,
)


@dataclass(eq=False)
class ApiError(Exception):
    """A request is refused.

    Attributes:
        code: the HTTP status.
        reason: the machine-readable reason; "" for the rare errors that have none.
        message: for people.
        details: ``name``, ``kind``, ``causes`` and the like.
        headers: of the answer, ``retry-after`` for one; their names are in lower case.
    """

    code: int
    reason: str
    message: str
    _: KW_ONLY
    details: Object = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def status(self) -> Object:
        """The body of the answer."""
        optional = {"reason": self.reason, "details": self.details}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
            **{name: value for name, value in optional.items() if value},
        }


def not_found(plural: str, name: str) -> ApiError:
    """There is no such object."""
    details = {"name": name, "kind": plural}
    return ApiError(404, "NotFound", f'{plural} "{name}" not found', details=details)


def no_such_path() -> ApiError:
    """Nothing is served there."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(plural: str, group: str, name: str) -> ApiError:
    """The name is taken."""
    details = {"name": name, "kind": plural, **({"group": group} if group else {})}
    what = f"{plural}.{group}" if group else plural
    return ApiError(409, "AlreadyExists", f'{what} "{name}" already exists', details=details)


def conflict(plural: str, name: str, why: str) -> ApiError:
    """The object is not what the request assumes."""
    message = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return ApiError(409, "Conflict", message, details={"name": name, "kind": plural})


def modified(plural: str, name: str) -> ApiError:
    """The object has another version than the request is based on."""
    why = "the object has been modified; please apply your changes to the latest version"
    return conflict(plural, name, f"{why} and try again")


def bad_request(message: str) -> ApiError:
    """The request is malformed."""
    return ApiError(400, "BadRequest", message)


def unsupported_media_type(media: str) -> ApiError:
    """The body has a format that is not taken."""
    why = f"the body of the request was in an unknown format - {media}"
    return ApiError(415, "UnsupportedMediaType", why)


def invalid_version(text: str) -> ApiError:
    """A ``resourceVersion`` is no number."""
    return ApiError(500, "", f'strconv.ParseUint: parsing "{text}": invalid syntax')


def invalid_list_option(why: str) -> ApiError:
    """The ``resourceVersionMatch`` of a list or watch is not allowed."""
    return invalid("ListOptions", "meta.k8s.io", "", [("", "resourceVersionMatch", why)])


def expired(message: str) -> ApiError:
    """The version asked for is gone."""
    return ApiError(410, "Expired", message)


def invalid(kind: str, group: str, name: str, causes: Sequence[tuple[str, str, str]]) -> ApiError:
    """The object breaks rules; each cause is (reason, field, message)."""
    listed = [{"reason": r, "message": m, "field": f} for r, f, m in causes]
    texts = [f"{f}: {m}" for _, f, m in causes]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    full = f"{kind}.{group}" if group else kind
    details = {"name": name, "group": group, "kind": kind, "causes": listed}
    return ApiError(422, "Invalid", f'{full} "{name}" is invalid: {joined}', details=details)
