"""Lease, EndpointSlice, nomination and checkpoint maps against a server that keeps resource versions."""

import pytest
from cluster.small_api import small_api

from webhook.cluster.checkpoints import CheckpointMaps
from webhook.cluster.client import Client
from webhook.cluster.endpoints import LeaderSlice, Place
from webhook.cluster.errors import ClusterError, NotFound
from webhook.cluster.leases import DURATION_SECONDS, LeaseElection, LeaseRecord, Observed, observe
from webhook.cluster.nominations import Nomination, Outcome, nominate

LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/ledger"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/system/endpointslices/ledger-leader"
POD = "/api/v1/namespaces/team/pods/train"
WALL = 1_800_000_000.0


@pytest.fixture
def api():
    with small_api() as (server, url):
        server.url = url
        yield server


def candidate(api, identity):
    """One process that wants to lead."""
    return LeaseElection(Client.of_server(api.url), "system", "ledger", identity)


class TestElection:
    """Who leads, and when another may."""

    def test_the_first_takes_it_and_keeps_it(self, api):
        one, two = candidate(api, "one"), candidate(api, "two")
        assert one.try_once(0.0, WALL)
        assert not two.try_once(0.5, WALL + 0.5)
        assert one.try_once(5.0, WALL + 5)
        spec = api.objects[LEASE]["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("one", 0)
        assert spec["acquireTime"] != spec["renewTime"]

    def test_a_silent_leader_is_replaced_once_its_duration_has_passed_on_the_watchers_own_clock(self, api):
        one, two = candidate(api, "one"), candidate(api, "two")
        one.try_once(0.0, WALL)
        # The two clocks have nothing to do with each other, and the wall clock of the other is an hour ahead.
        assert not two.try_once(7000.0, WALL + 3600)
        assert not two.try_once(7000.0 + DURATION_SECONDS, WALL + 3600)
        assert two.try_once(7000.5 + DURATION_SECONDS, WALL + 3610)
        assert api.objects[LEASE]["spec"]["leaseTransitions"] == 1

    def test_a_renewal_puts_the_takeover_off(self, api):
        one, two = candidate(api, "one"), candidate(api, "two")
        one.try_once(0.0, WALL)
        two.try_once(0.0, WALL)
        one.try_once(9.0, WALL + 9)
        assert not two.try_once(11.0, WALL + 11)
        assert not two.try_once(20.0, WALL + 20)
        assert two.try_once(21.5, WALL + 21)

    def test_the_old_leader_that_wakes_does_not_get_it_back(self, api):
        one, two = candidate(api, "one"), candidate(api, "two")
        one.try_once(0.0, WALL)
        two.try_once(0.0, WALL)
        assert two.try_once(11.0, WALL + 11)
        assert not one.try_once(11.5, WALL + 11.5)

    def test_of_two_who_write_at_once_one_wins(self, api):
        one, two = candidate(api, "one"), candidate(api, "two")
        raw = {"metadata": {"name": "ledger"}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 10}}
        api.store(LEASE, raw)
        original = one.client.put

        def put_late(path, body, **options):
            assert two.try_once(0.0, WALL)
            return original(path, body, **options)

        one.client.put = put_late
        assert not one.try_once(0.0, WALL)
        assert api.objects[LEASE]["spec"]["holderIdentity"] == "two"

    def test_a_lease_that_was_given_up_is_taken_at_once(self, api):
        one, two = candidate(api, "one"), candidate(api, "two")
        one.try_once(0.0, WALL)
        one.release(WALL + 1)
        assert two.try_once(1.0, WALL + 1)

    def test_who_does_not_hold_it_does_not_give_it_up(self, api):
        one, two = candidate(api, "one"), candidate(api, "two")
        one.try_once(0.0, WALL)
        two.try_once(0.0, WALL)
        two.release(WALL)
        assert api.objects[LEASE]["spec"]["holderIdentity"] == "one"

    def test_an_api_server_in_trouble_is_an_error_and_no_answer(self, api):
        one = candidate(api, "one")
        api.failing = 500
        with pytest.raises(ClusterError):
            one.try_once(0.0, WALL)

    @pytest.mark.parametrize(
        "changed, since",
        [
            pytest.param({}, 5.0, id="nothing: the first sight counts"),
            pytest.param({"resource_version": "9"}, 5.0, id="another field of it: likewise"),
            pytest.param({"renewed": "later"}, 50.0, id="the renewal"),
            pytest.param({"holder": "two"}, 50.0, id="the holder"),
        ],
    )
    def test_when_a_lease_counts_as_changed(self, changed, since):
        record = {
            "holder": "one",
            "renewed": "now",
            "transitions": 0,
            "duration_seconds": 10.0,
            "resource_version": "1",
        }
        old = Observed(LeaseRecord(**record), 5.0)
        assert observe(old, LeaseRecord(**{**record, **changed}), 50.0).since_seconds == since


SERVICE = "/api/v1/namespaces/system/services/ledger"


class TestLeaderSlice:
    """Where the leader is written."""

    @pytest.fixture(autouse=True)
    def service(self, api):
        return api.store(SERVICE, {"metadata": {"name": "ledger", "uid": "service-1"}})

    def test_it_goes_with_its_service(self, api):
        """A Service that was deleted and made again owns the next slice; one that is gone lets none be made."""
        leader = LeaderSlice(Client.of_server(api.url), "system", "ledger")
        leader.point_to(Place("10.0.0.1", 8443))
        (owner,) = api.objects[SLICE]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Service", "ledger", "service-1")
        assert leader.point_to(Place("10.0.0.1", 8443))
        assert api.calls.count(("GET", SERVICE)) == 1, "it is asked for once"
        del api.objects[SLICE]
        api.store(SERVICE, {"metadata": {"name": "ledger", "uid": "service-2"}})
        leader.point_to(Place("10.0.0.1", 8443))
        assert api.objects[SLICE]["metadata"]["ownerReferences"][0]["uid"] == "service-2"
        del api.objects[SLICE], api.objects[SERVICE]
        with pytest.raises(NotFound):
            leader.point_to(Place("10.0.0.1", 8443))
        assert SLICE not in api.objects

    def test_a_slice_without_an_owner_gets_one(self, api):
        leader = LeaderSlice(Client.of_server(api.url), "system", "ledger")
        leader.point_to(Place("10.0.0.1", 8443))
        del api.objects[SLICE]["metadata"]["ownerReferences"]
        assert LeaderSlice(leader.client, "system", "ledger").point_to(Place("10.0.0.1", 8443))
        assert api.objects[SLICE]["metadata"]["ownerReferences"][0]["uid"] == "service-1"

    def test_it_is_made_moved_and_left_alone(self, api):
        leader = LeaderSlice(Client.of_server(api.url), "system", "ledger")
        assert leader.points_to() == ()
        assert leader.point_to(Place("10.0.0.1", 8443, "pod-a"))
        assert leader.points_to() == ("10.0.0.1",)
        assert leader.point_to(Place("10.0.0.2", 8443, "pod-b"))
        assert leader.points_to() == ("10.0.0.2",)
        writes = [call for call in api.calls if call[0] != "GET"]
        assert leader.point_to(Place("10.0.0.2", 8443, "pod-b"))
        assert [call for call in api.calls if call[0] != "GET"] == writes
        assert api.objects[SLICE]["metadata"]["labels"]["kubernetes.io/service-name"] == "ledger"

    def test_another_address_family_makes_it_anew(self, api):
        leader = LeaderSlice(Client.of_server(api.url), "system", "ledger")
        leader.point_to(Place("10.0.0.1", 8443))
        assert leader.point_to(Place("fd00::1", 8443))
        assert api.objects[SLICE]["addressType"] == "IPv6"

    def test_who_was_frozen_between_reading_and_writing_writes_nothing(self, api):
        old = LeaderSlice(Client.of_server(api.url), "system", "ledger")
        new = LeaderSlice(Client.of_server(api.url), "system", "ledger")
        old.point_to(Place("10.0.0.9", 8443))
        original = old.client.put

        def put_late(path, body, **options):
            new.point_to(Place("10.0.0.2", 8443))
            return original(path, body, **options)

        old.client.put = put_late
        assert not old.point_to(Place("10.0.0.1", 8443))
        assert new.points_to() == ("10.0.0.2",)


class TestNominate:
    """The patch of a pod's status."""

    @pytest.mark.parametrize(
        "uid, version, outcome",
        [
            pytest.param(f"uid-{POD}", 101, Outcome.STORED, id="the pod that we saw"),
            pytest.param(f"uid-{POD}", 99, Outcome.CHANGED, id="it has changed since"),
            pytest.param("another", 101, Outcome.CHANGED, id="another pod of the same name"),
        ],
    )
    def test_it_is_stored_only_for_the_pod_that_we_saw(self, api, uid, version, outcome):
        api.store(POD, {"metadata": {"name": "train"}})
        answer = nominate(Client.of_server(api.url), Nomination(uid, "team", "train", version, "node-b"))
        assert answer.outcome is outcome
        assert ("status" in api.objects[POD]) is (outcome is Outcome.STORED)
        assert answer.resource_version == (102 if outcome is Outcome.STORED else 0)

    @pytest.mark.parametrize(
        "status, outcome",
        [
            pytest.param(403, Outcome.FORBIDDEN, id="no right to"),
            pytest.param(422, Outcome.REJECTED, id="not acceptable"),
            pytest.param(500, Outcome.UNANSWERED, id="the API server in trouble"),
            pytest.param(429, Outcome.UNANSWERED, id="overloaded"),
        ],
    )
    def test_what_else_may_come(self, api, status, outcome):
        api.failing = status
        assert nominate(Client.of_server(api.url), Nomination("u", "team", "train", 1, "n")).outcome is outcome

    def test_a_pod_that_is_gone(self, api):
        assert nominate(Client.of_server(api.url), Nomination("u", "team", "train", 1, "n")).outcome is Outcome.GONE


class TestCheckpointMaps:
    """ConfigMaps that hold blobs."""

    def test_what_is_written_is_read(self, api):
        maps = CheckpointMaps(Client.of_server(api.url), "system", "places")
        assert maps.read(3) is None
        assert maps.write(3, b"\x00one")
        assert maps.write(3, b"\x00two")
        assert CheckpointMaps(maps.client, "system", "places").read(3) == b"\x00two"

    def test_another_writer_is_noticed_before_anything_is_overwritten(self, api):
        client = Client.of_server(api.url)
        old, new = CheckpointMaps(client, "system", "places"), CheckpointMaps(client, "system", "places")
        old.write(0, b"old")
        assert not new.write(0, b"unseen")
        assert new.read(0) == b"old"
        assert new.write(0, b"new")
        assert not old.write(0, b"late")
        assert new.read(0) == b"new"

    @pytest.mark.parametrize("data", [None, {}, {"places": "***"}, {"other": "eA=="}], ids=str)
    def test_what_is_no_checkpoint_reads_as_none(self, api, data):
        api.store("/api/v1/namespaces/system/configmaps/places-0", {"binaryData": data})
        assert CheckpointMaps(Client.of_server(api.url), "system", "places").read(0) is None

    def test_a_map_that_is_there_is_never_created(self, api):
        """Its name is all that the chart's role allows: a refused create would hide the map from us for good."""
        api.store("/api/v1/namespaces/system/configmaps/places-0", {"data": {}})
        maps = CheckpointMaps(Client.of_server(api.url), "system", "places")
        assert not maps.write(0, b"one")
        assert maps.write(0, b"one")
        assert "POST" not in {method for method, _ in api.calls}

    def test_a_map_that_somebody_deleted_is_made_anew(self, api):
        maps = CheckpointMaps(Client.of_server(api.url), "system", "places")
        maps.write(0, b"one")
        api.objects.clear()
        assert not maps.write(0, b"two")
        assert maps.write(0, b"two")
