"""Creates that come to nothing and are tried again under a new UID: the ledger ends at what is stored, each time."""

import pytest
from support_guarded import GPU, fresh_namespace, pod, workload
from support_living import Living
from support_other_team import denied_by_another
from support_truth import until

from webhook.core.ledger.records import EntryState


@pytest.fixture
def space(living: Living, request):
    """A fresh namespace; when all that is in it has gone, the ledger holds what a fresh list says."""
    with fresh_namespace(living.plane, request.node.name) as name:
        yield name
    living.converges()


def claims(living, space):
    """The claims of a namespace that nothing stored stands behind."""
    found = living.book.snapshot().entries.values()
    return [entry for entry in found if entry.pod.namespace == space and entry.state is EntryState.CLAIMED]


def submit(living, space, body):
    """Create a workload."""
    path = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}[body["kind"]]
    plural = f"{body['kind'].lower()}s"
    living.plane.api("POST", f"/apis/{path}/namespaces/{space}/{plural}", body).wanted()


def closed_by_quota(living, space):
    """Let no pod into the namespace; returns what lets them in again."""
    path = f"/api/v1/namespaces/{space}/resourcequotas"
    living.plane.api("POST", path, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}).wanted()
    until(lambda: living.plane.get(f"{path}/none").get("status", {}).get("hard"), "the quota to be in force")
    return lambda: living.plane.api("DELETE", f"{path}/none").wanted()


@pytest.mark.parametrize(
    "kind",
    # A Deployment's pods get a generated name with each try, a StatefulSet's keep theirs.
    ("Deployment", "StatefulSet"),
)
class TestRetries:
    """A controller that is refused tries again, and each try is another UID that the ledger has admitted."""

    def test_a_quota_that_refuses_and_is_lifted(self, living, space, kind):
        pool = living.pool()
        opens = closed_by_quota(living, space)
        before = living.ours.notices("claim-expired")
        submit(living, space, workload(kind, "tries", pool, 4))
        until(lambda: living.ours.notices("claim-expired") > before, "a claim to come to nothing")
        opens()
        until(lambda: [item["status"]["phase"] for item in living.pods(space)] == ["Running"], "the pod", 120)
        until(lambda: not claims(living, space), "the claims to end")
        assert living.view(f"{pool}-0").bound_totals[GPU] == 4
        living.no_admission_errors(space)
        living.converges()

    def test_a_webhook_that_refuses_and_goes_away(self, living, space, kind, tmp_path):
        pool = living.pool()
        before = living.ours.notices("claim-expired")
        with denied_by_another(living.plane, tmp_path, space):
            submit(living, space, workload(kind, "tries", pool, 4))
            until(lambda: living.ours.notices("claim-expired") > before, "a claim to come to nothing")
        until(lambda: [item["status"]["phase"] for item in living.pods(space)] == ["Running"], "the pod", 120)
        until(lambda: not claims(living, space), "the claims to end")
        living.no_admission_errors(space)
        living.converges()


class TestNames:
    """Two UIDs under one name."""

    def test_a_create_of_a_name_that_runs_leaves_the_running_one_alone(self, living, space):
        pool = living.pool()
        living.create(space, pod("a", pool, 3)).wanted()
        living.runs(space, "a")
        held = living.entry(space, "a")
        assert living.create(space, pod("a", pool, 4)).json()["reason"] == "AlreadyExists"
        until(lambda: not claims(living, space), "the claim to end")
        assert living.entry(space, "a") == held
        # Bindings of people carry no UID: then the name must lead to the pod that is stored.
        assert living.book.entry("", space, "a") == held
        living.converges()

    def test_a_name_that_is_deleted_by_force_and_created_anew_at_once(self, living, space):
        pool = living.pool()
        uids = []
        for _ in range(5):
            living.create(space, pod("a", pool, 4)).wanted()
            living.runs(space, "a")
            uids.append(living.get(space, "a")["metadata"]["uid"])
            living.plane.api("DELETE", f"/api/v1/namespaces/{space}/pods/a?gracePeriodSeconds=0").wanted()
        living.create(space, pod("a", pool, 4)).wanted()
        living.create(space, pod("b", pool, 4)).wanted()
        living.runs(space, "a")
        living.runs(space, "b")
        until(lambda: not any(living.book.entry(uid) for uid in uids), "the old ones to be forgotten")
        assert living.book.entry("", space, "a") == living.entry(space, "a")
        living.no_admission_errors(space)
        living.converges()


class TestEnds:
    """Pods that end in every way there is."""

    def test_evicted_deleted_by_force_and_gone_with_their_namespace(self, living, space):
        pool, other = living.pool(), living.pool()
        for name in ("evicted", "forced"):
            living.create(space, pod(name, pool, 4)).wanted()
            living.runs(space, name)
        living.create(space, pod("waits", other, 4, nodeSelector={"no": "where"})).wanted()
        for name in ("evicted", "waits"):
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": space}}
            living.plane.api("POST", f"/api/v1/namespaces/{space}/pods/{name}/eviction", eviction).wanted()
        living.plane.api("DELETE", f"/api/v1/namespaces/{space}/pods/forced?gracePeriodSeconds=0").wanted()
        until(lambda: living.view(f"{pool}-0").bound == (), "the ledger to let both go")
        living.converges()
        with fresh_namespace(living.plane, "goes") as goes:
            for at in range(2):
                living.create(goes, pod(f"p{at}", pool, 4)).wanted()
                living.runs(goes, f"p{at}")
            living.plane.api("DELETE", f"/api/v1/namespaces/{goes}").wanted()
            until(lambda: living.view(f"{pool}-0").bound == (), "the ledger to let both go")
        living.no_admission_errors(space)
        living.converges()

    def test_a_pod_that_is_being_deleted_holds_until_it_is_gone(self, living, space):
        """It is stored with a finalizer, so its end takes as long as we like: its kubelet has stopped it before."""
        pool = living.pool()
        body = pod("ends", pool, 4)
        body["metadata"]["finalizers"] = ["scenes.example/wait"]
        living.create(space, body).wanted()
        living.runs(space, "ends")
        living.create(space, pod("stays", pool, 4)).wanted()
        living.runs(space, "stays")
        living.plane.api("DELETE", f"/api/v1/namespaces/{space}/pods/ends").wanted()
        until(lambda: living.phase(space, "ends") == "Failed", "its kubelet to stop it")
        # Ended, it holds nothing any more, whatever keeps it in the store.
        until(lambda: living.view(f"{pool}-0").bound_totals[GPU] == 4, "the ledger to free its place")
        living.create(space, pod("next", pool, 4)).wanted()
        living.runs(space, "next")
        path = f"/api/v1/namespaces/{space}/pods/ends"
        patch = {"metadata": {"finalizers": None}}
        living.plane.api("PATCH", path, patch, content_type="application/merge-patch+json").wanted()
        until(lambda: living.get(space, "ends") is None, "the end of the pod")
        living.no_admission_errors(space)
        living.converges()
