"""The users of the test control plane: a certificate and a kubeconfig for each, made when first asked for."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from controlplane.authority import Authority, KeyPair
from controlplane.client import Client, create_client
from controlplane.objects import DEVELOPERS, kubeconfig

ADMIN = "admin"
ALICE = "alice"
CONTROLLER_MANAGER_USER = "system:kube-controller-manager"
SCHEDULER_USER = "system:kube-scheduler"


def usual_groups(user: str) -> tuple[str, ...]:
    """The groups of the users that a test meets by name; anyone else is in none but system:authenticated."""
    if user == ADMIN:
        return ("system:masters",)
    if user == ALICE:
        return (DEVELOPERS,)
    if user.startswith("system:node:"):
        return ("system:nodes",)
    return ()


@dataclass(frozen=True)
class Users:
    """Who may talk to the API server on this port; the files lie in the authority's folder."""

    authority: Authority
    port: int

    @property
    def server_url(self) -> str:
        """The API server's address, as kubeconfigs have it."""
        return f"https://127.0.0.1:{self.port}"

    def certificate(self, user: str, groups: tuple[str, ...] | None = None) -> KeyPair:
        """The user's client certificate in these groups (the usual ones, where None), minted once."""
        member_of = usual_groups(user) if groups is None else groups
        stem = re.sub(r"[^\w.+@-]", "-", "+".join(("user", user, *member_of)))
        pair = KeyPair(self.authority.folder / f"{stem}.crt", self.authority.folder / f"{stem}.key")
        return pair if pair.key.exists() else self.authority.issue_client(stem, user, member_of)

    def kubeconfig(self, user: str, groups: tuple[str, ...] | None = None) -> Path:
        """The path of the user's kubeconfig, written once."""
        pair = self.certificate(user, groups)
        path = pair.certificate.with_suffix(".kubeconfig")
        if not path.exists():
            ca_file = str(self.authority.ca_file)
            config = kubeconfig(self.server_url, ca_file, str(pair.certificate), str(pair.key), user)
            path.write_text(json.dumps(config, indent=2))
        return path

    def client(self, user: str, groups: tuple[str, ...] | None = None) -> Client:
        """A plain HTTPS client that speaks to the API server as this user."""
        return create_client(self.port, self.authority.ca_file, self.certificate(user, groups))
