"""Hypothesis strategies of JSON: any value at all, and objects whose members have the names that a reader looks for."""

from hypothesis import strategies as st

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(["4", "500m", "Always", "In", "", "topology", "\ud800", "a\nb"])
)


def values_with(names):
    """Return a strategy of JSON values whose maps mostly have members called as ``names``."""
    keys = st.sampled_from(sorted(names)) | st.text(max_size=8)
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
        max_leaves=25,
    )


any_value = values_with(["a", "b"])

POD_NAMES = [
    "metadata",
    "spec",
    "status",
    "annotations",
    "labels",
    "name",
    "generateName",
    "namespace",
    "uid",
    "ownerReferences",
    "controller",
    "kind",
    "deletionTimestamp",
    "containers",
    "initContainers",
    "ephemeralContainers",
    "resources",
    "requests",
    "limits",
    "claims",
    "cpu",
    "memory",
    "aliyun.com/gpu",
    "restartPolicy",
    "overhead",
    "nodeName",
    "nodeSelector",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "matchExpressions",
    "matchFields",
    "key",
    "operator",
    "values",
    "tolerations",
    "effect",
    "value",
    "schedulerName",
    "priority",
    "priorityClassName",
    "schedulingGates",
    "resourceClaims",
    "phase",
    "scheduling.alibabacloud.com/numa-topology-spec",
    "cpuset-scheduler",
]
"""Every name that the reader of pods looks for."""


def _fuzzed(strategy):
    """Return ``strategy``, and now and then any JSON value in its place."""
    return st.one_of(strategy, strategy, strategy, st.none(), values_with(POD_NAMES))


def _some(members):
    """Return maps with some of ``members``, each fuzzed."""
    return st.fixed_dictionaries({}, optional={name: _fuzzed(member) for name, member in members.items()})


_labels = st.dictionaries(st.sampled_from(["a", "cpuset-scheduler", "x/y~z"]), st.text(max_size=6), max_size=3)
_amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "aliyun.com/gpu"]),
    st.sampled_from(["1", "1500m", "64Gi", "x", 4, 0.5]),
    max_size=3,
)
_resources = _some({"requests": _amounts, "limits": _amounts, "claims": st.lists(_labels, max_size=1)})
_containers = st.lists(
    _fuzzed(_some({"name": st.text(max_size=4), "resources": _resources, "restartPolicy": st.just("Always")})),
    max_size=3,
)
_requirement = _some(
    {
        "key": st.sampled_from(["ack.node.gpu.schedule", "zone"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "in"]),
        "values": st.lists(st.sampled_from(["topology", "default"]), max_size=2),
    }
)
_requirements = st.lists(_requirement, max_size=2)
_terms = st.lists(
    st.none()
    | st.fixed_dictionaries({}, optional={"matchExpressions": st.none() | _requirements, "matchFields": _requirements}),
    max_size=3,
)
_required = st.none() | st.fixed_dictionaries({}, optional={"nodeSelectorTerms": st.none() | _terms})
_affinity = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "podAntiAffinity": _labels,
        "nodeAffinity": st.none()
        | st.fixed_dictionaries({}, optional={"requiredDuringSchedulingIgnoredDuringExecution": _required}),
    },
)

fuzzed_pods = _fuzzed(
    _some(
        {
            "metadata": _some({"annotations": _labels, "labels": _labels, "name": st.text(max_size=5)}),
            "spec": _some(
                {
                    "containers": _containers,
                    "initContainers": _containers,
                    "resources": _resources,
                    "affinity": _affinity,
                    "overhead": _amounts,
                    "nodeSelector": _labels,
                    "priority": st.integers(),
                }
            ),
            "status": _some({"phase": st.just("Running")}),
        }
    )
)
"""Pods with any JSON value in any place."""

patchable_pods = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.none()
        | st.fixed_dictionaries({}, optional={"annotations": st.none() | _labels, "name": st.just("p")}),
        "spec": st.none() | st.fixed_dictionaries({"containers": st.just([])}, optional={"affinity": _affinity}),
        "unknownField": st.integers(),
    },
)
"""Pods whose places for edits are absent, null, empty or filled, all of the right types."""
