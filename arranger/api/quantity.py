"""Kubernetes quantities as exact integers.

Upstream: ``k8s.io/apimachinery/pkg/api/resource``. ``Value()`` and ``MilliValue()`` round up, and
so do :func:`value` and :func:`milli_value`.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal, localcontext
from functools import lru_cache
from typing import Final

#: A quantity as the API serves it: mostly ``"100m"``, in hand-written YAML also ``4`` or ``0.5``.
RawQuantity = str | int | float

_FORM: Final = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?", re.ASCII
)
_SUFFIX: Final[dict[str, Decimal]] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(10) ** (3 * n) for n, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(2) ** (10 * n) for n, suffix in enumerate("KMGTPE", start=1)},
}
#: Upstream caps a quantity at the largest int64.
_MAX: Final = 2**63 - 1


class QuantityError(ValueError):
    """The text is not a quantity."""


def value(quantity: RawQuantity) -> int:
    """The quantity in whole units (bytes, pods, devices), rounded up.

    Raises:
        QuantityError: the text is not a quantity.
    """
    return quantity if type(quantity) is int else _scaled(str(quantity), 1)


def milli_value(quantity: RawQuantity) -> int:
    """The quantity in thousandths (millicores), rounded up.

    Raises:
        QuantityError: the text is not a quantity.
    """
    return quantity * 1000 if type(quantity) is int else _scaled(str(quantity), 1000)


def parse_quantity(text: str) -> Decimal:
    """The quantity as it is, in billionths where it is finer (``ParseQuantity``).

    Raises:
        QuantityError: the text is not a quantity.
    """
    with localcontext() as context:
        context.prec = 60
        amount = _read(text)
        if abs(amount) >= _MAX:
            return Decimal(_MAX).copy_sign(amount)
        return amount.quantize(_SUFFIX["n"], rounding=ROUND_CEILING).normalize()


@lru_cache(maxsize=65536)
def _scaled(text: str, scale: int) -> int:
    with localcontext() as context:
        context.prec = 60
        amount = _read(text)
        if abs(amount) > _MAX:
            return _MAX if amount > 0 else -_MAX
        whole = int((amount * scale).to_integral_value(rounding=ROUND_CEILING))
    return max(-_MAX, min(_MAX, whole))


def _read(text: str) -> Decimal:
    form = _FORM.fullmatch(text)
    if form is None:
        raise QuantityError(
            f"{text!r} is not a quantity: expected a number, with a suffix such as m or Ki"
        )
    number, suffix = form.groups()
    if suffix is None:
        return Decimal(number)
    return Decimal(number) * _SUFFIX[suffix] if suffix in _SUFFIX else Decimal(number + suffix)
