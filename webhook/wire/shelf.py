"""One value for many equal ones: equal nodes share a machine, equal pods a demand."""

from typing import Final, TypeVar

_Value = TypeVar("_Value")

_MOST_VALUES: Final = 65536
"""Kinds of pods in a large cluster, several times over. A full shelf is emptied: that costs sharing, nothing else."""


class Shelf:
    """Keeps the first of equal values. Not thread-safe: each shelf has one user."""

    def __init__(self, most_values: int = _MOST_VALUES) -> None:
        """Keep up to ``most_values`` values."""
        self._most_values = most_values
        self._values: dict[object, object] = {}

    def one(self, value: _Value) -> _Value:
        """Return the value that was first seen equal to ``value``, which must be hashable."""
        found = self._values.get(value)
        if found is not None:
            return found  # type: ignore[return-value] # equal values of a frozen dataclass are of its type
        if len(self._values) >= self._most_values:
            self._values.clear()
        self._values[value] = value
        return value
