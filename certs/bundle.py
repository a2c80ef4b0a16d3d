"""Trust: the ``caBundle`` that webhook configurations must hold, and the patch that puts it there.

The same bytes in every webhook of every configuration; compared as bytes, for a bundle can be wrong without being empty
(a GitOps tool that puts last year's back, NVIDIA/nodewright#163).
"""

import base64
from collections.abc import Iterable, Mapping

from certs.faults import NotAnAuthorityError
from certs.pki import Certificate, read_certificates

PatchOperation = dict[str, str]


def bundle_of(certificates: Iterable[Certificate]) -> bytes:
    """Return the authorities among ``certificates`` as PEM: normalised, without doubles, in order of fingerprint.

    Equal sets give equal bytes, whatever their order and spelling. Leaves are left out: the API server would take them,
    and would then trust a key that lies on every replica's disk. No authority gives ``b""``.
    """
    authorities = {certificate.fingerprint: certificate for certificate in certificates if certificate.is_authority}
    return b"".join(authorities[fingerprint].pem for fingerprint in sorted(authorities))


def normalised(pem: bytes) -> bytes:
    """Return the bundle of the authorities in a PEM text, such as the ``ca.crt`` that an issuer wrote.

    Raises:
        UnreadableError: the text is no PEM, or cut off.
        NotAnAuthorityError: none of its certificates may sign.
    """
    bundle = bundle_of(read_certificates(pem, what="The bundle"))
    if not bundle:
        raise NotAnAuthorityError("The bundle holds certificates, but none of an authority.")
    return bundle


def behind(bundles_by_webhook: Mapping[str, bytes], wanted: bytes) -> tuple[str, ...]:
    """Return the names of the webhooks whose ``caBundle`` is not, byte for byte, the wanted one."""
    return tuple(name for name, held in bundles_by_webhook.items() if held != wanted)


def configuration_patch(
    bundles_by_webhook: Mapping[str, bytes], wanted: bytes, *, resource_version: str = ""
) -> list[PatchOperation]:
    """Return the JSON Patch that gives every webhook of a configuration the wanted ``caBundle``; empty if all have it.

    ``bundles_by_webhook`` is in the order of the configuration's ``webhooks`` list, for a JSON Patch counts them. Each
    change is guarded by a ``test`` of the webhook's name (a moved entry fails the patch, HTTP 422). With
    ``resource_version`` the patch names the version it was made for, and the API server answers 409 if there is a
    newer: without that, a rotator that slept between look and patch could put an old bundle over a new one.
    """
    operations: list[PatchOperation] = []
    encoded = base64.b64encode(wanted).decode("ascii")
    for index, (name, held) in enumerate(bundles_by_webhook.items()):
        if held == wanted:
            continue
        operations += [
            {"op": "test", "path": f"/webhooks/{index}/name", "value": name},
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": encoded},
        ]
    if operations and resource_version:
        operations.insert(0, {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version})
    return operations
