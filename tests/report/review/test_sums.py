"""Every sum of a capacity review adds up, also where samples and uWSGI's own times differ."""

import re

import pytest
from msgspec.structs import replace

from tests.support.synthetic import stories
from tests.support.synthetic.plan import History
from tests.support.synthetic.server import make_review_data
from tests.support.written_durations import check_sum, read_durations
from uwsgi_headroom.report.render.markdown import render_markdown
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.review.sections import Absent, Users


@pytest.fixture(scope="module")
def reviewed():
    """The review of three days, and its text, of servers with a queue of two requests. A fifth of the threads' time is
    of requests that were not completed, and every tenth request is a static file."""
    service = replace(stories.STORY, servers=2, peak=27.7)
    data = make_review_data(History(services=(service,), days=3, until=stories.UNTIL))
    servers = [
        replace(
            server,
            waits={state: 1.25 * threads for state, threads in server.waits.items()},
            static=0.1 * server.requests,
            queue=0.0 * server.requests + 2.0,
        )
        for server in data.servers
    ]
    review = build_review(replace(data, servers=tuple(servers)))
    return review.services[0], render_markdown(review)


def test_the_states_add_up_to_the_response_time(reviewed):
    """Of a mean request, in figures and as they are written; backends are a part of theirs."""
    time = reviewed[0].time
    assert not isinstance(time, Absent)
    assert not isinstance(time.states, Absent)
    assert not isinstance(time.backends, Absent)
    assert sum(part.per_request or 0.0 for part in time.states) == pytest.approx(time.response_time)
    assert sum(part.share for part in time.states) == pytest.approx(1)
    backend = next(part for part in time.states if part.name == "backend")
    assert sum(part.per_request or 0.0 for part in time.backends) <= (backend.per_request or 0.0) * 1.0001
    mean = read_durations(re.search(r"A mean request takes .*? at peak", reviewed[1])[0])
    table = reviewed[1].split("| state |")[1].split("\n\n")[0]
    check_sum(mean[0], read_durations(table))


def test_what_users_wait_is_service_and_queue(reviewed):
    """In the table and in the sentence of page one, in this order."""
    users, text = reviewed[0].users, reviewed[1]
    assert isinstance(users, Users)
    assert users.queue_wait
    for row in re.findall(r"^\| (?:over the range|at peak) .*", text, re.MULTILINE):
        service, queue, together = read_durations(row)[-3:]
        check_sum(together, [service, queue])
    sentence = re.search(r"At peak users wait .*? in service", text)
    whole, *parts = read_durations(sentence[0])
    check_sum(whole, parts)
    assert len(parts) == 2
