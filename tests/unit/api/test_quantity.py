"""Quantities as apimachinery reads them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranger.api import quantity
from arranger.api.quantity import QuantityError, RawQuantity, milli_value, parse_quantity, value

LARGEST = 2**63 - 1
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
    "below zero rounds away from zero": ("-100m", -1, -100),
    "too large is the largest there is": ("100Ei", 2**63 - 1, 2**63 - 1),
    "milli overflows before the whole does": ("16Pi", 2**54, 2**63 - 1),
    "a suffix alone is nothing": ("m", 0, 0),
    "an exponent alone is nothing": ("e3", 0, 0),
    "a sign alone is nothing": ("-", 0, 0),
    "a point alone is nothing": (".", 0, 0),
    "an exponent of a million": ("1e1000000", LARGEST, LARGEST),
    "the same below zero": ("-1e1000000", -LARGEST, -LARGEST),
    "the largest exponent there is": (f"1e{LARGEST}", LARGEST, LARGEST),
    "next to nothing is one of the unit": ("1e-1000000", 1, 1),
    "nothing, however often": ("0e1000000", 0, 0),
    "a million digits": ("9" * 10**6, LARGEST, LARGEST),
    "a million digits behind the point": ("0." + "0" * 10**6 + "1", 1, 1),
    "digits that an exponent takes back": ("1" + "0" * 70 + "e-70", 1, 1000),
    "the last of many digits counts": ("1." + "0" * 80 + "1", 2, 1001),
    "many digits that are still too much": ("9" * 61 + "e-10", LARGEST, LARGEST),
    "an exponent alone of a billionth is nothing": ("e-9", 0, 0),
    "a fraction of the largest suffix, without a whole": (".5Pi", 2**49, 2**49 * 1000),
    "an integer of a file with more digits than Python writes": (10**5000, LARGEST, LARGEST),
    "an integer of a file that is too large": (10**400, LARGEST, LARGEST),
    "a number of a file that is infinite": (float("1e308"), LARGEST, LARGEST),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_reads(case: tuple[RawQuantity, int, int]) -> None:
    text, whole, thousandths = case
    assert value(text) == whole
    assert milli_value(text) == thousandths


WRONG = [
    "",
    "abc",
    "1 Gi",
    "1gi",
    "1KiB",
    "--1",
    "1e",
    "٣",
    "1_000",
    "mm",
    "..",
    "e",
    "inf",
    "nan",
    "-inf",
    "Pi",
    "e-10",
]


@pytest.mark.parametrize("text", [*WRONG, f"1e{2**63}", "1" * 10**6 + "x"], ids=lambda t: t[:25])
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity") as raised:
        value(text)
    assert len(str(raised.value)) < 200, "nobody can read a megabyte of digits"


def test_what_long_texts_say_is_not_kept() -> None:
    kept = quantity._cached_scaled.cache_info().currsize
    for digits in range(33, 133):
        assert value("0" * digits + "7") == 7
    assert quantity._cached_scaled.cache_info().currsize == kept


@given(st.integers(0, 10**12))
def test_a_whole_number_of_millis_is_exact(count: int) -> None:
    assert milli_value(f"{count}m") == count
    assert value(f"{count}m") == -(-count // 1000)


@given(
    st.from_regex(
        r"[+-]?(\d{1,90}\.?\d{0,90}|\.\d{1,90})([eE][+-]?\d{1,25}|[a-zA-Z]{0,3})", fullmatch=True
    )
    | st.text(max_size=40)
    | st.floats()
    | st.integers()
)
def test_whatever_is_read_fits_into_64_bits_or_is_refused(raw: RawQuantity) -> None:
    for read in (value, milli_value, lambda each: int(parse_quantity(str(each)))):
        try:
            amount = read(raw)
        except QuantityError:
            continue
        assert -LARGEST <= amount <= LARGEST


@given(st.integers(0, 10**80), st.integers(-90, 30), st.sampled_from(["", "m", "Ki", "E"]))
def test_no_amount_is_read_as_less_than_it_is(digits: int, power: int, suffix: str) -> None:
    factor = {"": Fraction(1), "m": Fraction(1, 1000), "Ki": Fraction(1024), "E": Fraction(10**18)}
    text = f"{digits}e{power}" if not suffix else f"{digits}{suffix}"
    amount = digits * (Fraction(10) ** power if not suffix else factor[suffix])
    assert value(text) == min(LARGEST, -(-amount.numerator // amount.denominator))
