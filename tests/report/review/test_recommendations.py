"""What the review recommends from a long range, with figures computed by hand, and what it asks the model."""

from zoneinfo import ZoneInfo

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.synthetic import stories
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, Setting
from uwsgi_headroom.report.columns import ReviewData, ServerData
from uwsgi_headroom.report.review import build_review, what_if
from uwsgi_headroom.report.review.peaks import find_peaks, group_services
from uwsgi_headroom.report.review.sections import Absent, Recommendation

UTC = ZoneInfo("UTC")
CALM = Service(name="calm", peak=4.0, contention=False, weekdays=(1.0,) * 7)


def _recommended(service: Service = CALM, **changes: object) -> dict[str, Recommendation]:
    data = _data(service)
    servers = tuple(replace(server, **changes) for server in data.servers)
    (review,) = build_review(replace(data, servers=servers)).services
    return {each.code: each for each in review.recommendations}


def _data(service: Service = CALM, days: float = 2) -> ReviewData:
    return make_review_data(History(services=(service,), days=days, until=stories.UNTIL))


def _server() -> ServerData:
    return _data().servers[0]


def _full(first: int, last: int, value: float = 0.9) -> np.ndarray:
    """A column that is 0 but in these quarter hours."""
    column = np.zeros(192)
    column[first:last] = value
    return column


def _peak(data: ReviewData) -> tuple[ServerData, Figures]:
    """The first server with the figures of the quarter hour that counts."""
    return find_peaks(group_services(data)[0], UTC).present[0]


def test_a_calm_service_needs_nothing():
    """4 of 32 threads: no recommendation at all."""
    assert _recommended() == {}


def test_a_full_listen_queue_is_urgent_from_five_percent_of_the_time():
    """As in `check`: 5 % of the time is critical, less is a warning."""
    found = _recommended(queue_full=_full(0, 10))["clients_refused"]
    assert found.judgement == "plan"
    assert "at its limit for 4.7 % of the time" in found.evidence
    assert _recommended(queue_full=_full(0, 12))["clients_refused"].judgement == "act"


def test_killed_requests_are_those_of_the_whole_range():
    """Three harakiris, at night, are in no busiest quarter hour."""
    found = _recommended(harakiris=_full(3, 6, 1))["harakiri"]
    assert found.title == "uWSGI kills workers whose requests exceed `harakiri`."
    assert "3 times in the last" in found.evidence
    assert "in the last 48 h" in found.evidence or "in the last 2 d" in found.evidence


def test_lost_requests_are_counted():
    """0.01 a second in a quarter of an hour are 9 requests."""
    found = _recommended(lost=_full(7, 8, 0.01))["requests_lost"]
    assert found.title == "At least 9 requests were in service when their worker ended."
    assert found.judgement == "plan"


def test_an_objective_that_is_missed():
    """2 % of the requests too slow where 1 % may be: twice the error budget, whatever the load."""
    server = _server()
    found = _recommended(slow=0.02 * server.requests, judged=server.requests)["objective_missed"]
    assert found.judgement == "act"
    assert found.title == (
        "2 % of the requests were slower than 1.0 s, lost or refused (the objective permits 1 %): it is not known why."
    )
    assert "2.0x the error budget" in found.evidence


def test_servers_to_survive_the_loss_of_one():
    """Two servers with 20 of 32 threads: without one, the other needs 40. Of n servers of 32 threads, n - 1 carry 40 at
    85 % from n = 3 on. More threads would need 108 % of the CPUs."""
    found = _recommended(replace(CALM, servers=2, peak=40.0))["server_lost"]
    assert "the others would need 125 % of a limit" in found.title
    assert found.action.startswith("Run 3 servers of the present size instead of 2")


def test_advised_threads_that_carry_a_lost_server_need_no_third_one():
    """Two servers with 22.5 of 32 threads that mostly wait for a backend: the advised threads serve the load of both at
    75 %, so no server is added, and the table has the number of the advice."""
    service = replace(CALM, servers=2, peak=45.0, wait=0.19, backends={"postgres": 0.75})
    data = _data(service)
    (review,) = build_review(data).services
    found = {each.code: each for each in review.recommendations}
    step = found["headroom_low"]
    assert "server_lost" not in found
    assert step.setting == "4x15"
    assert step.action.startswith("Raise `threads` from 8 to 15")
    assert step.serves > 45.0 / (CALM.cpu + 0.19)
    assert step.effect.endswith("If a server is then lost at peak, the others use 75 % of a limit.")
    table = what_if.review_what_if(*_peak(data), review.recommendations)
    assert [row.most_throughput for row in table.rows if row.setting == "4x15"] == [step.serves]


def test_threads_for_a_lost_server_where_nothing_else_is_short():
    """Two servers with 20 of 32 threads that mostly wait for a backend, at a headroom of 1.6: more threads instead of a
    third server, because the other would need 40."""
    service = replace(CALM, servers=2, peak=40.0, wait=0.19, backends={"postgres": 0.75})
    found = _recommended(service)["server_lost"]
    assert found.title == "The service cannot lose a server at peak: the others would need 125 % of a limit."
    assert found.action.startswith("Raise `threads` from 8 to 14")
    assert found.effect.endswith("If a server is then lost at peak, the others use 71 % of a limit.")
    assert found.roll_back.startswith("Set `processes` and `threads` back")


def test_a_small_server_is_not_sized_for_a_large_one():
    """The load of one of two equal servers is what advice leaves room for, at most; of three, it is a half more."""
    data = [_data(replace(CALM, servers=number), days=1) for number in (1, 2, 3)]
    growths = [_peak(each)[1].growth for each in data]
    assert growths == [1.5, pytest.approx(2.0), pytest.approx(1.5)]
    two = data[1]
    workers = tuple(replace(each, requests=9 * each.requests) for each in two.servers[0].by_worker)
    large = replace(two.servers[0], requests=9 * two.servers[0].requests, by_worker=workers)
    uneven = find_peaks(group_services(replace(two, servers=(large, two.servers[1])))[0], UTC)
    assert [figures.growth for _, figures in uneven.present] == [1.5, 2.0]


def test_the_model_is_asked_about_the_present_peak():
    """Setting, load and demands are those of the quarter hour that counts."""
    measured = what_if.measure(*_peak(_data()))
    assert measured.setting == Setting(4, 8)
    assert measured.cpu_per_request == pytest.approx(CALM.cpu, rel=1e-3)
    assert measured.window.response_time == pytest.approx(CALM.cpu + CALM.wait, rel=1e-3)
    assert measured.window.throughput == pytest.approx(4.0 / (CALM.cpu + CALM.wait), rel=1e-3)
    assert sum(measured.waits.values()) == pytest.approx(CALM.cpu + CALM.wait, rel=1e-3)
    assert (measured.cpus, measured.others, measured.memory_per_worker) == (4.0, pytest.approx(0.3), 180e6)


def test_settings_that_are_compared():
    """The same threads in more processes, more processes, and more threads; never today's."""
    assert [str(each) for each in what_if.propose(Setting(4, 8))] == ["8x4", "16x2", "6x8", "8x8", "4x12", "4x16"]
    assert [str(each) for each in what_if.propose(Setting(3, 1))] == ["5x1", "6x1", "3x2"]


def test_a_backend_without_a_known_address_is_named():
    """A review has names of backends, not their addresses."""
    found = _recommended(replace(CALM, peak=20.0, wait=0.19, backends={"postgres": 0.9}))["waits_for_backend"]
    assert found.title == "Requests spend most of their time waiting for postgres."


def test_section_7_compares_settings_with_the_present_one(monkeypatch):
    """The present setting is the first row, and the model's error stands beside the rows."""
    monkeypatch.setattr(what_if, "propose", lambda _: (Setting(8, 4),))
    found = what_if.review_what_if(*_peak(_data(days=1)))
    assert [(row.setting, row.is_today) for row in found.rows] == [("4x8", True), ("8x4", False)]
    assert found.peak == pytest.approx(40.0, rel=1e-3)
    assert abs(found.response_time_error) < 0.05
    assert all(row.fits and all(row.sustained) for row in found.rows)


def test_a_prediction_that_is_impossible_says_why(monkeypatch):
    """The model's own reason."""

    def refuse(*_: object) -> None:
        raise CannotPredictError("The demands are unknown.")

    monkeypatch.setattr(what_if, "predict_settings", refuse)
    assert what_if.review_what_if(*_peak(_data(days=1))) == Absent(reason="The demands are unknown.")


def test_refused_clients_and_their_cause_are_one_recommendation():
    """One block, whose change is about the lock for which requests waited, with the harm as a line."""
    server, full = _server(), _full(40, 52)
    waits = {state: np.zeros(192) for state in server.waits} | {"lock": server.busy}
    found = _recommended(
        queue_full=full,
        queue=20 * np.sign(full),
        busy=np.where(full, 31.0, server.busy),
        waits=waits | {"lock": 31 * np.sign(full)},
    )
    assert "clients_refused" not in found
    lock = found["application_lock"]
    assert lock.judgement == "act"
    assert lock.title == (
        "Listen queues were full, so clients were refused or had to retry: the threads wait for a lock of the "
        "application."
    )
    assert any("at its limit for 5.6 % of the time" in harm for harm in lock.harms)
    assert "holds the lock for less time" in lock.action
    assert "Raise `threads`" not in lock.action


def test_page_one_says_what_users_feel_and_what_the_change_brings():
    """The verdict begins with the block of the first recommendation."""
    data, full = _data(), _full(40, 52)
    servers = (replace(data.servers[0], queue_full=full, queue=20 * np.sign(full)),)
    (review,) = build_review(replace(data, servers=servers)).services
    verdict, first = review.verdict, review.recommendations[0]
    assert verdict.problem.startswith(f"Yes. {first.title} At peak")
    assert verdict.sentence.startswith(f"{first.title} Headroom")
    assert verdict.action.startswith(first.action)
    assert verdict.gain == first.effect
    assert verdict.users.startswith("At peak users wait 100 ms in service (95 of 100 at most ")
    assert "Clients were turned away for 5.6 % of the range." in verdict.users


def test_the_threads_of_a_worker_with_its_own_socket_are_a_limit():
    """A worker whose 8 threads are nearly all busy is full, however many threads the others have."""
    data = _data()
    (server,) = data.servers
    hot = replace(server.by_worker[0], busy=np.full_like(server.time, 7.6))
    workers = (hot, *server.by_worker[1:])
    holders = {"a.sock": (1,), "b.sock": (2, 3, 4)}
    factors = []
    for known in (None, holders):
        changed = replace(server, by_worker=workers, socket_holders=known)
        (review,) = build_review(replace(data, servers=(changed,))).services
        factors.append({use.limit: use.factor for use in review.utilization.limits}["threads"])
    assert factors == [pytest.approx(32 / 10.6, rel=1e-3), pytest.approx(8 / 7.6, rel=1e-3)]


def test_today_has_one_maximum():
    """What-if gives for today's setting what the headroom says, and for others nearly the ratio of the model."""
    server, judged = _peak(_data(replace(CALM, peak=20.0, wait=0.19), days=1))
    found = what_if.review_what_if(server, judged)
    today = found.rows[0]
    assert today.limit == judged.headroom.first == "threads"
    assert today.most_throughput == pytest.approx(judged.flow.throughput * judged.headroom.factor, rel=1e-9)
    more = next(row for row in found.rows if row.setting == "8x8")
    assert 1.8 < more.most_throughput / today.most_throughput < 2.1


def test_a_harm_without_a_known_cause_is_in_the_review():
    """Requests wait at peak while threads are free: the review says so, and advises neither threads nor processes."""
    found = _recommended(queue=np.full(192, 4.0))["queue_wait"]
    assert found.title == "Requests wait in the listen queue: it is not known why."
    assert found.action.startswith("No change is known to help: ")
