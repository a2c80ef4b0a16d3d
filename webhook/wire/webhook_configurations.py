"""The plain MutatingWebhookConfiguration and ValidatingWebhookConfiguration, made from the table of who is judged.

Failure policies and time-outs are those of ``DESIGN.md`` 5; the Helm chart renders the same entries, a test compares.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.core.decisions import Endpoint
from webhook.core.judged import TABLE, Change, Judged
from webhook.core.match_conditions import MatchCondition, match_conditions
from webhook.core.pod import Binding, NodeLabels, Pod
from webhook.wire.workload_kinds import KindTable
from webhook.wire.workload_table import STANDARD_KINDS

DOMAIN: Final = "numa-admission.io"
"""Webhook names are domain names; users read them in every refusal."""
BUILT_IN_GROUPS: Final = frozenset({"", "apps", "batch"})
CUSTOM_SUFFIX: Final = "-custom"
CONDITIONS_SINCE_MINOR: Final = 28
"""``matchConditions`` are on by default from Kubernetes 1.28; 1.27 drops them without a word."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the API server does when the webhook does not answer, and how long it waits."""

    failure: str
    timeout_seconds: int
    side_effects: str = "None"


# Fail only where the conditions are so narrow that an outage touches nobody but pods that ask for NUMA placement.
POLICIES: Final[Mapping[str, Policy]] = {
    "mutate-pods": Policy("Ignore", 2),
    "validate-pods": Policy("Fail", 3),
    "validate-results": Policy("Ignore", 3),
    "validate-workloads": Policy("Ignore", 3),
    "validate-bindings": Policy("Fail", 3),
    "validate-nodes": Policy("Ignore", 3),
    "capacity-pods": Policy("Ignore", 2, "NoneOnDryRun"),
    "capacity-workloads": Policy("Ignore", 2),
    "bind": Policy("Ignore", 1, "NoneOnDryRun"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where the API server calls: a URL, or a Service by namespace, name and port."""

    url: str = ""
    namespace: str = ""
    service: str = ""
    port: int = 443

    def client_config(self, path: str, ca_bundle: str) -> dict[str, object]:
        """Return the ``clientConfig`` for ``path``."""
        where: dict[str, object] = (
            {"url": f"{self.url}{path}"}
            if self.url
            else {
                "service": {"namespace": self.namespace, "name": self.service, "port": self.port, "path": path},
            }
        )
        return {**where, "caBundle": ca_bundle}


def webhook_configurations(
    name: str,
    target: Target,
    *,
    ca_bundle: str,
    excluded_namespaces: Sequence[str],
    left_out: Collection[str] = frozenset(),
    kinds: KindTable = STANDARD_KINDS,
    with_conditions: bool = True,
) -> list[dict[str, object]]:
    """Return both configurations as Kubernetes objects; ``left_out`` names entries of the table that are not wanted.

    Workloads of ``kinds`` are sent; an API server sends no object of a kind that no rule of an entry names. Without
    conditions, for an API server that knows none, every object of a kind is sent, so no entry has the policy ``Fail``,
    and the entry for results alone is left out: ``validate-pods`` is sent the same updates.
    """
    conditions = match_conditions()
    mutating: list[dict[str, object]] = []
    validating: list[dict[str, object]] = []
    for row in TABLE:
        if row.webhook in left_out or (row.on_update is Change.RESULTS_ALONE and not with_conditions):
            continue
        for suffix, rules, condition in _parts(row, conditions[row.webhook], kinds):
            entry = _entry(row, suffix, rules, condition, target.client_config(f"/{row.endpoint.value}", ca_bundle))
            entry["namespaceSelector"] = _outside(excluded_namespaces)
            if not with_conditions:
                entry.pop("matchConditions", None)
                entry["failurePolicy"] = "Ignore"
            (mutating if row.endpoint is Endpoint.MUTATE else validating).append(entry)
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": "numa-admission"}}
    api = "admissionregistration.k8s.io/v1"
    return [
        {"apiVersion": api, "kind": kind, "metadata": metadata, "webhooks": entries}
        for kind, entries in (
            ("MutatingWebhookConfiguration", mutating),
            ("ValidatingWebhookConfiguration", validating),
        )
        if entries
    ]


def _entry(
    row: Judged,
    suffix: str,
    rules: list[dict[str, object]],
    conditions: Sequence[MatchCondition],
    client_config: dict[str, object],
) -> dict[str, object]:
    policy = POLICIES[row.webhook]
    entry: dict[str, object] = {
        "name": f"{row.webhook}{suffix}.{DOMAIN}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config,
        "failurePolicy": policy.failure,
        "matchPolicy": "Equivalent",
        "rules": rules,
        "sideEffects": policy.side_effects,
        "timeoutSeconds": policy.timeout_seconds,
    }
    if conditions:
        entry["matchConditions"] = [{"name": each.name, "expression": each.expression} for each in conditions]
    if row.endpoint is Endpoint.MUTATE:
        entry["reinvocationPolicy"] = "IfNeeded"
    return entry


def _outside(namespaces: Sequence[str]) -> dict[str, object]:
    # By the label that the API server itself sets: a label that a tenant can write would be a way out.
    values = list(dict.fromkeys(namespaces))
    return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": values}]}


def _parts(
    row: Judged, conditions: Sequence[MatchCondition], kinds: KindTable
) -> list[tuple[str, list[dict[str, object]], Sequence[MatchCondition]]]:
    """Return (suffix of the name, rules, conditions) of each webhook entry that a row of the table needs."""
    operations = sorted(operation.value for operation in row.operations)

    def rule(group: str, resources: Sequence[str], scope: str) -> dict[str, object]:
        return {
            "apiGroups": [group],
            "apiVersions": ["v1"] if not group else ["*"],
            "operations": operations,
            "resources": list(resources),
            "scope": scope,
        }

    if row.subject is Pod:
        resources = [f"pods/{name}" if name else "pods" for name in sorted(row.subresources)]
        return [("", [rule("", resources, "Namespaced")], conditions)]
    if row.subject is Binding:
        return [("", [rule("", ["bindings", "pods/binding"], "Namespaced")], conditions)]
    if row.subject is NodeLabels:
        return [("", [rule("", ["nodes"], "Cluster")], conditions)]
    groups: dict[tuple[str, str], list[str]] = {}
    for kind in kinds.values():
        scope = "Cluster" if kind.cluster_scoped else "Namespaced"
        groups.setdefault((kind.group, scope), []).append(kind.resource)
    built_in = [rule(group, names, scope) for (group, scope), names in groups.items() if group in BUILT_IN_GROUPS]
    custom = [rule(group, names, scope) for (group, scope), names in groups.items() if group not in BUILT_IN_GROUPS]
    # The conditions know where the built-in kinds keep their templates; custom kinds keep them in lists and maps.
    return [("", built_in, conditions), (CUSTOM_SUFFIX, custom, ())]
