"""What to do about our certificates at a moment: facts in, one action and its reason out. Pure.

Overlap, so that no call fails while an authority is replaced. Replicas and API servers learn of a change late, by up to
``Policy.propagation``; so there are three writes with a wait between each two:

    BEGIN_OVERLAP    the bundle names the new authority beside the old; the old one still signs and is still served
      wait 1         until every API server must trust the new authority
    SWITCH_LEAF      the new authority signs the leaf; the bundle still names both
      wait 2         until every replica must serve that leaf
    FINISH_OVERLAP   the bundle names the new authority only

Everything is timed by shares of the lifetime found in the certificates, so that a certificate of a minute is rotated as
well as one of ten years; a fixed look-ahead ("30 days before") would renew a short one for ever.
"""

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta

from certs.checks import chains_to, faults_in_time, faults_of_server
from certs.holdings import Holdings
from certs.moments import in_words
from certs.names import Names, uncovered
from certs.pki import Certificate
from certs.policy import Policy

_SAME_END = timedelta(seconds=1)  # X.509 counts whole seconds


class Action(enum.Enum):
    """One write to the Secret, or none."""

    KEEP = "keep"
    START = "start"
    """A new authority and leaf at once: nothing that could be served is left."""
    RENEW_LEAF = "renew leaf"
    BEGIN_OVERLAP = "begin overlap"
    NOTE_TRUST = "note trust"
    """Write down that every configuration holds both authorities: wait 1 begins."""
    FORGET_TRUST = "forget trust"
    """A configuration lost the bundle: wait 1 begins anew once it holds it again."""
    SWITCH_LEAF = "switch leaf to the new authority"
    NOTE_SWITCH = "note switch"
    """Older authorities are trusted and nobody wrote down since when they are not needed: wait 2 begins."""
    FINISH_OVERLAP = "finish overlap"
    REPAIR = "repair"
    """The Secret's data are not what we would write for their own content (an order, a spelling, a leaf in ca.crt)."""


class Asked(enum.Enum):
    """What a person asked for, ahead of its time (``certs rotate``)."""

    NOTHING = "nothing"
    LEAF = "leaf"
    AUTHORITY = "authority"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a look found."""

    holdings: Holdings
    in_order: bool = True
    """The Secret's data are byte for byte what we would write for the holdings."""
    behind: tuple[str, ...] = ()
    """Names of the configurations that do not hold the holdings' bundle."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One action, why, and when to look again (now, if the action makes another look worth while)."""

    action: Action
    reason: str
    look_at: datetime


def plan(facts: Facts, policy: Policy, now: datetime, asked: Asked = Asked.NOTHING) -> Plan:
    """Return the one thing to do now. Does nothing twice: after the action, the same question has another answer."""
    return _Case(facts, policy, now, asked).decide()


@dataclass(frozen=True, slots=True)
class _Case:
    facts: Facts
    policy: Policy
    now: datetime
    asked: Asked

    def decide(self) -> Plan:
        held = self.facts.holdings
        dead = self._leaf_is_dead()
        if dead and not self._can_sign():  # 1. no leaf and no way to sign one: there are no calls left to protect
            if held.next_signer is not None and held.next_signer.certificate.valid_at(self.now):
                return self._do(Action.SWITCH_LEAF, f"{dead} Its signer cannot replace it, and the next one can.")
            return self._do(Action.START, dead)
        if dead:  # 2. no leaf, but a signer that is trusted already
            return self._do(Action.RENEW_LEAF, dead)
        if self._can_sign() and (lacking := self._lacking_names()):  # 3. a name is wanted that was not
            return self._do(Action.RENEW_LEAF, lacking)
        if held.next_signer is not None:  # 4. between BEGIN_OVERLAP and SWITCH_LEAF
            return self._overlap(held.next_signer.certificate)
        return self._settled()  # 5. one signer, perhaps with older authorities that are still trusted

    def _overlap(self, following: Certificate) -> Plan:
        held, now = self.facts.holdings, self.now
        if faults_in_time(following, now):
            return self._do(Action.BEGIN_OVERLAP, "The next authority's time is over before it signed anything.")
        if self.facts.behind:
            if held.trusted_since is not None:
                return self._do(
                    Action.FORGET_TRUST, f"{', '.join(self.facts.behind)} lost the bundle; the wait starts over."
                )
            return self._unless_leaf_due(now, f"{', '.join(self.facts.behind)} does not hold both authorities yet.")
        since = held.trusted_since
        if since is None or since > now:  # a moment in the future: the clock was set back
            return self._do(Action.NOTE_TRUST, "Every configuration holds both authorities.")
        switch_at = since + self._wait_for_trust(since)
        if now >= switch_at:
            return self._do(Action.SWITCH_LEAF, f"Both authorities have been trusted since {in_words(since)}.")
        return self._unless_leaf_due(
            switch_at, f"Both authorities are trusted; the leaf switches at {in_words(switch_at)}."
        )

    def _unless_leaf_due(self, look_at: datetime, reason: str) -> Plan:
        due = self._leaf_due_at()
        if due is not None and self.now >= due:
            return self._do(Action.RENEW_LEAF, "The leaf has used up its share of its lifetime.")
        return Plan(Action.KEEP, reason, min(look_at, due) if due is not None else look_at)

    def _settled(self) -> Plan:
        held, now = self.facts.holdings, self.now
        looks = []
        if held.older and self._leaf_is_by_signer():
            switched = held.switched_at
            if switched is None or switched > now:
                return self._do(Action.NOTE_SWITCH, "Older authorities are trusted, and it was not noted since when.")
            finish_at = switched + self._wait_for_replicas(self._signer())
            if now >= finish_at:
                return self._do(Action.FINISH_OVERLAP, "No replica serves a leaf by an older authority any more.")
            looks.append(finish_at)
        if not self._can_sign():
            return self._do(Action.BEGIN_OVERLAP, self._why_no_signer())
        signer_due = self._due(self._signer())
        if now >= signer_due:
            return self._do(Action.BEGIN_OVERLAP, "The authority has used up its share of its lifetime.")
        if self.asked is Asked.AUTHORITY:
            return self._do(Action.BEGIN_OVERLAP, "A new authority was asked for.")
        leaf_due = self._leaf_due_at()
        if leaf_due is not None and now >= leaf_due:
            return self._do(Action.RENEW_LEAF, "The leaf has used up its share of its lifetime.")
        if self.asked is Asked.LEAF:
            return self._do(Action.RENEW_LEAF, "A new leaf was asked for.")
        if not self.facts.in_order:
            return self._do(Action.REPAIR, "The Secret's data are not in the form that we write.")
        looks += [signer_due, *([leaf_due] if leaf_due is not None else [])]
        return Plan(Action.KEEP, "Nothing is due.", min(looks))

    def _do(self, action: Action, reason: str) -> Plan:
        return Plan(action, reason, self.now)

    # Facts about the facts.

    def _can_sign(self) -> bool:
        signer = self.facts.holdings.signer
        return signer is not None and signer.certificate.is_authority and signer.certificate.valid_at(self.now)

    def _signer(self) -> Certificate:
        signer = self.facts.holdings.signer
        if signer is None:  # callers ask _can_sign first
            raise LookupError("There is no signer.")
        return signer.certificate

    def _leaf_is_by_signer(self) -> bool:
        leaf = self.facts.holdings.leaf
        return self._can_sign() and leaf is not None and leaf.certificate.issued_by(self._signer())

    def _why_no_signer(self) -> str:
        signer = self.facts.holdings.signer
        if signer is None:
            return "There is no authority of ours that could sign the next leaf."
        return (
            "".join(str(fault) for fault in faults_in_time(signer.certificate, self.now)) or "The signer may not sign."
        )

    def _leaf_is_dead(self) -> str:
        """Return why a TLS client refuses the leaf now; missing names aside, which concern some clients only."""
        held = self.facts.holdings
        if held.leaf is None:
            return "".join(str(fault) for fault in held.faults[:1]) or "There is no serving certificate."
        leaf = held.leaf.certificate
        for fault in faults_of_server(leaf, self.now, Names()):
            return str(fault)
        if not chains_to(leaf, held.leaf.chain, held.trusted, self.now):
            return "The serving certificate was not signed by any of the trusted authorities."
        return ""

    def _lacking_names(self) -> str:
        leaf = self.facts.holdings.leaf
        missing = uncovered(self.policy.names, leaf.certificate.names) if leaf is not None else ()
        return f"The leaf does not cover {', '.join(sorted(missing))}." if missing else ""

    # Times.

    def _due(self, certificate: Certificate) -> datetime:
        return certificate.not_before + certificate.lifetime * self.policy.renew_at_share

    def _leaf_due_at(self) -> datetime | None:
        """Return when the signer should sign the next leaf, or None where that would gain no time.

        A leaf that was cut to its signer's end cannot be lengthened by that signer; the overlap replaces both.
        """
        held = self.facts.holdings
        if held.leaf is None or not self._can_sign():
            return None
        leaf = held.leaf.certificate
        if leaf.not_after >= self._signer().not_after - _SAME_END:
            return None
        return self._due(leaf)

    def _wait_for_trust(self, since: datetime) -> timedelta:
        """Return wait 1: three of it fit before the end, for the wait, the replicas' delay, and as much in reserve."""
        held = self.facts.holdings
        ends = [self._signer().not_after] if self._can_sign() else []
        if held.leaf is not None and not ends:
            ends.append(held.leaf.certificate.not_after)
        return min([self.policy.propagation, *((end - since) / 3 for end in ends)])

    def _wait_for_replicas(self, signer: Certificate) -> timedelta:
        """Return wait 2. Twice the delay, for it costs nothing: the write itself may have taken its time.

        At most a sixth of the new signer's lifetime, so that the overlap is over before its own successor is due.
        """
        return min(2 * self.policy.propagation, signer.lifetime / 6)
