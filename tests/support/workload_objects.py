"""Objects of the kinds of the workload table, and definitions of those that other projects define (``wire/crds``)."""

import copy
import json
from pathlib import Path

from support.builders import container, raw_pod

from webhook.wire.workload_kinds import EACH_ITEM, EACH_MEMBER, steps_of

CRDS = Path(__file__).parents[1] / "wire" / "crds"
MEMBER = "Worker"
OPEN = "x-kubernetes-preserve-unknown-fields"


def schemas():
    """Every row of ``schemas.json`` and ``noted.json``."""
    return [row for file in ("schemas.json", "noted.json") for row in json.loads((CRDS / file).read_text())]


def written(path):
    """A path of the table as a reader finds it in an object of ``object_with``."""
    return path.replace(EACH_ITEM, "[0]").replace(EACH_MEMBER, MEMBER)


def put(root, path, value):
    """Set ``value`` at a path of the table; lists get one item, maps one member."""
    steps = list(steps_of(path))
    holder = root
    for step, following in zip(steps, [*steps[1:], ""], strict=True):
        key = {EACH_ITEM: 0, EACH_MEMBER: MEMBER}.get(step, step)
        if key == 0 and not holder:
            holder.append(None)
        if not following:
            holder[key] = value
            return
        if holder[key] is None if key == 0 else holder.get(key) is None:
            holder[key] = [] if following == EACH_ITEM else {}
        holder = holder[key]


def template(**amounts):
    """Metadata and spec of a pod that keeps every rule, with a container's resources changed."""
    pod = raw_pod(containers=[{**container(**amounts), "image": "busybox"}])
    return {"annotations": pod["metadata"]["annotations"]}, pod["spec"]


def object_with(row, rule, api_version, *, name="example", **amounts):
    """An object of the row's kind with one pod template, that of ``rule``."""
    raw = {"apiVersion": api_version, "kind": row.kind, "metadata": {"name": name}}
    metadata, spec = template(**amounts)
    put(raw, rule.path, spec if rule.inline else {"metadata": metadata, "spec": spec})
    if rule.metadata:
        holder = raw
        for step in steps_of(rule.metadata[-1]):
            holder = holder.setdefault(step, {})
        holder["annotations"] = metadata["annotations"]
        if not rule.inline:
            put(raw, f"{rule.path}.metadata", {})
    return copy.deepcopy(raw)


def spec_path(rule):
    """Where the pod spec of ``rule`` stands in an object of ``object_with``."""
    return written(rule.path) if rule.inline else f"{written(rule.path)}.spec"


def definitions():
    """A CustomResourceDefinition for each kind of ``schemas``, its versions all served; fields that are unknown stay.

    The versions are those that the projects serve, not their schemas: those are compared without an API server.
    """
    versions = {}
    for row in schemas():
        names = versions.setdefault((row["group"], row["kind"], row["plural"], row["scope"]), [])
        names += [name for name, version in row["versions"].items() if version["served"] and name not in names]
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{plural}.{group}",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
            },
            "spec": {
                "group": group,
                "scope": scope,
                "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                "versions": [
                    {
                        "name": name,
                        "served": True,
                        "storage": name == names[0],
                        "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": {"type": "object", OPEN: True}},
                    }
                    for name in names
                ],
            },
        }
        for (group, kind, plural, scope), names in versions.items()
    ]
