"""What differs between kubelet versions, as one table: the minor version of Kubernetes 1.x since which a rule holds.

A row says where it was read. Between two versions that were read the later one is named, for a rule that is not yet
there refuses less or places otherwise, and what is in doubt must not deny. Rules older than 1.24 are not modelled.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

OLDEST_MODELLED_MINOR: Final = 24
"""The identity rule of the merge and its choice among hints that are not preferred date from 1.24."""


@dataclass(frozen=True, slots=True)
class VersionRules:
    """The rules of one kubelet version; each field is a row of ``SINCE``."""

    refuses_without_healthy_device: bool
    """No healthy device of a resource refuses even a request for none of it."""
    counts_free_physical_cpus: bool
    """``full-pcpus-only`` compares the request with the CPUs whose core has no reserved CPU."""
    sidecars_add_to_device_total: bool
    """Pod scope adds sidecars to the apps' devices; before, they counted as init containers."""
    sidecars_keep_their_share: bool
    """Sidecars leave nothing for reuse, and add to the pod's CPU and memory total (kubernetes/kubernetes#119442)."""
    names_cpu_numbers: bool
    """The text of a CPU shortage names what was requested and available."""
    checks_memory_groups: bool
    """A memory allocation that would break the rule of groups is refused."""
    narrows_device_masks: bool
    """Only NUMA nodes that host a resource are enumerated for it (kubernetes/kubernetes#138244; also in late 1.35)."""
    distributes_within_socket: bool
    """``align-by-socket`` steers ``distribute-cpus-across-numa``, which never asks a NUMA node for more than it has."""
    says_was_rejected: bool
    """The pod's status message starts with ``Pod was rejected: ``."""


SINCE: Final = {
    "refuses_without_healthy_device": 26,  # absent from 1.24.17, present in 1.26.15
    "counts_free_physical_cpus": 28,  # absent from 1.26.15, present in 1.28.15
    "sidecars_add_to_device_total": 28,  # sidecars exist since 1.28; PodLimits is used in 1.28.15
    "sidecars_keep_their_share": 29,  # absent from 1.28.15; domain/kubelet-topology.md 1.14
    "names_cpu_numbers": 31,  # absent from 1.28.15, present in 1.31.13
    "checks_memory_groups": 34,  # absent from 1.31.13, present in 1.34.4
    "narrows_device_masks": 36,  # absent from 1.35.0, present in 1.36.0
    "distributes_within_socket": 37,  # absent from 1.36.0, present in 1.37.2
    "says_was_rejected": 26,  # absent from 1.24.17, present in 1.26.15
}


@lru_cache(maxsize=64)
def rules_of(minor_version: int) -> VersionRules:
    """Return the rules of Kubernetes 1.``minor_version``; a version older than 1.24 is judged as 1.24."""
    return VersionRules(**{name: minor_version >= since for name, since in SINCE.items()})


def status_message(text: str, minor_version: int) -> str:
    """Return what the refused pod's ``status.message`` says for a rejection whose message is ``text``."""
    return f"Pod was rejected: {text}" if rules_of(minor_version).says_was_rejected else f"Pod {text}"
