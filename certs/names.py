"""The names a server certificate must carry, and whether a certificate's names cover them."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """Subject alternative names: DNS names and IP addresses as text, in the order given, without doubles."""

    dns: tuple[str, ...] = ()
    ip: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is any name at all."""
        return bool(self.dns or self.ip)


def names_of(dns: Iterable[str] = (), ip: Iterable[str] = ()) -> Names:
    """Return the names in canonical form: DNS lower case without trailing dot, addresses as ``ipaddress`` prints them.

    Raises:
        ValueError: a text is no IP address, or a DNS name is empty or not ASCII.
    """
    lowered = [_canonical(name) for name in dns]
    for name in lowered:
        if not name or not name.isascii():
            raise ValueError(f"{name!r} is no DNS name that a certificate can carry.")
    return Names(
        dns=tuple(dict.fromkeys(lowered)),
        ip=tuple(dict.fromkeys(str(ipaddress.ip_address(text)) for text in ip)),
    )


def service_names(
    service: str,
    namespace: str,
    *,
    cluster_domain: str = "cluster.local",
    extra_dns: Iterable[str] = (),
    extra_ip: Iterable[str] = (),
) -> Names:
    """Return the names of a Service: ``svc``, ``svc.ns``, ``svc.ns.svc``, ``svc.ns.svc.DOMAIN``, and the extra ones.

    The API server dials ``svc.ns.svc`` (Kubernetes, dynamic admission control, "service reference"); the others are for
    people with curl and for monitoring.
    """
    base = f"{service}.{namespace}"
    own = (service, base, f"{base}.svc", f"{base}.svc.{cluster_domain}")
    return names_of((*own, *extra_dns), extra_ip)


def uncovered(wanted: Names, held: Names) -> tuple[str, ...]:
    """Return the wanted names that ``held`` does not cover, by the rules of Go's ``crypto/x509``.

    A wildcard stands for exactly one leftmost label; IP addresses match exactly.
    """
    held_dns = frozenset(map(_canonical, held.dns))
    missing = [name for name in wanted.dns if held_dns.isdisjoint((_canonical(name), _wildcard_for(_canonical(name))))]
    return (*missing, *(address for address in wanted.ip if address not in held.ip))


def _canonical(name: str) -> str:
    return name.lower().rstrip(".")


def _wildcard_for(name: str) -> str:
    _, dot, rest = name.partition(".")
    return f"*.{rest}" if dot else ""
