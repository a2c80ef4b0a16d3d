"""Kubernetes quantities as exact integers of billionths (kubernetes/apimachinery:pkg/api/resource/quantity.go)."""

from dataclasses import dataclass


class QuantityError(ValueError):
    """A text is no quantity; the message says what was found and what is wanted."""


@dataclass(frozen=True, order=True, slots=True)
class Quantity:
    """An exact amount in billionths (nanos), as the API server keeps it: finer fractions are rounded up."""

    nanos: int
