"""JSON shapes of the outside world, in and out of frozen dataclasses. No I/O."""
