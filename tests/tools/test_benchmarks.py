"""What benchmarks conclude from figures."""

import socket
import threading

import pytest

from tools.bench.accuracy.generator import Record, Truth, ask, mean_level
from tools.bench.accuracy.scrapes import Scrape, Span, window


def test_scrapes():
    """Growth is over the time between two readings."""
    span = Span(scrape(100.0, 10, 20, 3.5), scrape(111.0, 40, 20, 13.5))
    assert span.seconds == 10.0
    assert span.growth("uwsgi_worker_requests_total") == 30
    assert span.by_worker("uwsgi_worker_requests_total") == {1: 30, 2: 0}
    scrapes = [scrape(100.2, 0, 0, 3.5), scrape(110.01, 0, 0, 13.5)]
    assert window(Span(*scrapes), scrapes) == pytest.approx((100.01, 110.01))


TEXT = """\
# HELP uwsgi_worker_requests_total Requests.
# TYPE uwsgi_worker_requests_total counter
uwsgi_worker_requests_total{{server="bench",worker_id="1"}} {first}
uwsgi_worker_requests_total{{server="bench",worker_id="2"}} {second}
uwsgi_exporter_observed_seconds_total{{server="bench"}} {observed}
uwsgi_exporter_sample_gap_seconds_total{{server="bench"}} 0.5
"""


def scrape(received: float, first: int, second: int, observed: float) -> Scrape:
    return Scrape(received, TEXT.format(first=first, second=second, observed=observed))


S = 1_000_000_000


def record(connected: float, enter: float, leave: float, end: float, worker: int = 1) -> Record:
    times = [round(seconds * S) for seconds in (connected, connected, enter, leave, leave, end)]
    return Record(*[*times, worker])


def test_the_truth_about_requests():
    """Parts within the window count, and overlaps add up."""
    intervals = [(0, 4 * S), (3 * S, 5 * S), (9 * S, 30 * S), (20 * S, 21 * S)]
    assert mean_level(intervals, (2, 12)) == pytest.approx((2 + 2 + 3) / 10)
    truth = Truth((record(0, 2, 5, 6), record(1, 5, 6, 6.5, worker=2)))
    assert truth.in_application((0, 10)) == pytest.approx(0.4)
    assert truth.in_client((0, 10)) == pytest.approx(1.15)
    assert truth.wait((0, 10)) == pytest.approx(3)
    assert truth.client_time((0, 10)) == pytest.approx(5.75)
    assert truth.counts() == {1: 1, 2: 1}
    truth = Truth((record(0, 0, 30, 30),))
    assert truth.completed((0, 20)) == 0
    assert truth.in_application((0, 20)) == 1
    assert truth.completed((20, 40)) == pytest.approx(1.5)


def test_an_answer_of_somebody_else_is_no_completion():
    """A response that is not from the application raises an error, and counts as a failure."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.0 502 Bad Gateway\r\n\r\nok\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ValueError, match="not a response"):
            ask(listener.getsockname(), "/")
        thread.join()
