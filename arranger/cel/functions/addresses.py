"""Addresses: IP, CIDR and URL.

Upstream: ``k8s.io/apiserver/pkg/cel/library/{ip,cidr,urls}.go``, and Go's ``net/netip`` and
``net/url``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from arranger.cel.errors import CelError
from arranger.cel.functions.table import Table
from arranger.cel.values import CelMap, register_kind

_LONGEST: Final = 200
_NO_CIDR: Final = "network address parse error during conversion from string"
_BITS: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.ASCII | re.DOTALL)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})", re.ASCII)
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_HOST: Final = re.compile(
    r"(?:%[89a-fA-F][0-9a-fA-F]|[^%<>\"\s\x00-\x7f]|[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]])*"
)
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ip:
    """An IP address."""

    address: IPv4Address | IPv6Address

    def __len__(self) -> int:
        return self.address.max_prefixlen // 8


@dataclass(frozen=True, slots=True)
class Cidr:
    """An IP address and how many of its bits name a network."""

    address: IPv4Address | IPv6Address
    bits: int

    def __len__(self) -> int:
        return -(-self.bits // 8)

    @property
    def masked(self) -> Cidr:
        """With the other bits cleared."""
        return Cidr(ip_network((self.address, self.bits), strict=False).network_address, self.bits)

    def has(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether an address is in the network."""
        return address.version == self.address.version and address in ip_network(
            (self.address, self.bits), strict=False
        )


@dataclass(frozen=True, slots=True)
class Url:
    """A URL, read as Go reads it; equal to others of the same text."""

    text: str
    scheme: str
    host: str
    path: str
    query: str


register_kind(Ip, "net.IP")
register_kind(Cidr, "net.CIDR")
register_kind(Url, "kubernetes.URL")


def _read_address(text: str) -> IPv4Address | IPv6Address | str:
    """An address, or what is wrong with it."""
    shown = text[:_LONGEST]
    if "%" in text:
        return f'IP address "{shown}" with zone value is not allowed'
    try:
        found = ip_address(text)
    except ValueError:
        why = f'ParseAddr("{shown}"): unable to parse IP'
        return f'IP Address "{shown}" parse error during conversion from string: {why}'
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return f'IPv4-mapped IPv6 address "{shown}" is not allowed'
    return found


def ip(text: str) -> Any:
    """An IP address, or an error."""
    found = _read_address(text)
    return CelError(found) if isinstance(found, str) else Ip(found)


def cidr(text: str) -> Any:
    """A CIDR, or an error."""
    address, slash, bits = text.rpartition("/")
    found = _read_address(address) if slash and "%" not in address else "no '/'"
    if isinstance(found, str) or not _BITS.fullmatch(bits) or int(bits) > found.max_prefixlen:
        lacks = "bad bits after slash" if slash else "no '/'"
        why = f'netip.ParsePrefix("{text[:_LONGEST]}"): {lacks}'
        return CelError(": ".join([*[_NO_CIDR] * 2, why]))
    return Cidr(found, int(bits))


def _contains_ip(of: Cidr, other: Ip | str) -> Any:
    inner = ip(other) if isinstance(other, str) else other
    return of.has(inner.address) if isinstance(inner, Ip) else CelError("no such overload")


def _contains_cidr(of: Cidr, other: Cidr | str) -> Any:
    inner = cidr(other) if isinstance(other, str) else other
    if not isinstance(inner, Cidr):
        return inner
    return of.bits <= inner.bits and of.has(inner.address)


def _is_canonical(text: str) -> Any:
    found = ip(text)
    return found if isinstance(found, CelError) else str(found.address) == text


def _is_global(of: Ip) -> bool:
    address = of.address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or _is_link_local(of)
        or (int(address) == 2**32 - 1 and address.version == 4)
    )


def _is_link_local(of: Ip) -> bool:
    return of.address in _LINK_LOCAL[of.address.version]


_LINK_LOCAL: Final = {4: ip_network("169.254.0.0/16"), 6: ip_network("fe80::/10")}
_LINK_LOCAL_MULTICAST: Final = 2


def _is_link_local_multicast(of: Ip) -> bool:
    number, version = int(of.address), of.address.version
    if version == 4:
        return number >> 8 == 0xE00000
    return number >> 120 == 0xFF and number >> 112 & 0x0F == _LINK_LOCAL_MULTICAST


# --- URLs ------------------------------------------------------------------------------------


def _wrong(text: str, why: str) -> CelError:
    return CelError(
        f'URL parse error during conversion from string: parse "{text[:_LONGEST]}": {why}'
    )


def url(text: str) -> Any:
    """A URL with a scheme or an absolute path, or an error."""
    if any(sign < " " or sign == "\x7f" for sign in text):
        return _wrong(text, "net/url: invalid control character in URL")
    if not text:
        return _wrong(text, "empty url")
    if text.startswith(":"):
        return _wrong(text, "missing protocol scheme")
    bare = text.partition("#")[0]
    found = _SCHEME.fullmatch(bare)
    scheme, rest = (found[1].lower(), found[2]) if found else ("", bare)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme and text != "*":
            return _wrong(text, "invalid URI for request")
        return Url(text, scheme, "", "*" if text == "*" else "", query)
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, at, host = authority.rpartition("@")
        if (at and not _USER.fullmatch(user)) or not _is_host(host):
            return _wrong(text, "invalid host")
    if _BAD_ESCAPE.search(rest):
        return _wrong(text, "invalid URL escape")
    return Url(text, scheme, unquote(host), _escaped(rest), query)


def _is_host(host: str) -> bool:
    if host.startswith("["):
        inner, bracket, port = host.rpartition("]")
        return bool(bracket and inner) and _PORT.fullmatch(port) is not None
    name, colon, port = host.rpartition(":")
    if colon and not _PORT.fullmatch(colon + port):
        return False
    return _HOST.fullmatch(name if colon else host) is not None and " " not in host


#: What a path may say as it is.
_PLAIN: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~!$&'()*+,;=:@/[]%"
)


def _escaped(path: str) -> str:
    if all(sign in _PLAIN for sign in path):
        return path
    return "".join(
        sign if sign in _PLAIN else "".join(f"%{byte:02X}" for byte in sign.encode())
        for sign in path
    )


def _hostname(of: Url) -> str:
    if of.host.startswith("["):
        return of.host[1:].partition("]")[0]
    name, colon, _ = of.host.partition(":")
    return name if colon else of.host


def _port(of: Url) -> str:
    rest = of.host.rpartition("]")[2]
    return rest.rpartition(":")[2] if ":" in rest else ""


def _query(of: Url) -> CelMap:
    found: dict[str, list[str]] = {}
    parts = [part for part in of.query.split("&") if part and not _BAD_ESCAPE.search(part)]
    for part in parts:
        if ";" not in part:
            for key, value in parse_qsl(part, keep_blank_values=True):
                found.setdefault(key, []).append(value)
    return CelMap({key: (key, values) for key, values in found.items()})


def _is(read: Callable[[str], Any]) -> Callable[[str], bool]:
    return lambda text: not isinstance(read(text), CelError)


def _string(of: Any) -> str:
    return str(of.address) if isinstance(of, Ip) else f"{of.address}/{of.bits}"


_TEXT, _IP, _CIDR, _URL = ("string",), ("net.IP",), ("net.CIDR",), ("kubernetes.URL",)
TABLE: Final[Table] = {
    "ip": [(_TEXT, ip), (_CIDR, lambda of: Ip(of.address))],
    "isIP": [(_TEXT, _is(ip))],
    "ip.isCanonical": [(_TEXT, _is_canonical)],
    "family": [(_IP, lambda of: of.address.version)],
    "isUnspecified": [(_IP, lambda of: of.address.is_unspecified)],
    "isLoopback": [(_IP, lambda of: of.address.is_loopback)],
    "isLinkLocalMulticast": [(_IP, _is_link_local_multicast)],
    "isLinkLocalUnicast": [(_IP, _is_link_local)],
    "isGlobalUnicast": [(_IP, _is_global)],
    "string": [(_IP, _string), (_CIDR, _string)],
    "cidr": [(_TEXT, cidr)],
    "isCIDR": [(_TEXT, _is(cidr))],
    "containsIP": [(_CIDR + _TEXT, _contains_ip), (_CIDR + _IP, _contains_ip)],
    "containsCIDR": [(_CIDR + _TEXT, _contains_cidr), (_CIDR + _CIDR, _contains_cidr)],
    "prefixLength": [(_CIDR, lambda of: of.bits)],
    "masked": [(_CIDR, lambda of: of.masked)],
    "url": [(_TEXT, url)],
    "isURL": [(_TEXT, _is(url))],
    "getScheme": [(_URL, lambda of: of.scheme)],
    "getHost": [(_URL, lambda of: of.host)],
    "getHostname": [(_URL, _hostname)],
    "getPort": [(_URL, _port)],
    "getEscapedPath": [(_URL, lambda of: of.path)],
    "getQuery": [(_URL, _query)],
}
