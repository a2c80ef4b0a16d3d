"""The ledger with exactly the rights that the chart grants, by the API server's audit: none is missing, none unused."""

import base64
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "proof"), str(TESTS / "oracle"), str(TESTS / "helm")]

from controlplane.authority import create_authority  # noqa: E402 - the path is set above
from controlplane.binaries import APISERVER, locate_helm  # noqa: E402 - as above
from controlplane.starting import start  # noqa: E402 - as above
from hollow_nodes import hollow_nodes  # noqa: E402 - as above
from proof_machines import hollow_classes  # noqa: E402 - as above
from proof_server import registered, start_ledger  # noqa: E402 - as above
from proof_world import World, gpu_pod, only_on, prefers  # noqa: E402 - as above
from rendering import FULLNAME, NAMESPACE, Helm, only  # noqa: E402 - as above
from support_crds import DEVICES, TOPOLOGIES  # noqa: E402 - as above
from support_pods import account_kubeconfig  # noqa: E402 - as above
from support_truth import until  # noqa: E402 - as above

from webhook.cluster.client import Client  # noqa: E402 - as above
from webhook.cluster.endpoints import LeaderSlice, Place  # noqa: E402 - as above
from webhook.cluster.nominations import Nomination, Outcome, nominate  # noqa: E402 - as above
from webhook.service.checkpointing import SHARDS  # noqa: E402 - as above
from webhook.wire.checkpoint import unseal  # noqa: E402 - as above

ACCOUNT = f"{FULLNAME}-ledger"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
"""What two ledgers say that they are reached by: a slice must not name loopback."""
RENDERED = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount"}
STATE = {"ConfigMap", "Lease", "Service"}


class Right(NamedTuple):
    """One verb on one resource, of one name where the role names it."""

    group: str
    resource: str
    verb: str
    name: str = ""


class Call(NamedTuple):
    """What was asked for by the ledger's account, and how it was answered."""

    right: Right
    code: int


class Audit:
    """The API server's own record of one account's calls."""

    def __init__(self, folder: Path, user: str) -> None:
        """Write the policy; nothing is recorded before the API server runs with ``flags``."""
        self.log = folder / "audit.log"
        self._policy = folder / "audit-policy.yaml"
        rules = [{"level": "Metadata", "users": [user]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        self._policy.write_text(yaml.safe_dump(policy))

    @property
    def flags(self) -> tuple[str, ...]:
        """What the API server needs; it writes each line before it answers."""
        return (f"--audit-policy-file={self._policy}", f"--audit-log-path={self.log}", "--audit-log-mode=blocking")

    def calls(self) -> list[Call]:
        """Every call so far, those for no resource (discovery) left out where they were answered."""
        found = []
        for line in self.log.read_text().splitlines():
            event = json.loads(line)
            of = event.get("objectRef", {})
            resource = "/".join(part for part in (of.get("resource", ""), of.get("subresource", "")) if part)
            code = event.get("responseStatus", {}).get("code", 0)
            if resource or code >= 400:
                name = of.get("name", "") or event["requestURI"] * (not resource)
                found.append(Call(Right(of.get("apiGroup", ""), resource, event["verb"], name), code))
        return found


def rights_of(roles: list[dict]) -> set[Right]:
    """What roles grant, verb by verb and name by name."""
    return {
        Right(group, resource, verb, name)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def unused(granted: set[Right], calls: list[Call]) -> set[Right]:
    """Rights that no call needed."""
    named = {call.right for call in calls}
    nameless = {right._replace(name="") for right in named}
    return {right for right in granted if right not in (named if right.name else nameless)}


def refused(calls: list[Call]) -> set[Right]:
    """Rights that were asked for in vain."""
    return {call.right for call in calls if call.code in {401, 403}}


class Granted(NamedTuple):
    """A cluster in which the ledger's account has what the chart renders for it."""

    world: World
    audit: Audit
    rights: set[Right]
    kubeconfig: Path
    cluster: dict
    """The section ``cluster`` of the settings that the chart renders for the ledger."""


@pytest.fixture(scope="module")
def granted(control_plane_binaries, oracle, require, tmp_path_factory) -> Iterator[Granted]:
    binaries, program = locate_helm(os.environ)
    require(binaries, program)
    folder = tmp_path_factory.mktemp("rights")
    helm = Helm(str(binaries.path(program)), tmp_path_factory.mktemp("helm-home"))
    objects = helm.template("--set", "ledger.leaderElection=true,ledger.replicas=2")
    ours = [each for each in objects if each["kind"] in RENDERED and each["metadata"]["name"].endswith(ACCOUNT)]
    settings = yaml.safe_load(only(objects, "ConfigMap", f"{FULLNAME}-settings")["data"]["ledger.yaml"])
    audit = Audit(folder, USER)
    with ExitStack() as stack:
        plane = stack.enter_context(
            start(control_plane_binaries, folder / "plane", extra_flags={APISERVER: audit.flags})
        )
        for kind in (TOPOLOGIES, DEVICES):
            kind.install(plane)
        plane.create_namespace(NAMESPACE)
        plane.apply([*ours, *(each for each in objects if each["kind"] in STATE)], "-n", NAMESPACE)
        hollow = stack.enter_context(hollow_nodes(plane.kubeconfig(), hollow_classes(), folder, ["--nodes", "10"]))
        kubeconfig = folder / "account.kubeconfig"
        kubeconfig.write_text(account_kubeconfig(plane, NAMESPACE, ACCOUNT))
        rights = rights_of([each for each in ours if each["kind"] in {"Role", "ClusterRole"}])
        cluster = {key: value for key, value in settings["cluster"].items() if key != "live"}
        yield Granted(World(plane, hollow), audit, rights, kubeconfig, cluster)


@contextmanager
def serving(granted: Granted, folder: Path, address: str):
    """A ledger of this account that leads and guards bindings; it is killed at the end."""
    authority = create_authority(folder / "keys", folder.name)
    settings = {**granted.cluster, "advertise": f"{address}:8443"}
    ledger = start_ledger(folder / "ledger", authority, granted.kubeconfig, **settings)
    try:
        granted.world.until(ledger.leads, "a leader", 30)
        with registered(granted.world.plane, ledger.port, authority):
            yield ledger
    except Exception:
        # What was waited for in vain may have needed a right: then that is what the test says.
        assert refused(granted.audit.calls()) == set()
        raise
    finally:
        ledger.running.kill()


def test_every_right_that_is_granted_is_used_and_no_other_is_needed(granted, tmp_path):
    """Feeds, Lease, EndpointSlice, steering, checkpoint, a kill and a recall; then what happens once in a year."""
    world = granted.world
    with serving(granted, tmp_path / "first", ADDRESSES[0]) as ledger:
        world.create(*(gpu_pod(name, 3, 12, **only_on("single-0")) for name in ("one", "two")))
        world.until(lambda: world.running("one", "two"), "the first two")
        world.create(gpu_pod("moved", 2, 8, **prefers("single-0")))
        world.until(lambda: world.running("moved"), "the steered pod", 60)
        assert world.pod("moved")["spec"]["nodeName"] != "single-0"
        world.until(lambda: remembered(granted) == 3, "three places in the checkpoint", 30)
        assert ledger.metric("numa_admission_checkpoint_writes_total") >= SHARDS
        assert ledger.metric("numa_admission_nominations_total") >= 1
    with serving(granted, tmp_path / "second", ADDRESSES[1]) as ledger:
        assert ledger.metric("numa_admission_checkpoint_recalled_places_total") == 3
        of_leader = LeaderSlice(Client.from_environment(granted.kubeconfig), NAMESPACE, granted.cluster["service"])
        world.until(lambda: of_leader.points_to() == (ADDRESSES[1],), "the second ledger in the slice", 30)
        _rare(granted, of_leader)
    calls = granted.audit.calls()
    assert refused(calls) == set(), "a right is missing"
    assert unused(granted.rights, calls) == set(), "a right is granted that nobody uses"


def remembered(granted: Granted) -> int:
    """How many places the checkpoint has; its maps are read with the admin's rights."""
    collection = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    maps = [granted.world.plane.get(f"{collection}/{granted.cluster['checkpoint']}-{at}") for at in range(SHARDS)]
    blobs = [base64.b64decode(each["binaryData"]["places"]) for each in maps if "binaryData" in each]
    return sum(len(places) for blob in blobs for places in unseal(blob)[1].values())


def _rare(granted: Granted, of_leader: LeaderSlice) -> None:
    """Do with the account what the ledger does only now and then."""
    client = of_leader.client
    # A pod that has changed since the watch showed it is looked at before it is nominated.
    pod = granted.world.pod("moved")["metadata"]
    answer = nominate(client, Nomination(pod["uid"], pod["namespace"], pod["name"], 1, "single-1"))
    assert answer.outcome is Outcome.CHANGED
    # A leader whose address is of the other family makes the slice anew.
    assert of_leader.point_to(Place("fd00::1", 8443))


def test_an_uninstall_takes_the_leaders_slice_along(release, tmp_path):
    """It is no part of the chart; its Service owns it, and the real garbage collector does the rest."""
    plane = release.plane
    release.install("--set", "ledger.leaderElection=true,ledger.replicas=2")
    kubeconfig = tmp_path / "account.kubeconfig"
    kubeconfig.write_text(account_kubeconfig(plane, release.namespace, f"{release.fullname}-ledger"))
    client = Client.from_environment(kubeconfig)
    assert LeaderSlice(client, release.namespace, f"{release.fullname}-ledger").point_to(Place("10.77.0.1", 8443))

    def left():
        done = plane.kubectl("get", "cm,secret,lease,endpointslice", "-n", release.namespace, "-o", "name", check=True)
        return done.stdout.split()

    slice_name = f"endpointslice.discovery.k8s.io/{release.fullname}-ledger-leader"
    assert slice_name in left()
    release.helm("uninstall", release.name)
    until(lambda: slice_name not in left(), "the end of the slice")
    assert left() == ["configmap/kube-root-ca.crt"]


@pytest.mark.parametrize(
    ("granted_too_little", "refusals"),
    [
        pytest.param(Right("", "pods/status", "patch"), {Right("", "pods/status", "patch", "a")}, id="one is missing"),
        pytest.param(None, set(), id="none is missing"),
    ],
)
def test_the_comparison_itself(granted_too_little, refusals):
    """A missing verb shows as a refused call, a superfluous one as unused."""
    rights = {Right("", "pods/status", "patch"), Right("", "configmaps", "get", "x"), Right("", "nodes", "get")}
    code = 403 if granted_too_little else 200
    calls = [Call(Right("", "pods/status", "patch", "a"), code), Call(Right("", "configmaps", "get", "y"), 200)]
    assert refused(calls) == refusals
    assert unused(rights, calls) == {Right("", "configmaps", "get", "x"), Right("", "nodes", "get")}
