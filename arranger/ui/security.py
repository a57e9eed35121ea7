"""Who may see the pages, and what a browser may do with them."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Protocol
from urllib.parse import urlsplit

from arranger.daemon.serving.reviews import Refusal, Reviews
from arranger.ui.scope import EVERYTHING, Scope

#: What an account must be allowed to ``get`` (a non-resource URL) to see the pages in a cluster.
GUARDED_PATH: Final = "/ui"
#: All is ours and lies in files: no inline script or style, nothing from elsewhere, no frame.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_KEY: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")


class Guard(Protocol):
    """Decides by what somebody has signed in with.

    Attributes:
        asked: what the sign-in page asks for.
        hint: where people get that.
    """

    @property
    def asked(self) -> str:
        """What the sign-in page asks for."""

    @property
    def hint(self) -> str:
        """Where people get that."""

    async def refusal(self, key: str, network: str) -> Refusal | None:
        """Why the pages are not shown; None if they are."""

    async def scope(self, key: str, network: str, namespaces: Iterable[str]) -> Scope | Refusal:
        """What of these namespaces is shown; to be asked where there is no refusal."""


@dataclass(frozen=True, slots=True)
class KeyGuard:
    """On loopback: who has the address that was printed, and no other user of the machine."""

    key: str
    asked: str = "The key"
    hint: str = "It is in the address that arranger ui has printed."

    async def refusal(self, key: str, network: str) -> Refusal | None:
        """Compares in constant time."""
        if hmac.compare_digest(key.encode(), self.key.encode()):
            return None
        return Refusal(401, "this is not the key")

    async def scope(self, key: str, network: str, namespaces: Iterable[str]) -> Scope:
        """Everything: who serves the pages reads it with rights of their own."""
        return EVERYTHING


@dataclass(frozen=True, slots=True)
class TokenGuard:
    """In a cluster: whoever the API server says may ``get`` :data:`GUARDED_PATH`."""

    reviews: Reviews
    asked: str = "A bearer token"
    hint: str = (
        "Such as `kubectl create token` prints for an account that may get the"
        " non-resource URL /ui: see ClusterRole arranger-ui-user."
    )

    async def refusal(self, key: str, network: str) -> Refusal | None:
        """Asks by TokenReview and SubjectAccessReview, answers being remembered for seconds."""
        return await self.reviews.refusal("get", GUARDED_PATH, f"Bearer {key}", network)

    async def scope(self, key: str, network: str, namespaces: Iterable[str]) -> Scope | Refusal:
        """The namespaces in which they may list pods, remembered for a while; all or some."""
        found = await self.reviews.listable_namespaces(f"Bearer {key}", network, namespaces)
        return found if isinstance(found, Refusal) else Scope(found)


def is_key(text: str) -> bool:
    """Whether a text may be a key or a token: fit for a header and a cookie."""
    return _KEY.fullmatch(text) is not None


def is_loopback(address: str) -> bool:
    """Whether an address to bind is one that only this machine reaches."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def is_local_host(header: str) -> bool:
    """Whether a Host header names this machine, so that no other site's name leads here."""
    try:
        return urlsplit(f"//{header}").hostname in _LOCAL_NAMES
    except ValueError:
        return False


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that another site makes this request."""
    return headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")
