"""The story that this project grew out of: the review finds what people found out in weeks."""

import pytest

from uwsgi_headroom.words.formats import factor


def test_83_of_192_threads_are_in_service(story):
    """Those of all six machines together, in the quarter hour that counts."""
    used = story.services[0].utilization
    assert used.in_service == pytest.approx(83.0, abs=0.01)
    assert used.available == 192


def test_the_hottest_interpreters_are_the_first_limit(story):
    """The worker with 43 % of the requests is named, not the threads, of which more than half are free."""
    used = story.services[0].utilization
    assert used.first == "hottest_interpreter"
    assert " Over 85 % of that limit is in use. " in story.services[0].verdict.sentence
    hottest = {server.balance.hottest for server in used.servers}
    assert hottest == {1}
    assert used.servers[0].workers[0].share == pytest.approx(0.43, abs=0.001)


def test_the_cost_is_in_milliseconds_and_in_servers(story):
    """By hand: at peak a machine serves r requests a second, with 40 ms of CPU and 179 ms of waiting each, and an
    M/D/1 queue for the interpreter. Even workers would have the response time of the three calm ones."""
    balance = story.services[0].utilization.balance
    rate = story.services[0].utilization.servers[0].flow.throughput

    def response_time(share: float) -> float:
        load = share * rate * 0.040
        return 0.040 + 0.179 + 0.040 * load / (2 * (1 - load))

    mean = 0.43 * response_time(0.43) + 0.57 * response_time(0.19)
    assert balance.cost_seconds == pytest.approx(mean - response_time(0.19), rel=0.01)
    # Full at 1/0.43 of an interpreter's load; even workers until the 3.7 CPUs that others leave are full.
    hot, even = 1 / (0.43 * rate * 0.040), 3.7 / (rate * 0.040)
    assert balance.cost_servers == pytest.approx(6 * (1 - hot / even), rel=0.01)
    cost = "Uneven workers cost 46 ms of each response and the capacity of 2.2 of 6 servers."
    assert cost in story.services[0].verdict.sentence
    assert balance.summary.startswith("On shop-1, worker 1 takes 43 % of the requests (even would be 25 %), with its ")


def test_it_advises_more_processes_with_fewer_threads(story):
    """The advice is that of the finding in `check`, and it is urgent, as the limit is reached."""
    first = story.services[0].recommendations[0]
    assert (first.code, first.judgement) == ("unevenness_hurts", "act")
    assert first.action.startswith("Use more processes and fewer threads, such as 8x4 instead of 4x8")
    assert "46 ms" in first.evidence
    assert len(first.servers) == 6
    assert story.answer == "shop needs action now."


def test_a_limit_is_missed_only_with_a_server_lost(story):
    """With one machine of six lost the others have 6/5 of the load, which is more than one interpreter takes."""
    used = story.services[0].utilization
    assert used.one_lost == pytest.approx(used.headroom * 5 / 6, rel=1e-6)
    assert used.one_lost < 1 < used.headroom


def test_the_first_page_has_the_lines_of_check(story):
    """Those of the server with the least headroom, as `check` prints them of a window."""
    lines = {line.code: line.text for line in story.services[0].lines}
    assert lines["server"] == story.services[0].utilization.server
    assert list(lines) == ["server", "users_wait", "served", "time", "outside", "headroom"]
    assert lines["headroom"].startswith(factor(story.services[0].utilization.headroom))
