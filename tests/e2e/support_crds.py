"""The two kinds that others define and our feeds read: NodeResourceTopology and Koordinator's Device."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.plane import ControlPlane
from support_truth import until

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Kind:
    """A cluster-scoped kind of which objects may hold anything."""

    group: str
    version: str
    name: str
    plural: str
    annotations: tuple[tuple[str, str], ...] = ()

    @property
    def crd(self) -> str:
        """The CRD's name."""
        return f"{self.plural}.{self.group}"

    def definition(self) -> dict[str, Any]:
        """The CRD."""
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.crd, "annotations": dict(self.annotations)},
            "spec": {
                "group": self.group,
                "scope": "Cluster",
                "names": {
                    "kind": self.name,
                    "plural": self.plural,
                    "singular": self.name.lower(),
                    "listKind": f"{self.name}List",
                },
                "versions": [{"name": self.version, "served": True, "storage": True, "schema": schema}],
            },
        }

    def install(self, plane: ControlPlane) -> None:
        """Create the CRD, and wait until its objects can be listed."""
        plane.api("POST", _CRDS, self.definition()).wanted()
        until(lambda: plane.api("GET", self.path()).status == 200, f"the kind {self.name}")

    def uninstall(self, plane: ControlPlane) -> None:
        """Delete the CRD and with it every object, and wait until both are gone."""
        plane.api("DELETE", f"{_CRDS}/{self.crd}").wanted()
        until(lambda: plane.api("GET", f"{_CRDS}/{self.crd}").status == 404, f"the end of the kind {self.name}")

    def path(self, name: str = "") -> str:
        """The path of the list, or of one object."""
        return f"/apis/{self.group}/{self.version}/{self.plural}" + (f"/{name}" if name else "")

    def get(self, plane: ControlPlane, name: str) -> dict[str, Any] | None:
        """One object; None where there is none."""
        answer = plane.api("GET", self.path(name))
        return answer.json() if answer.status == 200 else None

    def put(self, plane: ControlPlane, name: str, content: Mapping[str, Any]) -> None:
        """Store an object of this content under a name, in place of the one that there may be."""
        old = self.get(plane, name)
        metadata = {"name": name, **({"resourceVersion": old["metadata"]["resourceVersion"]} if old else {})}
        body = {**content, "apiVersion": f"{self.group}/{self.version}", "kind": self.name, "metadata": metadata}
        plane.api("PUT" if old else "POST", self.path(name if old else ""), body).wanted()

    def delete(self, plane: ControlPlane, name: str) -> None:
        """Delete an object."""
        plane.api("DELETE", self.path(name)).wanted()


TOPOLOGIES = Kind(
    "topology.node.k8s.io",
    "v1alpha2",
    "NodeResourceTopology",
    "noderesourcetopologies",
    (("api-approved.kubernetes.io", "https://github.com/kubernetes/enhancements/pull/1870"),),
)
DEVICES = Kind("scheduling.koordinator.sh", "v1alpha1", "Device", "devices")


def gpus(healthy: range = range(8)) -> dict[str, Any]:
    """The content of a Device of eight GPUs, four on each of two NUMA nodes; those outside of ``healthy`` are ill."""
    devices = [
        {
            "type": "gpu",
            "id": f"GPU-{minor}",
            "minor": minor,
            "health": minor in healthy,
            "topology": {
                "socketID": minor // 4,
                "nodeID": minor // 4,
                "pcieID": "0",
                "busID": f"0000:{minor:02x}:00.0",
            },
        }
        for minor in range(8)
    ]
    return {"spec": {"devices": devices}}
