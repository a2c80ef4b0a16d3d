"""Quantities by table and by property; ``test_against_kubernetes`` has the random comparison with Go's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.core.quantity import NANOS, ZERO, Quantity, QuantityError, parse_quantity

READ = [
    # text, nanos
    ("24", 24 * NANOS),
    ("24000m", 24 * NANOS),
    ("2.4e1", 24 * NANOS),
    ("0.024k", 24 * NANOS),
    ("+024.", 24 * NANOS),
    ("24000000000n", 24 * NANOS),
    (".5", NANOS // 2),
    ("500000u", NANOS // 2),
    ("-1500m", -3 * NANOS // 2),
    ("1Ki", 1024 * NANOS),
    ("1.5Gi", 1536 * 2**20 * NANOS),
    ("1E", 10**18 * NANOS),
    ("1E3", 1000 * NANOS),
    ("1e-3", NANOS // 1000),
    ("0", 0),
    ("-0.0", 0),
]

ROUNDED = [
    ("0.1n", 1),
    ("1e-400", 1),
    ("-0.1n", -1),
    ("1.0000000001", NANOS + 1),
    ("0.1Ki", 102_400_000_000),
]

SURPRISING = [
    (".", 0),
    ("-", 0),
    ("k", 0),
    ("Ti", 0),
    (" 24 ", 24 * NANOS),
    ("\u00a024", 24 * NANOS),
    ("1e4294967296", NANOS),
    ("16Ei", (2**63 - 1) * NANOS),
    ("1e30", 10**30 * NANOS),
]

NUMBERS = [(24, 24 * NANOS), (0, 0), (0.5, NANOS // 2), (1e3, 1000 * NANOS), (1e22, 10**22 * NANOS), (1e-12, 1)]

REFUSED = [
    "",
    " ",
    "1 000",
    "24\n",
    "\t24",
    "NaN",
    "Inf",
    "0x18",
    "1_000",
    "1,5",
    "1.2.3",
    "--1",
    "1e",
    "1e1.5",
    "1ki",
    "1KI",
    "1mm",
    "24 cores",
    "Pi",
    "e-10",
    "\u0662\u0664",
    "1e99999999999999999999",
    "1e513",
    "1e-513",
    "9" * 513,
]

NO_NUMBERS = [True, None, float("nan"), float("inf"), [], {}, 10**600]


@pytest.mark.parametrize("text, nanos", READ + ROUNDED + SURPRISING, ids=repr)
def test_a_text_is_read_exactly(text: str, nanos: int) -> None:
    """Every spelling of the grammar has the amount that the API server gives it."""
    assert parse_quantity(text) == Quantity(nanos)


@pytest.mark.parametrize("number, nanos", NUMBERS, ids=repr)
def test_a_json_number_is_read_by_its_digits(number: float, nanos: int) -> None:
    assert parse_quantity(number) == Quantity(nanos)


@pytest.mark.parametrize("value", [*REFUSED, *NO_NUMBERS], ids=lambda value: repr(value)[:30])
def test_what_is_no_quantity_is_refused_in_one_short_line(value: object) -> None:
    """The message names what was found, and neither breaks the line nor repeats a flood."""
    with pytest.raises(QuantityError) as refusal:
        parse_quantity(value)
    message = str(refusal.value)
    assert message.isprintable()
    assert len(message) < 200


def test_a_long_text_costs_no_more_than_its_length() -> None:
    """A megabyte of digits, and the longest text that is still read, are answered without splitting it in every way."""
    with pytest.raises(QuantityError, match="1000000 characters; at most 512"):
        parse_quantity("9" * 10**6)
    with pytest.raises(QuantityError, match="is no quantity"):
        parse_quantity("9" * 511 + "x")
    assert parse_quantity("0" * 511 + "7") == Quantity(7 * NANOS)


CANONICAL = [
    ("24", "24"),
    ("0.5", "500m"),
    ("1500m", "1500m"),
    ("24000", "24k"),
    ("1Gi", "1073741824"),
    ("1e18", "1E"),
    ("0.000001", "1u"),
    ("-2500", "-2500"),
    ("0", "0"),
    ("-0.00", "0"),
]


@pytest.mark.parametrize("text, canonical", CANONICAL, ids=repr)
def test_a_quantity_is_written_canonically(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


VIEWS = [
    # text, value, millicores, whole, nearest whole
    ("24", 24, 24000, 24, 24),
    ("23.5", 24, 23500, 23, 24),
    ("23.4", 24, 23400, 23, 23),
    ("0.1", 1, 100, 0, 1),
    ("0.0001", 1, 1, 0, 1),
    ("0", 0, 0, 0, 0),
    ("-1.5", -2, -1500, -2, 0),
]


@pytest.mark.parametrize("text, value, millicores, whole, nearest", VIEWS, ids=str)
def test_a_quantity_is_rounded_as_kubernetes_does(
    text: str, value: int, millicores: int, whole: int, nearest: int
) -> None:
    """Value and millicores round away from zero; whole rounds down; the offer is never 0 for something."""
    quantity = parse_quantity(text)
    assert (quantity.value, quantity.millicores, quantity.whole, quantity.nearest_whole()) == (
        value,
        millicores,
        whole,
        nearest,
    )
    assert quantity.is_whole is (quantity.nanos == whole * NANOS)
    assert quantity.is_zero is (quantity == ZERO)


def test_the_api_server_keeps_thousandths() -> None:
    """A fraction finer than a thousandth is rounded up before any webhook sees it: 23.9999 cores are 24."""
    assert parse_quantity("23.9999").as_stored == parse_quantity("24")
    assert not parse_quantity("23.9999").is_whole


@given(st.text(max_size=40) | st.text("0123456789.eEinumkKMGTP+- ", max_size=600))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    """The parser raises nothing but its own error; what it reads, it reads the same from its own writing."""
    try:
        quantity = parse_quantity(text)
    except QuantityError:
        return
    assert isinstance(quantity.nanos, int)
    if abs(quantity.nanos) < 10**500:
        assert parse_quantity(str(quantity)) == quantity


@given(st.integers() | st.floats() | st.booleans() | st.none())
def test_any_json_scalar_is_a_quantity_or_a_quantity_error(value: object) -> None:
    try:
        assert isinstance(parse_quantity(value), Quantity)
    except QuantityError:
        assert value is None or isinstance(value, bool | float) or abs(value) > 10**500


@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30))
def test_amounts_add_and_order_as_numbers(left: int, right: int) -> None:
    a, b = Quantity(left), Quantity(right)
    assert (a + b).nanos == left + right
    assert a + b - b == a
    assert (a < b, a == b) == (left < right, left == right)
