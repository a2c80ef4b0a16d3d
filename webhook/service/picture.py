"""A cluster picture as a ledger: for the demo, the checker and the map."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from math import inf
from typing import Final

from webhook.core.ledger import events
from webhook.core.ledger.charges import Allocators
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.proofs import Proof, prove
from webhook.core.ledger.records import PodRecord
from webhook.core.ledger.verdicts import MachineClass, Outcome, Verdict, judge
from webhook.wire.pictures import Picture, read_picture

DEMO_FILE: Final = "demo_picture.yaml"


def load_picture(text: str | Mapping[str, str], name: str = "<picture>") -> Picture:
    """Return the picture in ``text``, or in several texts by file name; look at its ``faults`` before using it."""
    return read_picture({name: text} if isinstance(text, str) else text)


def demo_text() -> str:
    """Return the built-in picture of a small GPU cluster, YAML."""
    return files("webhook.service").joinpath(DEMO_FILE).read_text(encoding="utf-8")


def demo_picture() -> Picture:
    """Return the built-in picture of a small GPU cluster."""
    return load_picture(demo_text(), DEMO_FILE)


def events_of(picture: Picture) -> tuple[events.LedgerEvent, ...]:
    """Return what an empty ledger is to be told so that it holds ``picture``.

    Pods whose place is told come first. Of the others nobody knows the history, so their places are guesses.
    """
    seen: list[events.LedgerEvent] = [events.NodeSeen(record) for record in picture.nodes]
    pods = sorted(picture.pods, key=lambda pod: (not pod.node_name, pod.confirmed is None))
    seen.extend(events.PodSeen(pod, is_history=bool(pod.node_name)) for pod in pods)
    return tuple(seen)


def ledger_of(picture: Picture, allocators: Allocators, now_seconds: float) -> Ledger:
    """Return a new ledger that holds ``picture``."""
    ledger = Ledger(allocators)
    for event in events_of(picture):
        ledger.apply(event, now_seconds)
    ledger.take_notices()
    return ledger


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of one pod after those before it, and the proof where it does not fit."""

    pod: PodRecord
    """With a UID of its own where it had none: the ledger knows it by that."""
    verdict: Verdict
    proof: Proof | None = None

    @property
    def fits(self) -> bool:
        """Whether it has a place."""
        return self.verdict.outcome is Outcome.FITS


def fits_together(
    ledger: Ledger, pods: Iterable[PodRecord], classes: Iterable[MachineClass] = (), *, now_seconds: float
) -> tuple[Answer, ...]:
    """Return what becomes of ``pods``, one after another; each that fits takes its room from the next.

    ``ledger`` is the caller's own: the claims stay in it, for ever.
    """
    known = tuple(classes)
    answers: list[Answer] = []
    for number, asked in enumerate(pods):
        taken = not asked.uid or asked.uid in ledger.entries
        pod = (
            replace(asked, uid=f"asked/{len(ledger.entries)}.{number}/{asked.namespace}/{asked.name}")
            if taken
            else asked
        )
        verdict = judge(ledger, pod, known)
        if verdict.placement is None:
            answers.append(Answer(pod, verdict, prove(ledger, pod, verdict, now_seconds)))
            continue
        ledger.apply(events.Claimed(pod, verdict.node, verdict.placement, until_seconds=inf), now_seconds)
        answers.append(Answer(pod, verdict))
    return tuple(answers)
