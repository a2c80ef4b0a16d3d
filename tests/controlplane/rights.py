"""Knowing when the API server's own roles are in force, which its page /readyz does not tell to the last moment."""

from controlplane.client import Client
from controlplane.processes import Running, wait_until
from controlplane.users import CONTROLLER_MANAGER_USER, SCHEDULER_USER

RIGHTS_SECONDS = 120.0
# The last one comes from a role inside kube-system, which is made after those of the whole cluster.
EARLY_AND_LATE_RIGHTS = (
    (CONTROLLER_MANAGER_USER, "create", "serviceaccounts"),
    (SCHEDULER_USER, "list", "pods"),
    ("system:serviceaccount:kube-system:token-cleaner", "delete", "secrets"),
)


def wait_for_rights(admin: Client, apiserver: Running) -> None:
    """Wait until the roles that every cluster has are in force; components that start sooner fail and back off."""
    wait_until(
        lambda: all(_granted(admin, *right) for right in EARLY_AND_LATE_RIGHTS),
        what="the rights of controllers and scheduler",
        within_seconds=RIGHTS_SECONDS,
        running=apiserver,
    )


def _granted(admin: Client, user: str, verb: str, resource: str) -> bool:
    attributes = {"namespace": "kube-system", "verb": verb, "resource": resource}
    review = {"spec": {"user": user, "resourceAttributes": attributes}}
    answer = admin.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer.wanted().json()["status"]["allowed"])
