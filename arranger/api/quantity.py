"""Kubernetes quantities as exact integers.

Upstream: ``k8s.io/apimachinery/pkg/api/resource``. ``Value()`` and ``MilliValue()`` round up, away
from zero, and so do :func:`value` and :func:`milli_value`.
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal, localcontext
from functools import lru_cache
from typing import Final

from arranger.api.parsing.errors import ParseError, shown

#: A quantity as the API serves it: mostly ``"100m"``, in hand-written YAML also ``4`` or ``0.5``.
RawQuantity = str | int | float

#: Sign, digits with or without a point, and a suffix; each text can match in one way only, so that
#: a long one is refused as fast as it is read. Without digits it is nothing, as upstream: ``m``.
_FORM: Final = re.compile(
    r"(?!\Z)([+-]?)(\d*)(?:\.(\d*))?([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?", re.ASCII
)
_SUFFIX: Final[dict[str, Decimal]] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(10) ** (3 * n) for n, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(2) ** (10 * n) for n, suffix in enumerate("KMGTPE", start=1)},
}
#: Without a digit ``Ti`` is nothing upstream; these are no quantity, nor are exponents below this.
_NEED_DIGITS: Final = ("Pi", "Ei")
_FINEST: Final = -9
#: Upstream caps a quantity at the largest int64.
LARGEST: Final = 2**63 - 1
#: Digits that are looked at; whether there are any after them still counts.
_MAX_DIGITS: Final = 60
#: Powers of ten beyond which a quantity is larger than :data:`LARGEST`, or less than a billionth,
#: whatever its suffix.
_MAX_POWER: Final = 40
#: Precision of all that is worked out: the digits, times the largest suffix.
_PRECISION: Final = 100
#: So many digits, times a thousand, have 64 bits.
_MAX_PLAIN: Final = 15
#: Longer texts are read each time, so that nobody fills the memory with them.
_MAX_CACHED: Final = 32


class QuantityError(ParseError):
    """The text is not a quantity."""


def value(quantity: RawQuantity) -> int:
    """The quantity in whole units (bytes, pods, devices), rounded up.

    Raises:
        QuantityError: the text is not a quantity.
    """
    return _read_scaled(quantity, 1)


def milli_value(quantity: RawQuantity) -> int:
    """The quantity in thousandths (millicores), rounded up.

    Raises:
        QuantityError: the text is not a quantity.
    """
    return _read_scaled(quantity, 1000)


def parse_quantity(text: str) -> Decimal:
    """The quantity as it is, in billionths where it is finer (``ParseQuantity``).

    Raises:
        QuantityError: the text is not a quantity.
    """
    with localcontext() as context:
        context.prec = _PRECISION
        amount = _read(text)
        if abs(amount) >= LARGEST:
            return Decimal(LARGEST).copy_sign(amount)
        return amount.quantize(_SUFFIX["n"], rounding=ROUND_UP).normalize()


def _read_scaled(quantity: RawQuantity, scale: int) -> int:
    if type(quantity) is int:
        return _within_limits(quantity * scale)
    text = str(quantity)
    return _cached_scaled(text, scale) if len(text) <= _MAX_CACHED else _scaled(text, scale)


def _scaled(text: str, scale: int) -> int:
    if len(text) <= _MAX_PLAIN and text.isascii() and text.isdigit():
        return int(text) * scale
    with localcontext() as context:
        context.prec = _PRECISION
        amount = _read(text)
        if abs(amount) > LARGEST:
            return LARGEST if amount > 0 else -LARGEST
        return _within_limits(int((amount * scale).to_integral_value(rounding=ROUND_UP)))


_cached_scaled: Final = lru_cache(maxsize=65536)(_scaled)


def _within_limits(amount: int) -> int:
    return max(-LARGEST, min(LARGEST, amount))


def _read(text: str) -> Decimal:
    """The amount; one that is too large or too small for any use stays too large or too small."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise _refusal(text)
    sign, whole, fraction, suffix = form.groups("")
    factor = _SUFFIX.get(suffix)
    power = 0 if factor is not None or not suffix else _read_exponent(suffix[1:], text)
    if not whole and not fraction and (suffix in _NEED_DIGITS or power < _FINEST):
        raise _refusal(text)
    digits, power = (whole + fraction).lstrip("0"), power - len(fraction)
    if not digits:
        return Decimal(0)
    if (more := len(digits) - _MAX_DIGITS) > 0:
        left_out = digits[_MAX_DIGITS:].strip("0")
        digits, power = digits[:_MAX_DIGITS] + ("1" if left_out else "0"), power + more - 1
    if abs(magnitude := len(digits) + power) > _MAX_POWER:
        digits, power = "1", _MAX_POWER if magnitude > 0 else -_MAX_POWER
    return Decimal(f"{sign}{digits}e{power}") * (factor if factor is not None else 1)


def _read_exponent(text: str, quantity: str) -> int:
    """An exponent, of 64 bits as upstream's."""
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > len(str(LARGEST)) or int(digits or "0") > LARGEST:
        raise _refusal(quantity)
    return -int(digits or "0") if text.startswith("-") else int(digits or "0")


def _refusal(text: str) -> QuantityError:
    return QuantityError(
        f"{shown(text)} is not a quantity: expected a number, with a suffix such as m or Ki"
    )
