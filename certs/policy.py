"""How our certificates are made and when they are replaced: one frozen value, checked when it is made."""

from dataclasses import dataclass
from datetime import timedelta

from certs.names import Names


@dataclass(frozen=True, slots=True)
class Policy:
    """How certificates are made and when they are replaced.

    Raises:
        ValueError: a lifetime is under 60 seconds or over 10 years, the authority's is shorter than the leaf's, no name
            is given, or a share or delay is out of range.
    """

    names: Names
    leaf_lifetime: timedelta = timedelta(days=90)
    """Renewed after 60 days, which leaves 30 for somebody to notice that renewal fails (alert at 14)."""
    authority_lifetime: timedelta = timedelta(days=5 * 365)
    """Long, for each change of it is an overlap; not so long that nobody is left who has seen one."""
    renew_at_share: float = 2 / 3
    """Part of a lifetime after which its successor is made; cert-manager's default too."""
    propagation: timedelta = timedelta(seconds=90)
    """How late a replica may see the Secret: the kubelet's sync period of 60 s plus its cache, with room.

    A short certificate bears less, whatever is set here: a tenth of the shorter lifetime (simulated with a rotator that
    is itself late by a hundredth; at a sixth calls fail). So 90 s need lifetimes of 15 minutes.
    """
    look_every: timedelta = timedelta(seconds=60)
    """How often to look although nothing is due, for others may write to what is ours."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        least, most = timedelta(seconds=60), timedelta(days=3660)
        for what, lifetime in (("leaf", self.leaf_lifetime), ("authority", self.authority_lifetime)):
            if not least <= lifetime <= most:
                raise ValueError(f"The {what}'s lifetime must lie between 60 seconds and 10 years; it is {lifetime}.")
        if self.authority_lifetime < self.leaf_lifetime:
            raise ValueError("The authority must live at least as long as its leaves.")
        if not self.names:
            raise ValueError("A certificate needs at least one name.")
        if not 0.1 <= self.renew_at_share <= 0.9:
            raise ValueError(f"The share must lie between 0.1 and 0.9; it is {self.renew_at_share}.")
        if self.propagation < timedelta(0) or self.look_every <= timedelta(0):
            raise ValueError("The propagation delay must not be negative, and the look interval must be above 0.")
