"""Quantities as apimachinery reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranger.api.quantity import QuantityError, RawQuantity, milli_value, value

CASES: dict[str, tuple[RawQuantity, int, int]] = {
    "a plain number": ("4", 4, 4000),
    "a number as hand-written YAML has it": (4, 4, 4000),
    "a fraction in YAML": (0.5, 1, 500),
    "millis round up to a whole": ("100m", 1, 100),
    "micros round up to a milli": ("1u", 1, 1),
    "nanos round up to a milli": ("1n", 1, 1),
    "nothing stays nothing": ("0", 0, 0),
    "zero nanos": ("0n", 0, 0),
    "decimal kilo": ("2k", 2000, 2_000_000),
    "decimal mega": ("200M", 200_000_000, 200_000_000_000),
    "binary kilo": ("1Ki", 1024, 1_024_000),
    "binary giga": ("16Gi", 16 * 2**30, 16 * 2**30 * 1000),
    "a fraction of a binary giga": ("1.5Gi", 3 * 2**29, 3 * 2**29 * 1000),
    "an exponent": ("1e3", 1000, 1_000_000),
    "a negative exponent": ("1500e-3", 2, 1500),
    "E is exa without digits": ("1E", 10**18, 2**63 - 1),
    "E is an exponent with digits": ("1E2", 100, 100_000),
    "a leading point": (".5", 1, 500),
    "a trailing point": ("5.", 5, 5000),
    "a sign": ("+2", 2, 2000),
    "below zero rounds towards zero": ("-100m", 0, -100),
    "too large is the largest there is": ("100Ei", 2**63 - 1, 2**63 - 1),
    "milli overflows before the whole does": ("16Pi", 2**54, 2**63 - 1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_reads(case: tuple[RawQuantity, int, int]) -> None:
    text, whole, thousandths = case
    assert value(text) == whole
    assert milli_value(text) == thousandths


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", "1gi", "1KiB", "--1", "1e", "٣", "1_000", "m"])
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        value(text)


@given(st.integers(0, 10**12))
def test_a_whole_number_of_millis_is_exact(count: int) -> None:
    assert milli_value(f"{count}m") == count
    assert value(f"{count}m") == -(-count // 1000)
