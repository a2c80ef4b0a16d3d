"""A small cluster and questions about it, for the tests of ``decide_capacity`` and ``decide_bind``.

Run as a program it prints ``capacity_messages.golden`` anew.
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "ledger"), str(Path(__file__).parents[1])]

from ledger_world import GPU, demand, ledger, machine, node, pod  # noqa: E402
from support import builders  # noqa: E402

from webhook.core.capacity import CapacityRules, decide_capacity  # noqa: E402
from webhook.core.capacity_bind import decide_bind  # noqa: E402
from webhook.core.decisions import Ask, Operation  # noqa: E402
from webhook.core.ledger import events  # noqa: E402
from webhook.core.ledger.classes import MachineClass  # noqa: E402
from webhook.core.ledger.ledger import Ledger  # noqa: E402
from webhook.core.ledger.records import AllocatorKind, Confirmed, PodRecord  # noqa: E402
from webhook.core.machine import TopologyPolicy, TopologyScope  # noqa: E402
from webhook.core.node_selection import Taint  # noqa: E402
from webhook.core.pod import Binding, Pod, Workload  # noqa: E402
from webhook.core.scheduler import SchedulerAllocator  # noqa: E402

TOPOLOGY = {"ack.node.gpu.schedule": "topology"}
MACHINE = machine(2, 16, 4, name="gpu-8")
CLASS = MachineClass(
    "gpu-8",
    (("pool", "gpu"), *TOPOLOGY.items()),
    MACHINE,
    AllocatorKind.KUBELET,
    (("cpu", 30000), ("memory", 1 << 40), (GPU, 8), ("pods", 110)),
)


def cluster(*changed, bound=()):
    """Return a ledger of two GPU nodes, one of them cordoned, and a CPU node; ``bound``: (uid, node, *asks)."""
    made = ledger(
        node("gpu-1", MACHINE, labels=TOPOLOGY),
        node("gpu-2", MACHINE, labels=TOPOLOGY, cordoned=True),
        node("cpu-1", None, **{GPU: None}),
    )
    for record in changed:
        made.apply(events.NodeSeen(record), 90.0)
    for uid, where, *asks in bound:
        made.apply(events.PodSeen(pod(uid, demand(*asks), node_name=where)), 100.0)
    return made


SPLIT = (("a", "gpu-1", (4, 1)), ("b", "gpu-1", (4, 2), (4, 2)))
"""Three GPUs left on gpu-1, one on NUMA 0 and two on NUMA 1."""
FULL = (("a", "gpu-1", (4, 4)), ("b", "gpu-1", (4, 4)))


def asked(cpu=4, gpu=3, *, uid="new", containers=None, marked=True, **changes) -> Pod:
    """Return a Guaranteed pod that asks for whole cores and GPUs; not ``marked``: no annotation of ours."""
    made = [builders.container("main", cpu=str(cpu), gpu=str(gpu), memory="1Gi")] if containers is None else containers
    if not marked:
        gone = {"cpuset-scheduler": builders.ABSENT, builders.SPEC_KEY: builders.ABSENT}
        changes["annotations"] = {**gone, **changes.get("annotations", {})}
    metadata = {"uid": uid, "name": uid, **changes.pop("metadata", {})}
    return builders.pod(containers=made, metadata=metadata, **changes)


def ask(subject, old=None, *, username="alice", namespace="team", dry_run=False) -> Ask:
    """Return the question of a request."""
    return replace(builders.ask(subject, old, username=username, namespace=namespace), dry_run=dry_run)


def capacity(made, subject, *, old=None, rules=None, now=130.0, **more):
    """Return the decision on a create or an update."""
    return decide_capacity(ask(subject, old, **more), made, rules or CapacityRules(), now)


def binding(made, uid: str, where: str, *, rules=None, now=130.0, shunned=frozenset()):
    """Return the decision on a binding."""
    subject = Binding("team", uid, uid, where)
    question = Ask(Operation.CREATE, "team", uid, subject, subresource="binding", username="system:kube-scheduler")
    return decide_bind(question, made, rules or CapacityRules(), now, shunned)


def commit(made, decision, now=130.0):
    """Apply the decision's event, as the book does."""
    if decision.event is not None:
        made.apply(decision.event, now)


def deployment(template: Pod, replicas: int | None = 2, surge: int = 1) -> Workload:
    """Return a Deployment."""
    return replace(builders.workload(template, replicas=replicas), surge=surge)


def pending(uid="p1", *asks, **more) -> PodRecord:
    """Return a pod that the watch shows unbound."""
    return pod(uid, demand(*(asks or ((4, 4),))), **more)


# --- messages ---


def _bind_refused():
    made = cluster(node("gpu-2", MACHINE, labels=TOPOLOGY), bound=SPLIT)
    made.apply(events.PodSeen(pending("p1", (4, 3))), 110.0)
    return binding(made, "p1", "gpu-1")


def _bind_refused_nowhere():
    made = cluster(bound=SPLIT)
    made.apply(events.PodSeen(pending("p1", (4, 3))), 110.0)
    return binding(made, "p1", "gpu-1")


def _bind_refused_with_volumes():
    made = cluster(node("gpu-2", MACHINE, labels=TOPOLOGY), bound=SPLIT)
    made.apply(events.PodSeen(pending("p1", (4, 3), volume_claims=("data", "cache", "a", "b"))), 110.0)
    return binding(made, "p1", "gpu-1")


def by_scheduler(asks=None, *, node_policy=""):
    """Return a ledger of one node whose NUMA nodes a scheduler hands out, ``asks`` bound there."""
    made = Ledger({AllocatorKind.SCHEDULER: SchedulerAllocator()})
    on = replace(MACHINE, node_policy=node_policy)
    made.apply(events.NodeSeen(node("gpu-1", on, labels=TOPOLOGY, kind=AllocatorKind.SCHEDULER)), 90.0)
    if asks is not None:
        made.apply(events.PodSeen(pod("a", replace(demand(*asks), numa_policy="Restricted"), node_name="gpu-1")), 100.0)
    return made


def _out_of_turn():
    made = cluster()
    for uid in ("p1", "p2"):
        made.apply(events.PodSeen(pending(uid, (4, 4))), 110.0)
    made.apply(events.BindingAdmitted("p1", "gpu-1", 200.0), 110.0)
    return binding(made, "p2", "gpu-1")


def _guessed():
    made = cluster(bound=SPLIT)
    made.apply(events.Diverged("gpu-1"), 110.0)
    return capacity(made, asked(4, 3))


def _two_containers():
    containers = [
        builders.container("sidecar", cpu="14", gpu=None, memory="1Gi"),
        builders.container("main", cpu="14", gpu="4", memory="1Gi"),
    ]
    made = cluster()
    there = pod("a", demand((1, 4)), node_name="gpu-1", confirmed=Confirmed(0b10 << 16, ((GPU, 0xF0),)))
    made.apply(events.PodSeen(there), 100.0)
    return capacity(made, asked(containers=containers))


def _taint():
    made = cluster(node("gpu-3", MACHINE, labels=TOPOLOGY, taints=[Taint("gpu", "", "NoSchedule")]), bound=FULL)
    return capacity(made, asked(4, 4))


def _restricted():
    on = machine(2, 16, 4, name="gpu-8r", policy=TopologyPolicy.RESTRICTED, scope=TopologyScope.POD)
    return capacity(ledger(node("gpu-1", on, labels=TOPOLOGY)), asked(20, 4))


CASES = {
    "fits": lambda: capacity(cluster(), asked()),
    "would fail": lambda: capacity(cluster(bound=SPLIT), asked(4, 3)),
    "would fail, too few CPUs beside the GPUs": lambda: capacity(cluster(bound=SPLIT), asked(12, 2)),
    "would fail, as far as can be guessed": _guessed,
    "would fail, but a controller asks": lambda: capacity(
        cluster(bound=SPLIT),
        asked(4, 3),
        username="system:serviceaccount:kube-system:replicaset-controller",
    ),
    "would fail on the node that it names": lambda: capacity(
        cluster(bound=SPLIT), asked(4, 3, spec={"nodeName": "gpu-1"})
    ),
    "would fail on the node that it names, by plain counts": lambda: capacity(
        cluster(bound=FULL), asked(4, 3, spec={"nodeName": "gpu-1"})
    ),
    "would fail in this order of containers": _two_containers,
    "would wait": lambda: capacity(cluster(bound=FULL), asked(4, 4)),
    "would wait, and a taint stands between": _taint,
    "never, too many GPUs": lambda: capacity(cluster(), asked(4, 5)),
    "never, too many CPUs": lambda: capacity(cluster(), asked(40, 1)),
    "never under restricted": _restricted,
    "never, by a declared class alone": lambda: capacity(ledger(), asked(4, 5), rules=CapacityRules(classes=(CLASS,))),
    "would wait, on a scheduler's node": lambda: capacity(by_scheduler([(4, 6)]), asked(4, 3)),
    "never, for the node has another policy": lambda: capacity(by_scheduler(node_policy="Restricted"), asked(4, 2)),
    "never on a scheduler's machine": lambda: capacity(by_scheduler(), asked(4, 5)),
    "unknown, no node": lambda: capacity(ledger(), asked()),
    "unknown, no topology": lambda: capacity(cluster(node("gpu-1", None, labels=TOPOLOGY)), asked()),
    "unknown, claims": lambda: capacity(cluster(), asked(spec={"resourceClaims": [{"name": "gpu"}]})),
    "unknown, scheduler": lambda: capacity(cluster(), asked(spec={"schedulerName": "mine"})),
    "GPUs without pinned CPUs": lambda: capacity(cluster(), asked(marked=False, cpu="3500m", gpu=1)),
    "a Deployment of which some fit": lambda: capacity(cluster(), deployment(asked(4, 4), 5)),
    "a Deployment whose surge does not fit": lambda: capacity(cluster(), deployment(asked(4, 4), 2)),
    "a Deployment that never fits": lambda: capacity(cluster(), deployment(asked(4, 5), 2)),
    "a Deployment that is scaled": lambda: capacity(
        cluster(), deployment(asked(4, 4), 9), old=deployment(asked(4, 4), 2)
    ),
    "a Deployment whose template changes": lambda: capacity(
        cluster(bound=FULL), deployment(asked(4, 3), 2), old=deployment(asked(4, 4), 2)
    ),
    "a binding that is steered": _bind_refused,
    "a binding with no other node": _bind_refused_nowhere,
    "a binding of a pod with volume claims": _bind_refused_with_volumes,
    "a binding out of turn": _out_of_turn,
}


def said(decision) -> str:
    """Return the decision as text: what is denied or warned, one line each."""
    lines = [f"{finding.severity.value}: {finding}" for finding in decision.findings]
    return "\n".join([("allowed" if decision.allowed else "refused"), *lines])


if __name__ == "__main__":
    sys.stdout.write("\n\n".join(f"# {name}\n{said(case())}" for name, case in CASES.items()) + "\n")
