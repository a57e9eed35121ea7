"""Quantities beside Kubernetes' own reader: every short text, and random longer ones.

Where upstream's numbers wrap or are cut (``9E`` in thousandths, exponents beyond all), ours are
capped; what is below zero, which nothing may ask for, it rounds in several ways. Of these only
whether the text is a quantity is compared.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from arranger.api.quantity import QuantityError, milli_value, value
from tests.differential.go_program import GoProgram

pytestmark = pytest.mark.controlplane

_SIGNS: Final = "019.+-eEmkKi n"
_PARTS: Final = (
    *("", "0", "1", "25", "007", "1000", "999999999999", "123456789012345678"),
    *(".", "+", "-", "m", "u", "n", "k", "M", "G", "T", "P", "Ki"),
    *("Mi", "Gi", "Ti", "Pi", "Ei", "mi", " ", "_", "x", "٣"),
)
#: At the end alone: upstream takes seconds for an exponent of millions.
_EXPONENTS: Final = (
    "",
    "",
    "e",
    "E",
    "e3",
    "E-3",
    "e+2",
    "e-9",
    "e-10",
    "e-12",
    "e99",
    "e-9999",
    "E+999",
)
#: An amount of which upstream's thousandths fit into 64 bits.
_FITS: Final = 2**62 // 1000


class QuantityJudge(GoProgram):
    """The program that reads quantities."""

    name = "quantityjudge"

    def amounts(self, texts: list[str]) -> list[tuple[int, int] | None]:
        """Of each text the amount, whole and in thousandths; None if it is no quantity."""
        read = json.loads(self.answer(texts))
        return [None if each is None else (int(each[0]), int(each[1])) for each in read]


@pytest.fixture(scope="module")
def judge() -> Iterator[QuantityJudge]:
    if not QuantityJudge.path().exists():
        pytest.skip("the judge is not built: run `make quantityjudge` (needs Go)")
    with QuantityJudge() as running:
        yield running


def _ours(text: str) -> tuple[int, int] | None:
    try:
        return value(text), milli_value(text)
    except QuantityError:
        return None


def _is_modest(text: str) -> bool:
    """Whether upstream neither wraps nor cuts it, nor is it below zero."""
    ours = _ours(text)
    return ours is None or all(0 <= n < _FITS for n in ours)


def _assert_read_alike(judge: QuantityJudge, texts: Iterable[str]) -> None:
    asked = list(texts)
    for text, theirs in zip(asked, judge.amounts(asked), strict=True):
        ours = _ours(text)
        assert (ours is None) == (theirs is None), f"{text!r}: {theirs}, ours {ours}"
        if _is_modest(text):
            assert ours == theirs, repr(text)


@pytest.mark.parametrize("length", range(5))
def test_short_texts_are_read_as_upstream_reads_them(judge: QuantityJudge, length: int) -> None:
    _assert_read_alike(judge, map("".join, itertools.product(_SIGNS, repeat=length)))


def test_longer_texts_are_read_as_upstream_reads_them(judge: QuantityJudge) -> None:
    rng = random.Random(1)
    parts = (rng.choices(_PARTS, k=rng.randrange(5)) for _ in range(20_000))
    _assert_read_alike(judge, ("".join(each) + rng.choice(_EXPONENTS) for each in parts))
