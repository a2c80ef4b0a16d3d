"""Values that are keys of caches keep their hash: a large one would be hashed anew for each look-up."""


class KeptHash:
    """Base of frozen values; the hash is worked out when it is first asked for."""

    __slots__ = ("_kept_hash",)

    def __hash__(self) -> int:
        """Return the hash of ``_key``."""
        try:
            return self._kept_hash
        except AttributeError:
            object.__setattr__(self, "_kept_hash", hash(self._key()))
            return self._kept_hash

    _kept_hash: int

    def _key(self) -> tuple[object, ...]:
        """Return what tells values apart; equal values have equal ones."""
        raise NotImplementedError
