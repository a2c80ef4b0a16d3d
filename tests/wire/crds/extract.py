"""Make ``schemas.json``: what the CRDs of other projects say of the fields that ``webhook.wire.workload_kinds`` names.

``python tests/wire/crds/extract.py`` downloads each Go module of ``SOURCES`` (a module carries its repository, CRDs
included) and writes the file anew; no test needs the network. Of each version of each kind it keeps the pod specs,
found by their shape, the whole numbers and ``suspend`` switches outside of them, and where the schema ends.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).parent
SOURCES: Final = (
    ("github.com/kubeflow/training-operator", "v1.8.1", "manifests/base/crds/kubeflow.org_*.yaml"),
    ("github.com/kubeflow/trainer/v2", "v2.0.0", "manifests/base/crds/trainer.kubeflow.org_*.yaml"),
    ("github.com/ray-project/kuberay/ray-operator", "v1.5.0", "config/crd/bases/ray.io_*.yaml"),
    ("github.com/argoproj/argo-rollouts", "v1.8.3", "manifests/crds/*-crd.yaml"),
    ("knative.dev/serving", "v0.51.0", "config/core/300-resources/*.yaml"),
    ("sigs.k8s.io/kueue", "v0.17.0", "config/components/crd/bases/*.yaml"),
)
_NOT_OURS: Final = frozenset({"apiVersion", "kind", "status"})
_COUNTED: Final = frozenset({"integer", "int-or-string"})

Schema = Mapping[str, Any]


def module_directory(module: str, version: str) -> Path:
    """Return where the module lies, after a download if need be."""
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return Path(answer["Dir"])


def definitions(directory: Path, pattern: str) -> Iterator[Schema]:
    """Yield each CustomResourceDefinition of the files that ``pattern`` names."""
    for file in sorted(directory.glob(pattern)):
        for document in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader):
            if document and document["kind"] == "CustomResourceDefinition":
                yield document


def extract_of(definition: Schema, source: str) -> dict[str, Any] | None:
    """Return the row of ``schemas.json`` for ``definition``; None where no version of it holds a pod."""
    spec = definition["spec"]
    versions = {}
    for version in spec["versions"]:
        found = _Found()
        found.walk(version["schema"]["openAPIV3Schema"], "")
        versions[version["name"]] = {"served": version["served"], **found.as_json()}
    if not any(version["pods"] for version in versions.values()):
        return None
    return {
        "group": spec["group"],
        "kind": spec["names"]["kind"],
        "plural": spec["names"]["plural"],
        "scope": spec["scope"],
        "source": source,
        "versions": versions,
    }


class _Found:
    """What a walk through one version's schema came by."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.marks_lost: list[str] = []
        self.fields: dict[str, str] = {}
        self.open: list[str] = []

    def as_json(self) -> dict[str, Any]:
        parts = {"pods": self.pods, "fields": self.fields, "marks_lost": self.marks_lost, "open": self.open}
        return {name: part for name, part in parts.items() if part or name in ("pods", "fields")}

    def walk(self, schema: Schema, path: str) -> None:
        """Note ``schema`` at ``path`` and go on below it, but into no pod and no container."""
        members: Schema = schema.get("properties") or {}
        if _is_pod_spec(members):
            self.pods.append(path)
            return
        if "image" in members and "resources" in members:
            return
        if "spec" in members and _is_pod_spec(members["spec"].get("properties") or {}) and _loses_marks(members):
            self.marks_lost.append(path)
        if schema.get("x-kubernetes-preserve-unknown-fields") and not members:
            self.open.append(path)
        kind = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
        if kind in _COUNTED or path.endswith(".suspend"):
            self.fields[path] = f"{kind} = {json.dumps(schema['default'])}" if "default" in schema else kind
        for name, member in members.items():
            if path or name not in _NOT_OURS:
                self.walk(member, f"{path}.{name}" if path else name)
        if isinstance(schema.get("items"), dict):
            self.walk(schema["items"], f"{path}[]")
        if isinstance(schema.get("additionalProperties"), dict):
            self.walk(schema["additionalProperties"], f"{path}.*")


def _is_pod_spec(members: Schema) -> bool:
    containers = members.get("containers") or {}
    return containers.get("type") == "array" and "image" in (containers.get("items", {}).get("properties") or {})


def _loses_marks(template: Schema) -> bool:
    """Return whether the API server prunes the annotations of a pod template before any webhook sees them."""
    metadata = template.get("metadata") or {}
    return "annotations" not in (metadata.get("properties") or {}) and not metadata.get(
        "x-kubernetes-preserve-unknown-fields"
    )


def main() -> None:
    """Write ``schemas.json``."""
    rows = []
    for module, version, pattern in SOURCES:
        found = definitions(module_directory(module, version), pattern)
        rows += [row for each in found if (row := extract_of(each, f"{module}@{version}")) is not None]
    (HERE / "schemas.json").write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
