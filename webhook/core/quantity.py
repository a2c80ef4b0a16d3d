"""Kubernetes quantities as exact integers of billionths (kubernetes/apimachinery:pkg/api/resource/quantity.go).

Four things of the original that surprise, and that hold here too (``tests/core/test_against_kubernetes.py``):

1. Where digits are missing they are nought: ``.``, ``-``, ``k`` and ``Ki`` are all quantities, namely 0.
2. ``E`` is ten to the 18th, ``E5`` is an exponent; an exponent is cut to 32 bits, so ``1e4294967296`` is 1.
3. Only the binary suffixes are capped at 2^63-1. ``1e30`` stays 1e30.
4. A quantity in JSON may stand between spaces (``" 24 "``), although the grammar has none.

What is narrower here, so that a hostile text costs nothing: at most 512 characters, and exponents from -512 to 512.

The API server then rounds every amount of a pod's resource lists up to a thousandth (``SetDefaults_ResourceList`` in
kubernetes/kubernetes:pkg/apis/core/v1/defaults.go), before any webhook runs: ``as_stored``.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

NANOS: Final = 10**9
NANOS_PER_MILLI: Final = 10**6

_MAX_TEXT_LENGTH: Final = 512
_MAX_EXPONENT: Final = 512
_MAX_CACHED_TEXT_LENGTH: Final = 32
"""Longer texts are parsed each time: the cache stays below a megabyte whatever is sent."""
_CACHE_ENTRIES: Final = 4096

_MAX_BINARY: Final = (2**63 - 1) * NANOS
_INT64: Final = range(-(2**63), 2**63)

_SHAPE: Final = re.compile(
    r"(?P<sign>[+-]?+)(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?+(?P<suffix>[eEinumkKMGTP]*+[+-]?+[0-9]*+)",
    re.ASCII,
)
"""Possessive, so that a hostile text is read once and not in every way it could be split."""
_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_SUFFIX_OF_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}

_JSON_PADDING: Final = (
    " \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
"""What Go trims off a quantity in JSON. Tabs and line breaks stand escaped in JSON and are refused there too."""

_WANTED: Final = "a number such as 24, 1500m, 0.5, 64Gi or 1e3"


class QuantityError(ValueError):
    """A text is no quantity; the message says what was found and what is wanted."""


@dataclass(frozen=True, order=True, slots=True)
class Quantity:
    """An exact amount in billionths (nanos), as the API server keeps it: finer fractions are rounded up."""

    nanos: int

    @property
    def is_whole(self) -> bool:
        """Whether the amount is a whole number."""
        return not self.nanos % NANOS

    @property
    def is_zero(self) -> bool:
        """Whether the amount is nought."""
        return not self.nanos

    @property
    def whole(self) -> int:
        """The amount without its fraction, rounded down."""
        return self.nanos // NANOS

    @property
    def value(self) -> int:
        """The amount rounded away from zero to a whole number, as ``Quantity.Value()`` of Kubernetes."""
        return _divide_away_from_zero(self.nanos, NANOS)

    @property
    def millicores(self) -> int:
        """The amount in thousandths, rounded away from zero, as ``Quantity.MilliValue()`` of Kubernetes."""
        return _divide_away_from_zero(self.nanos, NANOS_PER_MILLI)

    @property
    def as_stored(self) -> "Quantity":
        """The amount as a pod of the API server holds it: rounded away from zero to a thousandth."""
        if not self.nanos % NANOS_PER_MILLI:
            return self
        return Quantity(self.millicores * NANOS_PER_MILLI)

    def nearest_whole(self) -> int:
        """Return the whole number to offer instead: the nearest, a half up, at least 1 of what is more than 0."""
        if self.nanos <= 0:
            return 0
        return max(1, (self.nanos + NANOS // 2) // NANOS)

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the exact sum."""
        return Quantity(self.nanos + other.nanos)

    def __sub__(self, other: "Quantity") -> "Quantity":
        """Return the exact difference."""
        return Quantity(self.nanos - other.nanos)

    def __str__(self) -> str:
        """Return the canonical decimal text of Kubernetes: ``24``, ``1500m``, ``24k``; never a binary suffix."""
        if not self.nanos:
            return "0"
        amount, exponent = self.nanos, -9
        while exponent < 18 and not amount % 1000:
            amount //= 1000
            exponent += 3
        return f"{amount}{_SUFFIX_OF_EXPONENT[exponent]}"


ZERO: Final = Quantity(0)


def parse_quantity(value: str | float) -> Quantity:
    """Return the quantity that a JSON or YAML value means to the API server.

    Args:
        value: the text, or a JSON number. The API server reads a number's own digits; of a ``float`` the shortest
            digits that mean it are read (``repr``), which is the same number.

    Raises:
        QuantityError: the API server refuses the value, or it is longer than 512 characters, or its exponent
            is beyond 512.
    """
    if not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise QuantityError(f"{_shown(repr(value))} is no quantity; wanted {_WANTED}")
        value = _text_of(value)
    if len(value) <= _MAX_CACHED_TEXT_LENGTH:
        return _parse_short(value)
    if len(value) > _MAX_TEXT_LENGTH:
        raise QuantityError(f"a quantity of {len(value)} characters; at most {_MAX_TEXT_LENGTH} are read")
    return _parse(value)


def _text_of(number: float) -> str:
    """Return the digits of a JSON number, without the cost of printing a giant one."""
    if isinstance(number, int) and number.bit_length() > 1700:  # more than 10^511: int's own printing is quadratic
        raise QuantityError(f"a quantity of {number.bit_length()} bits; at most {_MAX_TEXT_LENGTH} digits are read")
    return repr(number)


def _parse(text: str) -> Quantity:
    """Return the quantity of a text that may stand between spaces."""
    match = _SHAPE.fullmatch(text) or _SHAPE.fullmatch(text.strip(_JSON_PADDING))
    if match is None or not match[0]:
        raise QuantityError(f"{_shown(text)} is no quantity; wanted {_WANTED}")
    whole, fraction, suffix = match["whole"], match["fraction"] or "", match["suffix"]
    digits = (whole + fraction).lstrip("0")
    if suffix in _BINARY:
        nanos = min(_MAX_BINARY, _scaled(int(digits or "0") << _BINARY[suffix], 9 - len(fraction)))
        lacks_digits = _BINARY[suffix] >= 50
    else:
        exponent = _decimal_exponent(text, suffix)
        nanos = _scaled(int(digits or "0"), exponent + 9 - len(fraction))
        lacks_digits = exponent < -9
    if lacks_digits and not whole and not fraction:  # "Pi", "e-10": the original's slow path wants a digit
        raise QuantityError(f"{_shown(text)} is no quantity; wanted {_WANTED}")
    return Quantity(-nanos if match["sign"] == "-" else nanos)


_parse_short = lru_cache(maxsize=_CACHE_ENTRIES)(_parse)


def _decimal_exponent(text: str, suffix: str) -> int:
    """Return the power of ten of a decimal suffix or an exponent, cut to 32 bits as Go does."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    match = _EXPONENT.fullmatch(suffix)
    exponent = int(match[1]) if match else _INT64.stop
    if exponent not in _INT64:
        raise QuantityError(f"{_shown(text)} is no quantity: its suffix {_shown(suffix)} is unknown; wanted {_WANTED}")
    exponent = (exponent + 2**31) % 2**32 - 2**31
    if abs(exponent) > _MAX_EXPONENT:
        raise QuantityError(f"{_shown(text)} has an exponent beyond {_MAX_EXPONENT}")
    return exponent


def _scaled(amount: int, exponent: int) -> int:
    """Return ``amount`` (not negative) times ten to the ``exponent``, rounded up to a whole number."""
    if exponent >= 0:
        return amount * int(10**exponent)
    return -(-amount // int(10**-exponent))


def _divide_away_from_zero(amount: int, divisor: int) -> int:
    return -(-amount // divisor) if amount >= 0 else amount // divisor


def _shown(text: str) -> str:
    """Return ``text`` quoted, escaped and short enough for a sentence."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
