"""Sections without data say why, and the others are as before."""

import numpy as np
import pytest
from msgspec.structs import fields, replace

from tests.support.synthetic import stories
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.report.columns import Column, ReviewData, ServerData
from uwsgi_headroom.report.render.markdown import render_json, render_markdown
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.review.sections import Absent, ServiceReview

PLAIN = Service(name="plain", servers=2, peak=16.0, contention=False, backends={}, threshold=None)


@pytest.fixture(scope="module")
def data():
    """Two days of two servers without backends, routes and an objective."""
    return make_review_data(History(services=(PLAIN,), days=2, until=stories.UNTIL))


def _service(data: ReviewData, **changes: object) -> ServiceReview:
    servers = tuple(replace(server, **changes) for server in data.servers)
    review = build_review(replace(data, servers=servers))
    assert render_json(review)
    assert "nan" not in render_markdown(review)
    return review.services[0]


def test_what_is_switched_off_is_named(data):
    """Backends, routes and the objective: with the option that turns them on."""
    service = _service(data)
    assert "`backends:`" in service.time.backends.reason
    assert "`routes: true`" in service.time.routes.reason
    assert "`--slo`" in service.users.objective.reason
    assert not isinstance(service.time.states, Absent)


def test_without_rights_there_are_no_waits(data):
    """The time of a request is its response time and CPU time alone."""
    service = _service(data, waits={})
    assert "may not read the threads" in service.time.states.reason
    assert service.time.cpu_per_request == pytest.approx(PLAIN.cpu, rel=1e-3)


def test_without_response_times_by_bound_there_are_no_percentiles(data):
    """The mean is still known, from running time."""
    service = _service(data, bounds=(), by_time=(), percentiles=())
    assert service.users.percentiles == {}
    assert service.users.mean == pytest.approx(PLAIN.cpu + PLAIN.wait, rel=1e-3)


def _columns(server: ServerData) -> list[str]:
    return [each.name for each in fields(server) if isinstance(getattr(server, each.name), np.ndarray)]


def test_any_column_may_be_unknown(data):
    """Each column in turn, on all servers: there is a review, without nan in any form."""
    busy = data.servers[0]
    busy = replace(busy, **_cut(busy, len(busy.time) - 48))
    unknown: Column = np.full_like(busy.time, np.nan)
    for name in _columns(busy):
        if name != "time":
            service = _service(replace(data, servers=(busy,)), **{name: unknown})
            assert service.verdict.sentence, name


def test_a_server_that_came_later_and_one_without_data(data):
    """Columns of different lengths: the service is judged from what is there."""
    first, second = data.servers
    later = replace(second, **_cut(second, 100))
    nothing = replace(second, **{**_cut(second, len(second.time)), "server": "nothing", "by_worker": ()})
    review = build_review(replace(data, servers=(first, later, nothing)))
    used = review.services[0].utilization
    assert [server.server for server in used.servers] == [first.server, later.server]
    assert used.in_service == pytest.approx(np.max(first.busy[100:] + second.busy[100:]))
    assert [quality.covered for quality in review.quality] == pytest.approx([1.0, 92 / 192, 0.0])


def _cut(server: ServerData, start: int) -> dict[str, object]:
    """The columns from a place on."""
    cut: dict[str, object] = {name: getattr(server, name)[start:] for name in _columns(server)}
    cut["by_worker"] = tuple(
        replace(
            worker,
            **{each.name: getattr(worker, each.name)[start:] for each in fields(worker) if each.name != "worker_id"},
        )
        for worker in server.by_worker
    )
    for name in ("occupancy", "by_time", "percentiles"):
        cut[name] = tuple(column[start:] for column in getattr(server, name))
    for name in ("waits", "backends", "routes"):
        cut[name] = {key: column[start:] for key, column in getattr(server, name).items()}
    return cut


def test_settings_that_were_not_reviewed(data):
    """The section says so for all servers, or names those that were not; it never says that all is well."""
    reason = _service(data).settings
    assert isinstance(reason, Absent)
    assert reason.reason.startswith("No settings were reviewed")
    known = replace(data.servers[0], settings={})
    review = build_review(replace(data, servers=(known, data.servers[1])))
    text = render_markdown(review)
    assert "No setting is known to cause trouble." in text
    assert f"options are not known: {data.servers[1].server}." in text


def test_another_limit_than_resources_is_no_headroom(data):
    """Where calls hold the loops, a review promises no growth until threads run out."""
    of_all, of_some = ({"loop_held": np.full_like(data.servers[0].time, part)} for part in (1.0, 0.2))
    held = _service(data, limits=of_all)
    assert held.utilization.headroom is None
    assert "Headroom at peak is not known" in held.verdict.sentence
    assert "`loop_held`" in held.verdict.sentence
    assert "threads run out" not in held.verdict.sentence
    assert _service(data, limits=of_some).verdict == _service(data).verdict
