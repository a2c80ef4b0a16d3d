"""Where the leader is: the EndpointSlice of a Service without selector, written by the leader and by nobody else."""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from webhook.cluster.client import Client
from webhook.cluster.errors import Conflict, NotFound

MANAGED_BY: Final = "numa-admission"
CALL_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process answers."""

    address: str
    """An IP address; what the API server reaches it by."""
    port: int
    pod_name: str = ""


@dataclass(slots=True)
class LeaderSlice:
    """The EndpointSlice ``name`` of Service ``service``, which owns it: whoever deletes the Service deletes both."""

    client: Client
    namespace: str
    service: str
    _owner_uid: str = ""
    """The Service's; the slice of a Service that was made anew is collected as garbage, and then it is asked again."""

    @property
    def name(self) -> str:
        """The slice's name."""
        return f"{self.service}-leader"

    @property
    def collection(self) -> str:
        """Where slices of the namespace are."""
        return f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"

    def points_to(self) -> tuple[str, ...]:
        """Return the addresses that it names now; none where there is no slice.

        Raises:
            ClusterError: the API server did not tell.
        """
        try:
            raw = self.client.get(f"{self.collection}/{self.name}", timeout_seconds=CALL_SECONDS)
        except NotFound:
            return ()
        return tuple(address for endpoint in raw.get("endpoints") or () for address in endpoint.get("addresses") or ())

    def point_to(self, place: Place) -> bool:
        """Make it name ``place`` alone; return False where another wrote it meanwhile (ask again who leads).

        The version that was read is the precondition, so that a leader who was frozen between the reading and the
        writing cannot undo what its successor has written.

        Raises:
            ClusterError: the API server did not answer, or refused, or has no such Service.
        """
        try:
            raw = self.client.get(f"{self.collection}/{self.name}", timeout_seconds=CALL_SECONDS)
        except NotFound:
            raw = {}
        if not raw or not self._owner_uid:
            path = f"/api/v1/namespaces/{self.namespace}/services/{self.service}"
            self._owner_uid = str(self.client.get(path, timeout_seconds=CALL_SECONDS)["metadata"]["uid"])
        wanted = self._wanted(place)
        owners = wanted["metadata"]["ownerReferences"]
        if (
            raw
            and all(raw.get(key) == wanted[key] for key in ("endpoints", "ports"))
            and raw["metadata"].get("ownerReferences") == owners
        ):
            return True
        try:
            # addressType cannot be changed: a slice of the other family is made anew.
            if raw and raw.get("addressType") != wanted["addressType"]:
                self.client.delete(f"{self.collection}/{self.name}", _precondition(raw), timeout_seconds=CALL_SECONDS)
                raw = {}
            if raw:
                kept = {key: value for key, value in wanted["metadata"].items() if key in {"labels", "ownerReferences"}}
                body = {**raw, **wanted, "metadata": {**raw["metadata"], **kept}}
                self.client.put(f"{self.collection}/{self.name}", body, timeout_seconds=CALL_SECONDS)
            else:
                self.client.post(self.collection, wanted, timeout_seconds=CALL_SECONDS)
        except Conflict:
            return False
        return True

    def _wanted(self, place: Place) -> dict[str, Any]:
        endpoint: dict[str, Any] = {"addresses": [place.address], "conditions": {"ready": True}}
        if place.pod_name:
            endpoint["targetRef"] = {"kind": "Pod", "name": place.pod_name, "namespace": self.namespace}
        labels = {"kubernetes.io/service-name": self.service, "endpointslice.kubernetes.io/managed-by": MANAGED_BY}
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": labels,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Service", "name": self.service, "uid": self._owner_uid}
                ],
            },
            "addressType": f"IPv{ip_address(place.address).version}",
            "endpoints": [endpoint],
            # The name of the Service's port: kube-proxy joins by it.
            "ports": [{"name": "https", "port": place.port, "protocol": "TCP"}],
        }


def _precondition(raw: dict[str, Any]) -> dict[str, Any]:
    metadata = raw["metadata"]
    return {"preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}}
