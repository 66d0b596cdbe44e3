"""What benchmarks conclude from figures: of the model, of scrapes, of hostile clients, of figures against the truth."""

from __future__ import annotations

import random
import socket
import threading

import pytest

from tools.bench import hostile, model
from tools.bench.accuracy.generator import Record, Truth, ask, mean_level
from tools.bench.accuracy.rules import RULES
from tools.bench.accuracy.scrapes import Scrape, Span, window
from tools.bench.clients import Kind
from tools.bench.hostile import DOCUMENTS, SITUATIONS, Decoding, Figures
from tools.bench.hostile_crowds import QUIET, Crowd
from tools.bench.model import LOADS, OBSERVED, WORKLOADS, Row
from uwsgi_headroom.analysis.what_if import AtLoad, Prediction, Setting
from uwsgi_headroom.config.defaults import SIZE_CAP

TRUTH = model.Truth(throughput=100.0, service=0.1, total=0.1, other_programs=0.25)


def _row(load: float | None, most: float, time: float | None) -> Row:
    at = AtLoad(
        load=1.0,
        throughput=50.0,
        sustained=time is not None,
        response_time=time,
        queue_wait=None if time is None else 0.0,
        threads=0.5,
        interpreters=0.5,
        cpu=0.5,
        lock=0.0,
    )
    predicted = Prediction(
        setting=Setting(8, 4), most_throughput=most, limit="threads", at=(at,), memory=None, fits=None
    )
    return Row("mix", Setting(8, 4), load, TRUTH, predicted)


def test_misses_of_the_model_are_marked_and_counted() -> None:
    rows = [_row(None, 114.0, 0.1), _row(None, 116.0, 0.1), _row(0.5, 100.0, 0.13), _row(0.8, 1.0, None)]
    lines = model.report(rows).splitlines()[2:]
    assert "114.0 → 100.0 (+14%) |" in lines[0]
    assert "116.0 → 100.0 (+16% ✗)" in lines[1]
    assert "| mix | 8x4 | 50% | 0.25 |  | 130.0 → 100.0 (+30% ✗) | 130.0 → 100.0 (+30% ✗) |" in lines[2]
    assert lines[3].count("unknown → 100.0 ✗") == 2
    assert "1 of 6 predictions are within" in lines[-1]


def test_tables_of_benchmarks() -> None:
    """Eight settings are predicted from one, no gauge has two rules, no document is larger than it accepts."""
    mix = WORKLOADS[0]
    assert len(set(mix.settings) - {OBSERVED}) == 8
    assert sum(kind.weight for kind in mix.kinds) == 1
    assert LOADS == (0.5, 0.8)
    names = [(rule.gauge, rule.fixed) for rule in RULES]
    assert len(names) == len(set(names))
    for name, make in DOCUMENTS.items():
        assert len(make()) <= SIZE_CAP, name


def test_requests_vary_around_their_mean() -> None:
    """The CPU time and the wait of a request vary together."""
    kind, chance = Kind(1, "/mixed?cpu_ms={cpu}&io_ms={io}", cpu=10, io=100, spread=0.5), random.Random(1)
    for _ in range(20):
        path, seconds = kind.draw(chance)
        cpu, io = (float(part.partition("=")[2]) for part in path.partition("?")[2].split("&"))
        assert 5 <= cpu <= 15
        assert abs(io - 1e3 * seconds) < 0.001
        assert abs(io - 10 * cpu) < 0.02


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


def test_a_span_between_two_scrapes() -> None:
    """Growth is by worker and in total, over the time between two readings by the exporter's clock; the soonest
    response determines their times."""
    span = Span(scrape(100.0, 10, 20, 3.5), scrape(111.0, 40, 20, 13.5))
    assert span.seconds == 10.0
    assert span.growth("uwsgi_worker_requests_total") == 30
    assert span.by_worker("uwsgi_worker_requests_total") == {1: 30, 2: 0}
    scrapes = [scrape(100.2, 0, 0, 3.5), scrape(110.01, 0, 0, 13.5)]
    assert window(Span(*scrapes), scrapes) == pytest.approx((100.01, 110.01))


S = 1_000_000_000


def record(connected: float, enter: float, leave: float, end: float, worker: int = 1) -> Record:
    times = [round(seconds * S) for seconds in (connected, connected, enter, leave, leave, end)]
    return Record(*[*times, worker])


def test_the_truth_about_requests() -> None:
    """Parts within the window count, and overlaps add up. The client's interval is longer by the queue; what is in
    flight has not completed."""
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


def test_an_answer_of_somebody_else_is_no_completion() -> None:
    """A response that is not from the application raises an error, and counts as a failure."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.0 502 Bad Gateway\r\n\r\nok\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ValueError, match="not a response"):
            ask(listener.getsockname(), "/")
        thread.join()


WELL = Figures(samples=5.0, scrapes=(0.1, 0.3, 0.2), cpu=0.02, resident=50_000_000, lag=0.01, series=100)
CALM = Crowd(samples=5.0, scrapes=(0.1, 0.3, 0.2), answers=2_000.0, refused=0.0, resident=50_000_000)
QUIET_4X8, ASKED = ("4x8", "", QUIET), ("4x8", "ask", "/")
QUICK = Decoding(size=1_000_000, outcome="server", cpu=(0.01, 0.02, 0.03))


def test_no_miss() -> None:
    text = hostile.report(dict.fromkeys(SITUATIONS, WELL), {"a document": QUICK}, {QUIET_4X8: CALM, ASKED: CALM})
    assert "| beside both | 5.00 | 0.200 | 0.300 | 100 | 2.0% | 50 | 0.010 |" in text
    assert "| 4x8 | ask | / | 5.00 | 0.200 | 0.300 | 2,000 | 0 | 50 |" in text
    assert "| a document | 1.00 | server | 20.0 | 30.0 |" in text
    assert "Misses: none." in text


def test_every_target_can_be_missed() -> None:
    """A good server that loses most samples, a scrape longer than Prometheus waits, and a slow document are named."""
    poor = Figures(samples=2.4, scrapes=(11.0,), cpu=1.0, resident=1, lag=None, series=0)
    busy = Crowd(samples=4.4, scrapes=(0.1, 0.6), answers=9.0, refused=1.0, resident=1)
    slow = Decoding(size=1, outcome="server", cpu=(0.06,))
    text = hostile.report({"alone": WELL, "beside both": poor}, {"a document": slow}, {QUIET_4X8: CALM, ASKED: busy})
    assert [line for line in text.splitlines() if line.startswith("* ")] == [
        "* beside both: 2.40 samples a second, less than half of the rate alone",
        "* beside both: 1 of 1 scrapes were not answered within 10 s",
        "* a document: decoding took 60 ms, more than 50 ms",
        "* 4x8, ask, /: 88% of the samples",
        "* 4x8, ask, /: a scrape took 0.60 s",
    ]
