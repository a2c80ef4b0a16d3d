"""Steering: the moment of a nomination, what it leaves alone, and which nodes it gives up."""

import io
from dataclasses import replace

import pytest

from webhook.cluster.nominations import Nominated, Nomination, Outcome
from webhook.core.demand import PodDemand, QosClass
from webhook.core.ledger.events import PodGone, PodSeen, PodsListed
from webhook.core.ledger.records import Eligibility, PodRecord
from webhook.service.logs import open_log
from webhook.service.steering import MOST_SHUNNED, MOST_WIPED, PATIENCE_SECONDS, RETRY_SECONDS, SHUN_SECONDS, Course
from webhook.service.steering_work import MOST_COURSES, Steering

POD = PodRecord("uid-1", "team", "train", PodDemand(QosClass.GUARANTEED, ()), Eligibility(), resource_version=10)
FAILED = replace(POD, is_refused_at_binding=True, resource_version=12)
NOW = 1000.0


def refused_once() -> Course:
    """A pod whose binding to node-a was turned back at NOW, and for which node-b fits."""
    return Course(POD).refused(POD, "node-a", "node-b", NOW)


def nominated_once() -> Course:
    """The same, nominated to node-b as version 13 at NOW + 0.1; the watch has shown it."""
    course = refused_once().seen(FAILED, NOW + 0.1).asked().nominated("node-b", 13, NOW + 0.1)
    return course.seen(replace(FAILED, nominated_node="node-b", resource_version=13), NOW + 0.1)


class TestWhen:
    """When a pod is nominated."""

    @pytest.mark.parametrize(
        "seen, moment",
        [
            pytest.param(None, NOW + PATIENCE_SECONDS, id="nothing seen since: after the patience"),
            pytest.param(FAILED, 0.0, id="the failure stands in the condition: at once"),
            pytest.param(replace(POD, resource_version=11), None, id="changed, but the failure is not written yet"),
            pytest.param(replace(FAILED, nominated_node="other"), None, id="nominated by a preemption"),
            pytest.param(replace(FAILED, node_name="node-a"), None, id="bound"),
            pytest.param(replace(FAILED, is_deleting=True), None, id="being deleted"),
            pytest.param(replace(FAILED, phase="Failed"), None, id="ended"),
            pytest.param(replace(FAILED, resource_version=9), NOW + PATIENCE_SECONDS, id="an older version is no news"),
        ],
    )
    def test_the_moment(self, seen, moment):
        course = refused_once()
        if seen is not None:
            course = course.seen(seen, NOW + 0.05)
        assert course.asks_at() == moment

    def test_nothing_where_no_node_fits(self):
        course = Course(POD).refused(POD, "node-a", "", NOW).seen(FAILED, NOW)
        assert course.asks_at() is None

    def test_not_twice_at_a_time(self):
        assert refused_once().seen(FAILED, NOW).asked().asks_at() is None

    def test_not_while_it_stands(self):
        assert nominated_once().asks_at() is None

    def test_again_after_the_next_failure_and_not_before_it(self):
        course = nominated_once()
        course = course.refused(course.pod, "node-b", "node-c", NOW + 2)
        assert course.asks_at() is None  # the scheduler has not wiped the old one yet
        course = course.seen(replace(FAILED, resource_version=15), NOW + 2.1)
        assert course.asks_at() == 0.0
        assert course.target == "node-c"

    def test_a_version_of_our_own_patch_does_not_pass_for_the_schedulers_failure(self):
        course = refused_once().seen(FAILED, NOW).asked().nominated("node-b", 13, NOW)
        course = course.refused(FAILED, "node-b", "node-c", NOW + 2)
        course = course.seen(replace(FAILED, nominated_node="node-b", resource_version=13), NOW + 2.01)
        assert course.asks_at() is None

    def test_after_a_conflict_only_once_the_watch_has_shown_the_pod(self):
        course = refused_once().seen(FAILED, NOW).asked().conflicted(NOW + 0.2)
        assert course.asks_at() == NOW + 0.2 + PATIENCE_SECONDS
        assert course.seen(replace(FAILED, resource_version=14), NOW + 0.3).asks_at() == 0.0

    def test_after_silence_a_while_later(self):
        assert refused_once().seen(FAILED, NOW).asked().unanswered(NOW).asks_at() == NOW + RETRY_SECONDS


class TestWaiting:
    """No node fitted; then room is freed."""

    WAITING = Course(POD).refused(POD, "node-a", "", NOW)

    @pytest.mark.parametrize(
        "course, waits",
        [
            pytest.param(WAITING, True, id="turned back, and nothing fits"),
            pytest.param(refused_once(), False, id="steered"),
            pytest.param(nominated_once(), False, id="nominated"),
            pytest.param(WAITING.seen(replace(FAILED, nominated_node="x"), NOW), False, id="a preemption's"),
            pytest.param(WAITING.seen(replace(FAILED, is_deleting=True), NOW), False, id="being deleted"),
        ],
    )
    def test_who_waits(self, course, waits):
        assert course.waits() is waits

    def test_it_is_nominated_at_once_though_nothing_was_refused_again(self):
        course = self.WAITING.seen(FAILED, NOW + 0.1).found("node-c", NOW + 5)
        assert (course.target, course.asks_at()) == ("node-c", 0.0)

    def test_not_before_the_failure_is_written(self):
        assert self.WAITING.found("node-c", NOW).asks_at() == NOW + PATIENCE_SECONDS


class TestWiped:
    """A nomination that went without a refusal of ours."""

    def test_it_is_set_again_a_few_times_and_then_the_node_is_given_up(self):
        course, version, sent = nominated_once(), 13, 0
        for _ in range(20):
            version += 1
            course = course.seen(replace(FAILED, resource_version=version), NOW + 1)
            if course.asks_at() is None:
                break
            version += 1
            sent += 1
            course = course.asked().nominated("node-b", version, NOW + 1)
            course = course.seen(replace(FAILED, nominated_node="node-b", resource_version=version), NOW + 1)
        assert sent == MOST_WIPED
        assert course.shuns("", NOW + 1) == {"node-b"}

    def test_a_wipe_that_the_watch_showed_before_our_answer_came_counts(self):
        course = refused_once().seen(FAILED, NOW).asked()
        course = course.seen(replace(FAILED, resource_version=14), NOW).nominated("node-b", 13, NOW)
        assert course.asks_at() == 0.0

    def test_a_preemptions_nomination_after_ours_stays(self):
        course = nominated_once().seen(replace(FAILED, nominated_node="node-x", resource_version=14), NOW + 1)
        assert course.asks_at() is None


class TestPassedOver:
    """Nodes that the scheduler did not take."""

    def test_a_try_elsewhere_passes_the_nominated_node_over(self):
        course = nominated_once()
        assert course.shuns("node-z", NOW + 2) == {"node-b"}
        course = course.refused(course.pod, "node-z", "node-c", NOW + 2)
        assert course.shuns("node-y", NOW + 2) == {"node-b"}

    def test_a_try_at_the_nominated_node_does_not(self):
        course = nominated_once()
        assert course.shuns("node-b", NOW + 2) == frozenset()
        assert course.refused(course.pod, "node-b", "node-c", NOW + 2).shuns("node-c", NOW + 2) == frozenset()

    def test_a_try_that_had_begun_before_the_nomination_does_not(self):
        assert nominated_once().shuns("node-a", NOW + 0.2) == frozenset()

    def test_a_pod_found_unschedulable_beside_its_nomination_passes_the_node_over(self):
        course = nominated_once().seen(
            replace(POD, is_unschedulable=True, nominated_node="", resource_version=14), NOW + 2
        )
        assert course.shuns("", NOW + 2) == {"node-b"}
        assert course.asks_at() is None

    def test_it_is_forgotten_after_a_while(self):
        course = nominated_once()
        course = course.refused(course.pod, "node-z", "node-c", NOW + 2)
        assert course.shuns("", NOW + 2 + SHUN_SECONDS + 1) == frozenset()

    def test_after_many_the_pod_is_left_to_the_scheduler(self):
        course, version = nominated_once(), 13
        for number in range(MOST_SHUNNED):
            version += 1
            course = course.refused(course.pod, "node-z", f"node-{number}", NOW + 2 + number)
            course = course.seen(replace(FAILED, resource_version=version), NOW + 2 + number)
            if course.asks_at() is None:
                break
            version += 1
            course = course.asked().nominated(f"node-{number}", version, NOW + 2 + number)
            standing = replace(FAILED, nominated_node=f"node-{number}", resource_version=version)
            course = course.seen(standing, NOW + 2 + number)
        assert number == MOST_SHUNNED - 1
        assert len(course.shunned) == MOST_SHUNNED


@pytest.fixture
def clock():
    return [NOW]


@pytest.fixture
def log_lines():
    return io.BytesIO()


@pytest.fixture
def steering(clock, log_lines):
    return Steering(lambda _wanted: Nominated(Outcome.STORED, 13), open_log(log_lines), lambda: clock[0], threads=0)


class TestSteering:
    """The keeper of the courses, without its threads."""

    def test_it_sends_once_the_failure_is_seen(self, steering):
        steering.refused(POD, "node-a", "node-b", NOW)
        assert steering.take(waits=False) is None
        steering.heard(PodSeen(FAILED), NOW)
        assert steering.take(waits=False) == Nomination("uid-1", "team", "train", 12, "node-b")
        assert steering.take(waits=False) is None

    def test_it_sends_after_the_patience_where_nothing_is_seen(self, steering, clock):
        steering.refused(POD, "node-a", "node-b", NOW)
        clock[0] = NOW + PATIENCE_SECONDS
        assert steering.take(waits=False) == Nomination("uid-1", "team", "train", 10, "node-b")

    @pytest.mark.parametrize(
        "event",
        [
            pytest.param(PodSeen(replace(FAILED, node_name="node-b")), id="bound"),
            pytest.param(PodSeen(replace(FAILED, phase="Failed")), id="ended"),
            pytest.param(PodGone("uid-1"), id="deleted"),
            pytest.param(PodsListed(frozenset(), NOW), id="not in a fresh list"),
        ],
    )
    def test_it_forgets_a_pod(self, steering, event):
        steering.refused(POD, "node-a", "node-b", NOW)
        steering.heard(event, NOW)
        assert steering.courses() == ()

    @pytest.mark.parametrize("outcome", [Outcome.GONE, Outcome.REJECTED, Outcome.FORBIDDEN])
    def test_what_the_api_server_does_not_do_is_not_asked_again(self, steering, clock, outcome):
        steering.refused(POD, "node-a", "node-b", NOW)
        steering.heard(PodSeen(FAILED), NOW)
        wanted = steering.take(waits=False)
        steering.answered(wanted, Nominated(outcome))
        clock[0] = NOW + 100
        assert steering.take(waits=False) is None

    def test_a_missing_right_is_said_once(self, steering, log_lines):
        for number in range(3):
            pod = replace(POD, uid=f"uid-{number}")
            steering.refused(pod, "node-a", "node-b", NOW)
            steering.heard(PodSeen(replace(FAILED, uid=f"uid-{number}")), NOW)
            steering.answered(steering.take(waits=False), Nominated(Outcome.FORBIDDEN))
        assert log_lines.getvalue().count(b"steering-forbidden") == 1

    def test_it_remembers_a_bounded_number_of_pods(self, steering):
        for number in range(MOST_COURSES + 5):
            steering.refused(replace(POD, uid=str(number)), "node-a", "node-b", NOW)
        assert len(steering.courses()) == MOST_COURSES
        assert steering.courses()[0].pod.uid == "5"

    def test_those_who_wait_are_told_longest_first_and_steered_when_found(self, steering):
        for uid in ("uid-1", "uid-2"):
            steering.refused(replace(POD, uid=uid), "node-a", "", NOW)
            steering.heard(PodSeen(replace(FAILED, uid=uid)), NOW)
        assert steering.waiting("node-c", NOW) == ("uid-1", "uid-2")
        steering.found("uid-1", "node-c", NOW)
        assert steering.waiting("node-c", NOW) == ("uid-2",)
        assert steering.take(waits=False).node == "node-c"

    def test_its_threads_send_and_stop(self, clock, log_lines):
        sent = []

        def nominate(wanted):
            sent.append(wanted)
            return Nominated(Outcome.STORED, 13)

        steering = Steering(nominate, open_log(log_lines), lambda: clock[0], threads=2)
        steering.start()
        steering.refused(POD, "node-a", "node-b", NOW)
        steering.heard(PodSeen(FAILED), NOW)
        while not [course for course in steering.courses() if course.ours]:
            pass
        steering.stop()
        assert [wanted.node for wanted in sent] == ["node-b"]
