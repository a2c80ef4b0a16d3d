"""What is judged in ``messages.golden``: one case for each way that a rule speaks, by a readable id.

``python tests/core/rules/message_cases.py`` prints the file anew; read the difference before it is kept.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.builders import (
    ABSENT,
    GUIDE_SPEC,
    KOORD_KEY,
    OLDER_KEY,
    SINGLE,
    SPEC_KEY,
    ask,
    binding,
    bound,
    container,
    koordinator_pod,
    node,
    pod,
    raw_pod,
    stranger,
    workload,
)

from webhook.core.decide import decide_validate
from webhook.core.dialect import Stage
from webhook.core.dialects import KUBELET
from webhook.core.findings import Finding
from webhook.core.judge import judge_node, judge_pod, judge_workload
from webhook.core.modes import Rules
from webhook.core.pod import ContainerKind
from webhook.core.rules.pinning import pinning_findings
from webhook.wire.pods import read_container, read_pod

RULES = Rules()
Findings = tuple[Finding, ...]
CASES: dict[str, Callable[[], Findings]] = {}


def create(name, **changes):
    """Add a case: a pod that is created."""
    CASES[name] = lambda: judge_pod(pod(**changes), RULES)


def template(name, **changes):
    """Add a case: the same pod in a Deployment's template."""
    CASES[name] = lambda: judge_workload(workload(pod(**changes)), RULES)


def beside(name, added):
    """Add a case: the same pod in a template to whose pods an operator adds an init container."""
    extra = read_container(added, ContainerKind.INIT, "spec.initContainers", [])
    whole = workload(pod())
    (one,) = whole.templates
    CASES[name] = lambda: judge_workload(replace(whole, templates=(replace(one, added=(extra,)),)), RULES)


def koordinator(name, stage=Stage.CREATE, **changes):
    """Add a case: a Koordinator pod."""
    CASES[name] = lambda: judge_pod(koordinator_pod(**changes), RULES, stage=stage)


def update(name, old, new, *, username="alice", rules=RULES):
    """Add a case: an UPDATE of a pod, given as JSON before and after."""
    CASES[name] = lambda: decide_validate(ask(read_pod(new), read_pod(old), username=username), rules).findings


def pinning(name, *containers, **spec):
    """Add a case: a pod without any annotation on nodes whose kubelet pins."""
    bare = pod(annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": ABSENT}, containers=list(containers), spec=spec)
    CASES[name] = lambda: pinning_findings(bare, KUBELET.gpus, static_nodes=3, eligible_nodes=4)


def spec(text):
    return {SPEC_KEY: text}


def term(*expressions):
    terms = [{"matchExpressions": [expression]} for expression in expressions]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeSelector": {}, "affinity": {"nodeAffinity": required}}


WITHOUT_LIMIT = {"limits": {"cpu": ABSENT}}
MODE = "ack.node.gpu.schedule"

# Nothing to say.
create("a good pod")
template("a good template")
koordinator("a good Koordinator pod")
CASES["another feature's pod"] = lambda: judge_pod(stranger(), RULES)
create("a mirror pod is the kubelet's", annotations={"kubernetes.io/config.mirror": "x", "cpuset-scheduler": "no"})
create("whole cores in every spelling", containers=[container(cpu="24000m", limits={"cpu": "2.4e1"})])
create(
    "a limit alone counts as the request", containers=[container(requests={"cpu": ABSENT, "aliyun.com/gpu": ABSENT})]
)
create("both homes with one meaning", annotations={OLDER_KEY: '{ "numaTopologyPolicy" : "SingleNUMANode" }'})
create("resource-spec of another feature", annotations={OLDER_KEY: '{"preferredCPUBindPolicy":"FullPCPUs"}'})
create("demanded by every term", spec=term({"key": MODE, "operator": "In", "values": ["topology"]}))
create("an ephemeral container", spec={"ephemeralContainers": [{"name": "debugger"}]})

# 1. The text of the spec.
create("empty text", annotations=spec(""))
create("broken JSON", annotations=spec('{"numaTopologyPolicy" "SingleNUMANode"}'))
create("NaN", annotations=spec('{"numaTopologyPolicy":NaN}'))
create("an array", annotations=spec('["SingleNUMANode"]'))
create("a bare text", annotations=spec('"SingleNUMANode"'))
create("longer than 4 KiB", annotations=spec(SINGLE + " " * 4096))
create("nested deeply", annotations=spec('{"numaTopologyPolicy":[[[[[[]]]]]]}'))
create("trailing comma", annotations=spec(GUIDE_SPEC))
template("trailing comma in a template", annotations=spec(GUIDE_SPEC))
create("a comment", annotations=spec('{"numaTopologyPolicy":"Restricted" /* ask */}'))
create("key in another case", annotations=spec('{"numatopologypolicy":"SingleNUMANode"}'))
create("foreign key", annotations=spec('{"numaTopologyPolicy":"SingleNUMANode","gang":"a"}'))
create("key twice", annotations=spec('{"numaTopologyPolicy":"SingleNUMANode","numaTopologyPolicy":"Restricted"}'))
create("policy null", annotations=spec('{"numaTopologyPolicy":null}'))
create("policy a number", annotations=spec('{"numaTopologyPolicy":1}'))
create("policy misspelt", annotations=spec('{"numaTopologyPolicy":"SingleNumaNode"}'))
create("policy unknown", annotations=spec('{"numaTopologyPolicy":"Strict"}'))
create("policy empty", annotations=spec('{"numaTopologyPolicy":""}'))
create(
    "exclusive misspelt", annotations=spec('{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"required"}')
)
create("policy missing", annotations=spec("{}"))
create("exclusive without a policy", annotations=spec('{"singleNUMANodeExclusive":"Required"}'))
create(
    "BestEffort with Required",
    annotations=spec('{"numaTopologyPolicy":"BestEffort","singleNUMANodeExclusive":"Required"}'),
)

# 2. cpuset-scheduler.
create("cpuset-scheduler missing", annotations={"cpuset-scheduler": ABSENT})
template("cpuset-scheduler missing in a template", annotations={"cpuset-scheduler": ABSENT})
create("cpuset-scheduler missing beside a broken spec", annotations={"cpuset-scheduler": ABSENT, SPEC_KEY: "{"})
create("cpuset-scheduler true", annotations={"cpuset-scheduler": "true"})
create("cpuset-scheduler in another case", annotations={"cpuset-scheduler": "Required"})
create("cpuset-scheduler with another value", annotations={"cpuset-scheduler": "preferred\x1b[2J"})
create("cpuset-scheduler misspelt", annotations={"cpuset-scheduler": ABSENT, "cpuset-schedulers": "required"})
create("cpuset-scheduler alone", annotations=spec(ABSENT))

# 3. Homes.
create("homes differ", annotations={OLDER_KEY: '{"numaTopologyPolicy":"Restricted"}'})
create("older home only", annotations={SPEC_KEY: ABSENT, OLDER_KEY: SINGLE})
template("older home only, in a template", annotations={SPEC_KEY: ABSENT, OLDER_KEY: SINGLE})
create("older home broken beside a good home", annotations={OLDER_KEY: GUIDE_SPEC})
create("key without prefix", annotations={SPEC_KEY: ABSENT, "numa-topology-spec": SINGLE})
create("key in the plural", annotations={SPEC_KEY: ABSENT, f"{SPEC_KEY}s": SINGLE})
create(
    "two dialects that differ",
    annotations={KOORD_KEY: '{"numaTopologyPolicy":"BestEffort"}'},
    labels={"koordinator.sh/qosClass": "LSR"},
)

# 4. CPU.
create("fraction of a core", containers=[container(cpu="1500m")])
create("a hair over", containers=[container(cpu="4.0001")])
create("unequal", containers=[container(limits={"cpu": "26"})])
create("no limit", containers=[container(**WITHOUT_LIMIT)])
template("no limit in a template", containers=[container(**WITHOUT_LIMIT)])
create("no CPU", containers=[container(cpu=None)])
template("no CPU in a template", containers=[container(cpu=None)])
template("a null limit is absent", containers=[container(requests={"cpu": "4"}, limits={"cpu": None})])
create("nought", containers=[container(cpu="0")])
create(
    "init container and sidecar",
    spec={
        "initContainers": [
            {"name": "fetch", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}},
            {
                "name": "proxy",
                "restartPolicy": "Always",
                "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}},
            },
        ]
    },
)
create(
    "filled in by a LimitRange",
    annotations={"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu"},
    containers=[container(cpu="2", requests={"cpu": "500m"})],
)
create(
    "pod-level CPU",
    containers=[container(cpu=None)],
    spec={"resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}},
)
create("overhead of a fraction", spec={"overhead": {"cpu": "250m"}})

# 5. GPU.
beside(
    "an operator's own container",
    {"name": "waits", "resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "100m"}}},
)
create("no GPU", containers=[container(gpu=None)])
create("the other resource", containers=[container(gpu_name="nvidia.com/gpu")])
create("both resources", containers=[container(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "1"})])
create("shared GPU beside", containers=[container(), container("b", gpu="8", gpu_name="aliyun.com/gpu-mem")])
create("nvidia.com/gpu of nought beside", containers=[container(limits={"nvidia.com/gpu": "0"})])
template("half a card", containers=[container(gpu="0.5")])
template("cards unequal", containers=[container(limits={"aliyun.com/gpu": "8"})])
template("cards without a limit", containers=[container(limits={"aliyun.com/gpu": ABSENT})])

# 6. Other features.
create("cpu-policy", annotations={"cpu-policy": "static-burst"})
create("gpu-topology labels", labels={"gpu-topology": "job", "gpu-topology-replica": "2"})

# 7. Nodes.
create("selector of another mode", spec={"nodeSelector": {MODE: "cgpu"}})
create(
    "affinity against",
    spec=term({"key": MODE, "operator": "NotIn", "values": ["topology"]}, {"key": MODE, "operator": "DoesNotExist"}),
)
create("node preset", spec={"nodeName": "gpu-1"})
create("label not demanded", spec={"nodeSelector": {}})

# 8. Results.
create("results preset", annotations={"cpuset": "{}", "scheduling.koordinator.sh/resource-status": "{}"})
update("result changed", raw_pod(), raw_pod(annotations={"cpuset": "{}"}))
update(
    "result changed, writers known",
    raw_pod(),
    raw_pod(annotations={"cpuset": "{}"}),
    rules=Rules(result_writers=frozenset({"system:kube-scheduler"})),
)

# 9. Schedulers.
create("another scheduler", spec={"schedulerName": "volcano"})

# 10. Updates.
update(
    "policy changed on a scheduled pod",
    bound(raw_pod()),
    bound(raw_pod(annotations=spec('{"numaTopologyPolicy":"BestEffort"}'))),
)
update(
    "annotation removed on a scheduled pod", bound(raw_pod()), bound(raw_pod(annotations={"cpuset-scheduler": ABSENT}))
)
update("annotation added on a scheduled pod", bound(raw_pod(annotations=spec(ABSENT))), bound(raw_pod()))
update("broken on a waiting pod", raw_pod(), raw_pod(annotations=spec('{"numaTopologyPolicy":"Any"}')))
update(
    "respelt on a waiting pod",
    raw_pod(annotations=spec('{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Preferred"}')),
    raw_pod(annotations=spec(GUIDE_SPEC)),
)
CASES["a Binding that smuggles"] = lambda: (
    decide_validate(ask(binding(**{SPEC_KEY: SINGLE, "cpuset": "{}"}), subresource="binding"), RULES).findings
)

# Koordinator.
koordinator("Koordinator: no QoS", labels={"koordinator.sh/qosClass": ABSENT})
koordinator("Koordinator: QoS misspelt", labels={"koordinator.sh/qosClass": "lsr"})
koordinator("Koordinator: priority not prod", spec={"priority": 5500})
koordinator(
    "Koordinator: LSE with a batch label",
    labels={"koordinator.sh/qosClass": "LSE", "koordinator.sh/priority-class": "koord-batch"},
)
koordinator(
    "Koordinator: halves add up",
    containers=[container(cpu="500m", gpu_name="nvidia.com/gpu"), container("b", cpu="500m", gpu=None)],
)
koordinator("Koordinator: sum is a fraction", containers=[container(cpu="1500m", gpu_name="nvidia.com/gpu")])
koordinator("Koordinator: ACK's resource", containers=[container()])
koordinator("Koordinator: unknown policy", annotations={KOORD_KEY: '{"numaTopologyPolicy":"None"}'})
koordinator("Koordinator: no policy", annotations={KOORD_KEY: '{"singleNUMANodeExclusive":"Required"}'})
koordinator("Koordinator: empty policy", annotations={KOORD_KEY: '{"numaTopologyPolicy":""}'})
koordinator("Koordinator: the default scheduler", spec={"schedulerName": ""})

# The kubelet.
pinning("pinned", container(memory="8Gi"))
pinning("no memory limit", container())
pinning("bare sidecar", container(memory="8Gi"), {"name": "proxy"})
pinning("fraction with GPUs", container(cpu="3500m", memory="8Gi"))
pinning("pod-level resources", container(memory="8Gi"), resources={"limits": {"cpu": "32", "memory": "16Gi"}})

# Nodes' own labels.
CASES["node policy None"] = lambda: judge_node(node(**{"node.koordinator.sh/numa-topology-policy": "None"}), RULES)
CASES["node mode misspelt"] = lambda: judge_node(node(**{MODE: "Topology"}), RULES)

# Fields.
template("the spec is a map", annotations={SPEC_KEY: {"numaTopologyPolicy": "SingleNUMANode"}})
create("annotation is a boolean", annotations={"cpuset-scheduler": True})
create("quantity is none", containers=[container(cpu="24 cores")])


def said(findings: Findings) -> str:
    """Return the findings as the golden file has them."""
    return "\n".join(f"{finding.severity.value}: {finding}" for finding in findings) or "nothing"


def main() -> None:
    """Print the golden file."""
    print("\n\n".join(f"# {name}\n{said(judge())}" for name, judge in CASES.items()))  # noqa: T201 - its purpose


if __name__ == "__main__":
    main()
