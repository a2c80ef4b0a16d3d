"""What is wrong with a pair or a certificate at a moment: every fault as a value, in a fixed order, none raised."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from certs.faults import (
    CertificateError,
    ExpiredError,
    MissingNameError,
    NotAnAuthorityError,
    NotYetValidError,
    UnknownIssuerError,
    WrongUseError,
)
from certs.moments import in_words
from certs.names import Names, uncovered
from certs.pki import Certificate, Pair


def faults_in_time(certificate: Certificate, now: datetime) -> tuple[CertificateError, ...]:
    """Return the fault of a moment outside the certificate's time, or nothing."""
    if now < certificate.not_before:
        return (
            NotYetValidError(
                f"The certificate ({certificate.subject}) is not valid before {in_words(certificate.not_before)}; "
                f"it is {in_words(now)}."
            ),
        )
    if certificate.is_over_at(now):
        return (
            ExpiredError(
                f"The certificate ({certificate.subject}) expired at {in_words(certificate.not_after)}; "
                f"it is {in_words(now)}."
            ),
        )
    return ()


def faults_of_server(certificate: Certificate, now: datetime, required: Names) -> tuple[CertificateError, ...]:
    """Return why a TLS client would refuse a server with this certificate, its issuer left aside.

    Without ``required`` names there must still be one: Go's clients have not read the common name since 1.15.
    """
    found = [*faults_in_time(certificate, now)]
    missing = uncovered(required, certificate.names)
    if missing:
        found.append(
            MissingNameError(f"The certificate ({certificate.subject}) does not cover {', '.join(sorted(missing))}.")
        )
    elif not certificate.names:
        found.append(MissingNameError(f"The certificate ({certificate.subject}) has no subject alternative name."))
    if not certificate.may_serve:
        found.append(
            WrongUseError(f"The certificate ({certificate.subject}) is not for servers, by its extended key usage.")
        )
    return tuple(found)


def faults_of_trust(pair: Pair, authorities: Iterable[Certificate], now: datetime) -> tuple[CertificateError, ...]:
    """Return the fault that no path leads from the leaf, through the pair's own chain, to an authority valid now."""
    if chains_to(pair.certificate, pair.chain, tuple(authorities), now):
        return ()
    return (
        UnknownIssuerError(
            f"The certificate ({pair.certificate.subject}) was not signed by any of the trusted authorities."
        ),
    )


def chains_to(
    leaf: Certificate, intermediates: Sequence[Certificate], authorities: Sequence[Certificate], now: datetime
) -> bool:
    """Return whether a path of valid signatures leads from ``leaf`` to one of ``authorities``.

    A leaf that is itself among the authorities is trusted, as Go does. Each intermediate is used at most once, so that
    certificates which sign each other end the search.
    """
    if leaf in authorities:
        return True
    if any(leaf.issued_by(root) and root.valid_at(now) for root in authorities):
        return True
    return any(
        leaf.issued_by(step)
        and step.valid_at(now)
        and chains_to(step, [other for other in intermediates if other != step], authorities, now)
        for step in intermediates
    )


def faults_of_authority(certificate: Certificate, now: datetime) -> tuple[CertificateError, ...]:
    """Return why a certificate does not belong into a trust bundle."""
    found = [*faults_in_time(certificate, now)]
    if not certificate.is_authority:
        found.append(
            NotAnAuthorityError(f"The certificate ({certificate.subject}) is not an authority; it may not sign.")
        )
    return tuple(found)
