"""What is bound while nobody asks the ledger: it is charged, a node that is too full is seen to be, failures count."""

import signal

import pytest
from support_guarded import GPU, fresh_namespace, pod
from support_living import Living
from support_truth import until

from webhook.core.ledger.records import EntryState


@pytest.fixture
def space(living: Living, request):
    """A fresh namespace; when all that is in it has gone, the ledger holds what a fresh list says."""
    with fresh_namespace(living.plane, request.node.name) as name:
        yield name
    living.converges()


@pytest.fixture
def frozen(living: Living):
    """Freeze the kubelets, `frozen()`; they go on at the end, or when what it returns is called."""

    def freeze():
        living.hollow.running.process.send_signal(signal.SIGSTOP)
        return thaw

    def thaw():
        living.hollow.running.process.send_signal(signal.SIGCONT)

    yield freeze
    thaw()


def test_an_admission_error_that_nobody_prevented_is_counted_and_told(living, space):
    pool = living.pool()
    for at in range(2):
        living.create(space, pod(f"three-{at}", pool, 3)).wanted()
        living.runs(space, f"three-{at}")
    before = living.ours.notices("refused-not-prevented")
    with living.unasked():
        living.create(space, pod("split", pool, 2)).wanted()
        until(lambda: living.phase(space, "split") == "Failed", "the kubelet to refuse it")
    assert living.get(space, "split")["status"]["reason"] == "TopologyAffinityError"
    until(lambda: living.ours.notices("refused-not-prevented") == before + 1, "it to be counted")
    (told,) = (line for line in living.ours.said("divergence") if line["namespace"] == space)
    assert (told["name"], told["kind"], told["kubelet"]) == ("split", "refused-not-prevented", "TopologyAffinityError")
    # It was foreseen: nothing that the ledger knew of the node is in doubt, and the guard stands as before.
    assert not living.view(f"{pool}-0").is_guessed
    assert living.create(space, pod("next", pool, 2)).status == 403
    living.create(space, pod("one", pool, 1)).wanted()
    living.runs(space, "one")
    living.converges()


def test_a_node_that_was_overfilled_is_seen_to_be_until_its_kubelet_has_spoken(living, space, frozen):
    """Three pods name a node that has room for two, and its kubelet is slow."""
    pool = living.pool()
    node = f"{pool}-0"
    with living.unasked():
        thaw = frozen()
        for at in range(3):
            living.create(space, pod(f"p{at}", pool, 4, nodeName=node)).wanted()
    until(lambda: len(living.view(node).bound) == 3, "the ledger to see all three")
    view = living.view(node)
    assert (view.bound_totals[GPU], view.free(GPU)) == (12, -4)
    assert [entry.holding is None for entry in view.bound] == [False, False, True]
    assert not living.fits(space, pod("probe", pool, 1))
    living.converges()
    thaw()
    until(
        lambda: sorted(item["status"]["phase"] for item in living.pods(space)) == ["Failed", "Running", "Running"], ""
    )
    until(lambda: living.view(node).bound_totals[GPU] == 8, "the ledger to let the refused one go")
    assert all(entry.state is EntryState.BOUND and entry.holding is not None for entry in living.view(node).bound)
    living.converges()


def test_pods_that_fit_are_charged_where_they_were_bound(living, space):
    """What passed unjudged and runs is as well known as what was judged."""
    pool = living.pool()
    with living.unasked():
        for at, gpus in enumerate((3, 3)):
            living.create(space, pod(f"p{at}", pool, gpus)).wanted()
            living.runs(space, f"p{at}")
    until(lambda: living.view(f"{pool}-0").bound_totals.get(GPU) == 6, "the ledger to follow")
    assert not living.view(f"{pool}-0").is_guessed
    assert living.create(space, pod("two", pool, 2)).status == 403
    living.takes(space, pod("one", pool, 1))


def _phases(living, space):
    return sorted(item["status"]["phase"] for item in living.pods(space))
