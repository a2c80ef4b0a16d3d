"""What our Secret holds: between its data (names to bytes) and frozen values.

    tls.crt, tls.key                 what the replicas serve
    ca.crt                           the trust bundle, as it must stand in every webhook configuration
    signer.crt, signer.key           the authority that signs leaves now
    next-signer.crt, next-signer.key the authority that will, while it is being made known
    rotation.json                    {"trustedSince": ..., "switchedAt": ...}, moments that a restart must not forget

One Secret and not two, for one write is atomic and two are not. Replicas must mount ``tls.crt``, ``tls.key`` and
``ca.crt`` only (``items`` of the volume): a signer's key has no business on a server.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from certs.bundle import bundle_of
from certs.faults import CertificateError
from certs.pki import Certificate, Pair, read_certificates, read_pair

LEAF_CERTIFICATE, LEAF_KEY = "tls.crt", "tls.key"
BUNDLE = "ca.crt"
SIGNER_CERTIFICATE, SIGNER_KEY = "signer.crt", "signer.key"
NEXT_SIGNER_CERTIFICATE, NEXT_SIGNER_KEY = "next-signer.crt", "next-signer.key"
ROTATION = "rotation.json"
OUR_KEYS = frozenset(
    {
        LEAF_CERTIFICATE,
        LEAF_KEY,
        BUNDLE,
        SIGNER_CERTIFICATE,
        SIGNER_KEY,
        NEXT_SIGNER_CERTIFICATE,
        NEXT_SIGNER_KEY,
        ROTATION,
    }
)


@dataclass(frozen=True, slots=True)
class Holdings:
    """The Secret's content, parsed; whatever is missing or unreadable is None or empty, and named in ``faults``."""

    leaf: Pair | None = None
    signer: Pair | None = None
    next_signer: Pair | None = None
    anchors: tuple[Certificate, ...] = ()
    """Authorities named by ``ca.crt``: those of the signers, and older ones whose leaves may still be served."""
    trusted_since: datetime | None = None
    """Since when every configuration has been seen to hold the bundle with the next signer in it."""
    switched_at: datetime | None = None
    """When the leaf by the present signer replaced that of an older one."""
    faults: tuple[CertificateError, ...] = ()

    @property
    def trusted(self) -> tuple[Certificate, ...]:
        """Return all authorities that the bundle must name."""
        signers = (pair.certificate for pair in (self.signer, self.next_signer) if pair is not None)
        return (*self.anchors, *signers)

    @property
    def bundle(self) -> bytes:
        """Return the trust bundle as PEM."""
        return bundle_of(self.trusted)

    @property
    def older(self) -> tuple[Certificate, ...]:
        """Return the trusted authorities that are neither signer nor next signer."""
        signers = {pair.certificate for pair in (self.signer, self.next_signer) if pair is not None}
        return tuple(anchor for anchor in self.anchors if anchor not in signers)


def holdings_of(data: Mapping[str, bytes]) -> Holdings:
    """Return what a Secret's data hold. Never raises: a fault is a value in the answer."""
    faults: list[CertificateError] = []
    anchors: tuple[Certificate, ...] = ()
    if data.get(BUNDLE):
        try:
            anchors = tuple(one for one in read_certificates(data[BUNDLE], what="The bundle") if one.is_authority)
        except CertificateError as error:
            faults.append(error)
    moments = _moments(data.get(ROTATION, b""))
    return Holdings(
        leaf=_pair(data, LEAF_CERTIFICATE, LEAF_KEY, "serving certificate", faults),
        signer=_pair(data, SIGNER_CERTIFICATE, SIGNER_KEY, "signer", faults),
        next_signer=_pair(data, NEXT_SIGNER_CERTIFICATE, NEXT_SIGNER_KEY, "next signer", faults),
        anchors=anchors,
        trusted_since=moments.get("trustedSince"),
        switched_at=moments.get("switchedAt"),
        faults=tuple(faults),
    )


def data_of(holdings: Holdings, before: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the Secret's data for ``holdings``; what others keep beside our keys in ``before`` stays."""
    data = {key: value for key, value in before.items() if key not in OUR_KEYS}
    for pair, certificate_key, key_key in (
        (holdings.leaf, LEAF_CERTIFICATE, LEAF_KEY),
        (holdings.signer, SIGNER_CERTIFICATE, SIGNER_KEY),
        (holdings.next_signer, NEXT_SIGNER_CERTIFICATE, NEXT_SIGNER_KEY),
    ):
        if pair is not None:
            data[certificate_key], data[key_key] = pair.certificates_pem, pair.key_pem
    data[BUNDLE] = holdings.bundle
    moments = {"trustedSince": holdings.trusted_since, "switchedAt": holdings.switched_at}
    kept = {name: moment.isoformat() for name, moment in moments.items() if moment is not None}
    if kept:
        data[ROTATION] = json.dumps(kept, sort_keys=True).encode()
    return data


def _pair(
    data: Mapping[str, bytes], certificate_key: str, key_key: str, what: str, faults: list[CertificateError]
) -> Pair | None:
    if not data.get(certificate_key) and not data.get(key_key):
        return None
    try:
        return read_pair(data.get(certificate_key, b""), data.get(key_key, b""), what=what)
    except CertificateError as error:
        faults.append(error)
        return None


def _moments(raw: bytes) -> dict[str, datetime]:
    """Return the readable moments. One that is not readable is as good as never noted: the wait begins anew."""
    try:
        read = json.loads(raw or b"{}")
        items = read.items() if isinstance(read, dict) else ()
        moments = {str(name): datetime.fromisoformat(text) for name, text in items if isinstance(text, str)}
    except (ValueError, RecursionError):
        return {}
    return {name: moment for name, moment in moments.items() if moment.tzinfo is not None}
