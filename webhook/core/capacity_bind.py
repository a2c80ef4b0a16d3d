"""The ledger's second question: will this node take this pod now? The bind guard (``DESIGN.md`` 4)."""

from dataclasses import replace
from math import inf
from typing import Final

from webhook.core.capacity_rules import CapacityRules, Mode
from webhook.core.decisions import Ask, Decision, Operation
from webhook.core.findings import Finding
from webhook.core.ledger import reasons
from webhook.core.ledger.events import BindingAdmitted, BindingRefused
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.orders import every_order_works
from webhook.core.ledger.proofs import asked, numa_rooms, policy_words
from webhook.core.ledger.records import AllocatorKind, Entry, EntryState, NodeView
from webhook.core.ledger.verdicts import Outcome
from webhook.core.occupancy import holds_nothing
from webhook.core.placement import Placement
from webhook.core.plain_text import plain
from webhook.core.pod import Binding

MOST_TRIES_ON_OPEN: Final = 20
"""Refusals of one pod at nodes with several accounts, or with a refusal of the kubelet's own, before the guard gives
way: with the scheduler's back-off of at most 11 s, after about three minutes."""
MOST_OPEN_NODES: Final = 8
"""Nodes that fit by their first account only and are passed over in one search: there is seldom more than one."""


MOST_NAMED_CLAIMS: Final = 3


def decide_bind(
    ask: Ask,
    ledger: Ledger,
    rules: CapacityRules,
    now_seconds: float,
    shunned: frozenset[str] = frozenset(),
) -> Decision:
    """Return whether a pod may be bound to a node: refused only where the node's kubelet would refuse it.

    ``shunned`` are nodes that the scheduler does not take for this pod: a refusal steers it to none of them.
    """
    binding = ask.subject
    if not isinstance(binding, Binding) or ask.operation is not Operation.CREATE:
        return Decision.allow()
    entry = ledger.entry(binding.pod_uid, binding.namespace or ask.namespace, binding.pod_name)
    view = ledger.views.get(binding.node_name)
    if entry is None or view is None:
        return Decision.allow()
    # A second binding of one that was let through: asked again, or the first came to nothing after us.
    if entry.state is EntryState.BOUND and (not entry.is_assumed or entry.node == binding.node_name):
        return Decision.allow()
    admitted = BindingAdmitted(entry.uid, binding.node_name, now_seconds + rules.binding_seconds)
    if rules.mode(Outcome.WOULD_FAIL, binding.namespace or ask.namespace) in {Mode.OFF, Mode.WARN}:
        return Decision.allow(event=admitted)
    refusal = _refusal(ledger, view, entry, rules, now_seconds)
    if refusal is None:
        return Decision.allow(event=admitted)
    steer_to = _steer_to(ledger, entry, shunned | {view.record.name})
    if refusal.code == reasons.BINDING_WOULD_FAIL.code:
        refusal = replace(refusal, next_step=f"{_where_to(steer_to)}{_ties(entry, view.record.name)}")
    refused = BindingRefused(entry.uid, steer_to, now_seconds + rules.steering_seconds)
    return Decision(allowed=False, findings=(refusal,), event=refused)


def _where_to(steer_to: str) -> str:
    if steer_to:
        return f"The pod is steered to node {steer_to}, which fits."
    return "No other node fits now; the pod waits and is bound when room is free."


def _ties(entry: Entry, node: str) -> str:
    """Return what may keep the pod from going elsewhere: the scheduler ties volumes to a node before it binds the pod.

    Whether a claim waited for its first consumer is in no event that the ledger hears.
    """
    claims = entry.pod.volume_claims
    if not claims:
        return ""
    names = ", ".join(map(plain, claims[:MOST_NAMED_CLAIMS]))
    if len(claims) > MOST_NAMED_CLAIMS:
        names += f" and {len(claims) - MOST_NAMED_CLAIMS} more"
    claim = "claim" if len(claims) == 1 else "claims"
    return (
        f" If its volume {claim} {names} waited for a first consumer, that ties the pod to node {node} or its zone "
        "since this try: then it waits for room there."
    )


def _refusal(ledger: Ledger, view: NodeView, entry: Entry, rules: CapacityRules, now_seconds: float) -> Finding | None:
    """Return why the binding is turned back, or None where it may pass."""
    machine, state = view.record.machine, view.bound_state
    if view.record.allocator is not AllocatorKind.KUBELET or machine is None or state is None:
        return None
    accounts = (view, *ledger.alternatives(view.record.name))
    placements = [_placed(ledger, account, entry) for account in accounts]
    path, pod = "target", f"{entry.pod.namespace}/{entry.pod.name}"
    if None in placements:
        is_open = any(placement is not None for placement in placements)
        if entry.tries >= (MOST_TRIES_ON_OPEN if is_open else rules.most_tries_on_guess if view.is_guessed else inf):
            return None
        free = numa_rooms(machine, accounts[placements.index(None)].bound_state or state)
        proof = f"Free there ({policy_words(view.record)}): {free}. Asked: {asked(entry.pod.demand)}."
        problem = f"Node {view.record.name}'s kubelet would refuse pod {pod} for good."
        if is_open:
            problem = (
                f"Node {view.record.name}'s kubelet may refuse pod {pod} for good: a pod ended there just as another "
                "came, and which of them was first is not known."
            )
        return replace(reasons.BINDING_WOULD_FAIL.at(path, problem), proof=proof)
    if all(placement is not None and holds_nothing(placement.holding) for placement in placements):
        return None
    if ledger.has_refused(view.record.name, entry.pod.demand) and entry.tries < MOST_TRIES_ON_OPEN:
        problem = f"Node {view.record.name}'s kubelet has refused an equal pod, and nothing was freed there since."
        return reasons.BINDING_WOULD_FAIL.at(path, problem)
    for account in accounts:
        in_flight = [other for other in account.bound if _is_in_flight(other, rules, now_seconds)]
        if in_flight and not every_order_works(ledger.charges, account, in_flight, entry):
            names = ", ".join(f"{other.pod.namespace}/{other.pod.name}" for other in in_flight[:3])
            problem = f"Node {view.record.name}'s kubelet has not answered yet for {names}, bound just before."
            return reasons.BINDING_OUT_OF_TURN.at(path, problem)
    return None


def _placed(ledger: Ledger, account: NodeView, entry: Entry) -> Placement | None:
    state = account.bound_state
    return None if state is None else ledger.charges.place(account, state, entry.pod.demand)


def _is_in_flight(entry: Entry, rules: CapacityRules, now_seconds: float) -> bool:
    """Return whether the kubelet has yet to say that it took ``entry``; after a while it is believed without a word.

    Else a kubelet that stays Ready and never answers would hold up every equal pod for ever.
    """
    if entry.pod.is_answered or entry.holding is None or holds_nothing(entry.holding):
        return False
    return now_seconds - entry.since_seconds < rules.answer_seconds


def _steer_to(ledger: Ledger, entry: Entry, avoid: frozenset[str]) -> str:
    """Return the node that the pod should try next; empty where none fits for sure."""
    if entry.node and entry.node not in avoid and _fits_for_sure(ledger, entry, entry.node):
        return entry.node
    for _ in range(MOST_OPEN_NODES):
        node = ledger.find(entry.pod, avoid=avoid).node
        if not node or _fits_for_sure(ledger, entry, node):
            return node
        avoid |= {node}
    return ""


def _fits_for_sure(ledger: Ledger, entry: Entry, node: str) -> bool:
    if ledger.has_refused(node, entry.pod.demand):
        return False
    return all(_placed(ledger, account, entry) is not None for account in ledger.alternatives(node))
