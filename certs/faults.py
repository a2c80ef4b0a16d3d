"""What can be wrong with a certificate, a key or a bundle: a closed tree.

    CertificateError (ValueError)
    ├── UnreadableError      not PEM, cut off, encrypted, not there
    ├── WrongKeyError        the key belongs to another certificate
    ├── ExpiredError         the moment lies after not_after
    ├── NotYetValidError     the moment lies before not_before
    ├── MissingNameError     a name that callers use is not among the subject alternative names
    ├── WrongUseError        the certificate forbids itself to serve TLS
    ├── UnknownIssuerError   no trusted authority signed it
    └── NotAnAuthorityError  a certificate of a trust bundle that may not sign

Readers raise these; checks return them as values, all of them and not only the first. ``str()`` is a plain sentence for
people, ``code`` a stable word for metric labels.
"""

from typing import ClassVar


class CertificateError(ValueError):
    """Base of everything that this package finds wrong with certificates; only its subclasses are used."""

    code: ClassVar[str] = "fault"


class UnreadableError(CertificateError):
    """The bytes are no complete PEM certificate or unencrypted private key."""

    code = "unreadable"


class WrongKeyError(CertificateError):
    """The private key and the certificate do not belong together."""

    code = "wrong_key"


class ExpiredError(CertificateError):
    """The certificate's time is over."""

    code = "expired"


class NotYetValidError(CertificateError):
    """The certificate's time has not begun."""

    code = "not_yet_valid"


class MissingNameError(CertificateError):
    """A wanted name is not covered by the subject alternative names."""

    code = "missing_name"


class WrongUseError(CertificateError):
    """The extended key usage does not allow TLS servers."""

    code = "wrong_use"


class UnknownIssuerError(CertificateError):
    """No authority of the given ones signed the certificate, directly or through the chain that comes with it."""

    code = "unknown_issuer"


class NotAnAuthorityError(CertificateError):
    """A certificate that is to be trusted as an authority may not sign certificates."""

    code = "not_an_authority"
