"""What the review recommends from a long range, with figures computed by hand."""

import pytest
from msgspec.structs import replace

from tests.report.changes import (
    Edit,
    at_places,
    change,
    data_of,
    peaks_of,
    waiting_in,
    with_levels,
    with_window,
    with_workers,
)
from tests.support.synthetic.plan import Service
from tests.support.synthetic.server import QUEUE
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.report.quarters import ReviewData
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.review.recommendations import Recommendation, reconcile
from uwsgi_headroom.store.record import Record

CALM = Service(name="calm", peak=4.0, contention=False, weekdays=(1.0,) * 7)


def _data(service: Service = CALM, days: float = 2) -> ReviewData:
    return data_of(service, days=days)


def _recommended(data: ReviewData | None = None) -> dict[str, Recommendation]:
    (review,) = build_review(data or _data()).services
    return {each.code: each for each in review.recommendations}


def _changed(first: int, last: int, *edits: Edit) -> ReviewData:
    """The calm service with changes in these quarter hours."""
    data = _data()
    for edit in edits:
        data = change(data, at_places(data, range(first, last), edit))
    return data


FULL = with_window(queue_full_seconds={QUEUE: 810.0})


def _present(data: ReviewData) -> dict[str, Figures]:
    """The figures of the quarter hour that counts."""
    return peaks_of(data).present


def test_a_calm_service_needs_nothing():
    """4 of 32 threads: no recommendation at all."""
    assert _recommended() == {}


def test_a_full_listen_queue_is_urgent_from_five_percent_of_the_time():
    """As in `check`: 5 % of the time is critical, less is a warning."""
    found = _recommended(_changed(0, 10, FULL))["clients_refused"]
    assert found.judgement == "plan"
    assert "at its limit for 4.7 % of the time" in found.evidence
    assert _recommended(_changed(0, 12, FULL))["clients_refused"].judgement == "act"


def test_killed_requests_are_those_of_the_whole_range():
    """Three harakiris, at night, are in no busiest quarter hour."""
    found = _recommended(_changed(3, 6, with_window(harakiris=1, respawns=1)))["harakiri"]
    assert found.title == "uWSGI kills workers whose requests exceed `harakiri`."
    assert found.evidence.startswith(
        "In the period of this report, on calm-1: uWSGI killed a worker 3 times in the last"
    )
    assert "in the last 48 h" in found.evidence or "in the last 2 d" in found.evidence


def test_lost_requests_are_counted():
    """Two of each of the four workers in a quarter of an hour, in the words of `check`."""
    found = _recommended(_changed(7, 8, with_workers(lambda each: replace(each, lost=2))))["requests_lost"]
    assert "8 requests" in found.evidence
    assert found.judgement == "plan"


def test_an_objective_that_is_missed():
    """2 % of the requests too slow where 1 % may be: twice the error budget, whatever the load."""

    def miss(record: Record) -> Record:
        requests = 100 * (sum(worker.requests for worker in record.window.workers) // 100)
        return with_window(judged=requests, missed_slow=requests // 50)(record)

    found = _recommended(_changed(0, 192, miss))["objective_missed"]
    assert found.judgement == "act"
    assert found.title == (
        "2 % of the requests were slower than 1.0 s, lost or refused (the objective permits 1 %): it is not known why."
    )
    assert "2.0x the error budget" in found.evidence


def test_servers_to_survive_the_loss_of_one():
    """Two servers with 20 of 32 threads: without one, the other needs 40. Of n servers of 32 threads, n - 1 carry 40 at
    85 % from n = 3 on. More threads would need 108 % of the CPUs."""
    found = _recommended(_data(replace(CALM, servers=2, peak=40.0)))["server_lost"]
    assert "the others would need 125 % of a limit" in found.title
    assert found.action.startswith("Run 3 servers of the present size instead of 2")


def test_advised_threads_that_carry_a_lost_server_need_no_third_one():
    """Two servers with 22.5 of 32 threads that mostly wait for a backend: the advised threads serve the load of both at
    75 %, so no server is added. The setting has one number in the whole review."""
    service = replace(CALM, servers=2, peak=45.0, wait=0.19, backends={"postgres": 0.75})
    (review,) = build_review(_data(service)).services
    found = {each.code: each for each in review.recommendations}
    step = found["headroom_low"]
    assert "server_lost" not in found
    assert step.setting == "4x15"
    assert step.action.startswith("Raise `threads` from 8 to 15")
    assert step.serves > 45.0 / (CALM.cpu + 0.19)
    assert step.effect.endswith("If a server is then lost at peak, the others use 75 % of a limit.")
    assert f"uWSGI can serve at least {step.serves:.0f}/s" in step.action
    assert review.verdict.action.startswith(step.action)


def test_threads_for_a_lost_server_where_nothing_else_is_short():
    """Two servers with 20 of 32 threads that mostly wait for a backend, at a headroom of 1.6: more threads instead of a
    third server, because the other would need 40."""
    service = replace(CALM, servers=2, peak=40.0, wait=0.19, backends={"postgres": 0.75})
    found = _recommended(_data(service))["server_lost"]
    assert found.title == "The service cannot lose a server at peak: the others would need 125 % of a limit."
    assert found.action.startswith("Raise `threads` from 8 to 14")
    assert found.effect.endswith("If a server is then lost at peak, the others use 71 % of a limit.")


def test_a_small_server_is_not_sized_for_a_large_one():
    """The load of one of two equal servers is what advice leaves room for, at most; of three, it is a half more."""
    data = [_data(replace(CALM, servers=number), days=1) for number in (1, 2, 3)]
    growths = [next(iter(_present(each).values())).growth for each in data]
    assert growths == [1.5, pytest.approx(2.0), pytest.approx(1.5)]
    uneven = _data(replace(CALM, servers=2, weights=(0.9, 0.1)), days=1)
    assert [figures.growth for figures in _present(uneven).values()] == [1.5, 2.0]


def test_a_backend_without_a_known_address_is_named():
    """A review has names of backends, not their addresses."""
    found = _recommended(_data(replace(CALM, peak=20.0, wait=0.19, backends={"postgres": 0.9})))["waits_for_backend"]
    assert found.title == "Requests spend most of their time waiting for postgres."


def test_refused_clients_and_their_cause_are_one_recommendation():
    """One block, whose change is about the lock for which requests waited, with the harm as a line."""
    busy = with_workers(lambda worker: replace(worker, busy_seconds=31 / 4 * 900, running_time=31 / 4 * 900))
    queued = with_window(queue_seconds={QUEUE: 20 * 900.0}, queue_full_seconds={QUEUE: 900.0})
    data = change(_changed(40, 52, busy, queued), waiting_in({"lock": 4.0}))
    found = _recommended(change(data, at_places(data, range(40, 52), waiting_in({"lock": 31.0}))))
    assert "clients_refused" not in found
    lock = found["application_lock"]
    assert lock.judgement == "act"
    assert lock.title == (
        "Listen queues were full, so clients were refused or had to retry: the threads wait for a lock of the "
        "application."
    )
    assert any("at its limit for 6.3 % of the time" in harm for harm in lock.harms)
    assert "holds the lock for less time" in lock.action
    assert "Raise `threads`" not in lock.action


def test_page_one_says_what_users_feel_and_what_the_change_brings():
    """The answers begin with the block of the first recommendation."""
    (review,) = build_review(_changed(40, 52, FULL)).services
    verdict, first = review.verdict, review.recommendations[0]
    assert verdict.judgement == "act"
    assert verdict.users.startswith(f"{first.title} At peak users wait 100 ms in service (95 of 100 at most ")
    assert verdict.action.startswith(first.action)
    assert "Clients were turned away for 5.6 % of the range." in verdict.users


def test_the_threads_of_a_worker_with_its_own_socket_are_a_limit():
    """A worker whose 8 threads are nearly all busy is full, however many threads the others have."""
    hot = with_workers(lambda worker: replace(worker, busy_seconds=7.6 * 900) if worker.worker_id == 1 else worker)
    data, factors = change(_data(), hot), []
    for known in (None, {"a.sock": (1,), "b.sock": (2, 3, 4)}):
        (review,) = build_review(change(data, with_levels(socket_holders=known))).services
        factors.append({use.limit: use.factor for use in review.utilization.limits}["threads"])
    assert factors == [pytest.approx(32 / 10.6, rel=1e-3), pytest.approx(8 / 7.6, rel=1e-3)]


def test_a_harm_without_a_known_cause_is_in_the_review():
    """Requests wait at peak while threads are free: the review says so, and advises neither threads nor processes."""
    found = _recommended(_changed(0, 192, with_window(queue_seconds={QUEUE: 4 * 900.0})))["queue_wait"]
    assert found.title == "Requests wait in the listen queue: it is not known why."
    assert found.action.startswith("No change is known to help: ")


def test_settings_that_contradict_each_other_become_one():
    """The one that serves most, with its number; advice without a setting stays."""
    first = Recommendation(
        code="saturation",
        judgement="act",
        title="",
        action="Raise `threads` from 8 to 12.",
        servers=(),
        evidence="",
        setting="4x12",
        serves=200.0,
    )
    more = replace(first, code="interpreter_bound", action="More.", setting="8x8", serves=300.0)
    other = replace(first, code="harakiri", action="Find it.", setting="", serves=None)
    found = list(reconcile([first, more, other]))
    assert [(each.setting, each.serves) for each in found] == [("8x8", 300.0), ("8x8", 300.0), ("", None)]
    assert found[0].action.startswith("Set processes x threads to 8x8")
    assert found[1:] == [more, other]
