"""Certificates in words, one line per fact, for ``certs show``."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from certs.checks import faults_of_authority, faults_of_server, faults_of_trust
from certs.faults import CertificateError
from certs.holdings import Holdings
from certs.moments import in_words
from certs.names import Names
from certs.pki import Certificate


@dataclass(frozen=True, slots=True)
class Shown:
    """The lines to print and the faults among them."""

    lines: tuple[str, ...]
    faults: tuple[CertificateError, ...]


def shown(holdings: Holdings, now: datetime, required: Names | None = None) -> Shown:
    """Return what a Secret (or a directory of its files) holds, and everything that is wrong with it at ``now``."""
    lines: list[str] = []
    faults: list[CertificateError] = list(holdings.faults)
    if holdings.leaf is not None:
        leaf = holdings.leaf.certificate
        lines += ["serving certificate", *_facts(leaf, now)]
        lines.append(f"  names        {', '.join((*leaf.names.dns, *leaf.names.ip)) or 'none'}")
        faults += faults_of_server(leaf, now, required or Names())
        if holdings.trusted:
            faults += faults_of_trust(holdings.leaf, holdings.trusted, now)
    for title, pair in (("signer", holdings.signer), ("next signer", holdings.next_signer)):
        if pair is not None:
            lines += [title, *_facts(pair.certificate, now)]
            faults += faults_of_authority(pair.certificate, now)
    for anchor in holdings.anchors:
        lines += ["trusted authority", *_facts(anchor, now)]
    if holdings.next_signer is not None:
        since = in_words(holdings.trusted_since) if holdings.trusted_since else "not yet"
        lines.append(f"overlap: a new authority is being made known; trusted everywhere since: {since}")
    elif holdings.switched_at is not None:
        lines.append(f"overlap: the leaf is by the new authority since {in_words(holdings.switched_at)}")
    if not lines:
        lines.append("no certificate")
    lines += [f"fault: {fault} [{fault.code}]" for fault in faults]
    return Shown(tuple(lines), tuple(faults))


def _facts(certificate: Certificate, now: datetime) -> Sequence[str]:
    days = (certificate.not_after - now).total_seconds() / 86400
    return (
        f"  subject      {certificate.subject}",
        f"  valid        {in_words(certificate.not_before)} to {in_words(certificate.not_after)} ({days:.1f} days)",
        f"  fingerprint  {certificate.fingerprint}",
    )
