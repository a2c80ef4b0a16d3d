"""Every review recorded from a real API server gets the right verdict from the rules."""

from pathlib import Path

import pytest
from support.builders import GUIDE_COMPACT, SINGLE, SPEC_KEY

from webhook.core.decide import decide_mutate, decide_validate
from webhook.core.decisions import RequireNodeLabel, SetAnnotation
from webhook.core.modes import Rules
from webhook.wire.reviews import decode_review

RECORDED = Path(__file__).parents[2] / "recorded"
RULES = Rules()
LABEL = RequireNodeLabel("ack.node.gpu.schedule", ("topology",))
GUIDE = [SetAnnotation(SPEC_KEY, GUIDE_COMPACT), LABEL]
CARRIED = [SetAnnotation(SPEC_KEY, SINGLE), LABEL]

# The recording's webhook changed nothing, so the guide's pods arrive at validate unrepaired: mutate was missed.
MISSED = (False, ["SPEC_REPAIRABLE_JSON", "NODE_LABEL_NOT_DEMANDED"])
SILENT = (True, [])

VALIDATED = {
    "pod-create-apply": MISSED,
    "pod-create-dryrun": MISSED,
    "pod-create-generatename": MISSED,
    "pod-create-replicaset": (False, ["SPEC_HOME_OLDER", "NODE_LABEL_NOT_DEMANDED"]),
    "pod-create-daemonset": SILENT,
    "pod-create-job": (True, ["NODE_LABEL_NOT_DEMANDED"]),
    "pod-create-gated": (True, ["NODE_LABEL_NOT_DEMANDED", "CPUSET_WITHOUT_SPEC"]),
    "pod-create-nodename": SILENT,
    "pod-create-limits-only": SILENT,
    "pod-create-podlevel-resources": SILENT,
    "pod-update-label": SILENT,
    "pod-update-remove-numa-annotation": (False, ["UPDATE_SCHEDULED"]),
    "pod-update-change-numa-annotation": SILENT,
    "pod-update-image": SILENT,
    "pod-update-remove-scheduling-gate": SILENT,
    "pod-status-update-kubelet": SILENT,
    "pod-ephemeralcontainers": SILENT,
    "pod-resize": SILENT,
    "pod-resize-fractional": (False, ["CPU_NOT_WHOLE"]),
    "pod-resize-requests-only": (False, ["CPU_NOT_EQUAL"]),
    "pod-binding": SILENT,
    "pod-eviction": SILENT,
    "pod-eviction-pending": SILENT,
    "pod-delete-graceful-user": SILENT,
    "pod-delete-final-kubelet": SILENT,
    "pod-delete-final-kubelet-2": SILENT,
    "pod-delete-force-user": SILENT,
    "pod-delete-dryrun": SILENT,
    "pod-delete-preemption": SILENT,
    "pod-delete-namespace-deletion": SILENT,
    "deployment-create": (True, ["SPEC_HOME_OLDER"]),
    "deployment-scale": SILENT,
    "replicaset-create": (True, ["SPEC_HOME_OLDER"]),
    "statefulset-create": SILENT,
    "daemonset-create": SILENT,
    "job-create": SILENT,
    "cronjob-create": SILENT,
    "job-create-by-cronjob": SILENT,
}

MUTATED = {
    "pod-create-apply": GUIDE,
    "pod-create-dryrun": GUIDE,
    "pod-create-generatename": GUIDE,
    "pod-create-server-side-apply": GUIDE,
    "pod-create-replicaset": CARRIED,
    "pod-create-statefulset": [LABEL],
    "pod-create-limitrange": [],
    "pod-create-invalid-requests-over-limits": [],
    "pod-create-invalid-half-gpu": [],
    "pod-update-cpu-invalid": [],
    "pod-binding": [],
}


def recorded(name, hook):
    """Return the question of the recording, as the server asks it."""
    body = (RECORDED / f"{name}.{hook}.json").read_bytes()
    return decode_review(body, wants=RULES.vocabulary.carries_mark).ask


@pytest.mark.parametrize("name", VALIDATED)
def test_validate(name):
    """The verdict and all findings are these."""
    decision = decide_validate(recorded(name, "validating"), RULES)
    assert (decision.allowed, [finding.code for finding in decision.findings]) == VALIDATED[name]


@pytest.mark.parametrize("name", MUTATED)
def test_mutate(name):
    """The edits are these."""
    assert list(decide_mutate(recorded(name, "mutating"), RULES).edits) == MUTATED[name]


def test_no_recording_is_left_out():
    """Each file has a row."""
    rows = {f"{name}.validating.json" for name in VALIDATED} | {f"{name}.mutating.json" for name in MUTATED}
    assert {path.name for path in RECORDED.glob("*.json")} == rows
