"""Series from totals and windows: values, when they are absent, and that PromQL computes the same."""

import random
from bisect import bisect_right
from itertools import accumulate, chain

import pytest

from tests.support.simulated_server import Server, emperor
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.metrics import SECTIONS
from uwsgi_headroom.metrics.family import LabelSet, group_by_kind, tabulate
from uwsgi_headroom.metrics.window_figures import prometheus_duration
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.watch import Watch

WINDOWS = (60.0, 300.0)


def watch_of(*readings: Reading) -> Watch:
    watch = Watch("shop", Unix("/run/shop.stats"))
    for reading in readings:
        watch._record(reading.at, reading)
    return watch


def series(watch: Watch, outcome: Reading | ReadError, *sections: str) -> dict[str, float]:
    """All series by their text, without the label `server`: those of these sections, or of all."""
    of = watch._observation(outcome, watch.figures(outcome, WINDOWS) if isinstance(outcome, Reading) else [])
    scrape = group_by_kind([of])
    made = chain.from_iterable(tabulate(SECTIONS[section], scrape) for section in sections or SECTIONS)
    values: dict[str, float] = {}
    for metric in made:
        for sample in metric.samples:
            labels = LabelSet(**{name: value for name, value in sample.labels.items() if name != "server"})
            key = sample.name + labels.text
            assert key not in values
            values[key] = sample.value
    return values


def series_of(watch: Watch, outcome: Reading) -> dict[str, float]:
    return series(watch, outcome, "Window figures")


def example() -> list[Reading]:
    """Two minutes of an uneven server: a reading a second of 4x8 at 27.8 requests a second, 43 % in worker 2."""
    server, readings = Server(cpus=8.0), []
    server.busy(2, 8, 2, 2)
    for second in range(121):
        readings.append(server.read(float(second)))
        for worker_id in (1, 2, 3, 4):
            hot = worker_id == 2
            # Requests that end come in whole numbers: 717 of the hot worker and 317 of the others in 60 s.
            rate, held = (717 / 60, 8) if hot else (317 / 60, 2)
            requests = int((second + 1) * rate) - int(second * rate)
            server.serve(worker_id, requests, each=held / rate, cpu=0.0833)
    return readings


def test_one_hot_worker_of_four():
    """All figures are exported for both windows; those of single workers only for the longer one."""
    readings = example()
    values = series_of(watch_of(*readings), readings[-1])
    assert values['uwsgi_window_seconds{window="1m"}'] == 60
    assert values['uwsgi_window_seconds{window="5m"}'] == 120
    for length in ("1m", "5m"):
        of = f'window="{length}"'
        assert values[f"uwsgi_throughput_requests_per_second{{{of}}}"] == pytest.approx(27.8, abs=0.1)
        assert values[f"uwsgi_mean_response_time_seconds{{{of}}}"] == pytest.approx(0.5, abs=0.01)
        assert values[f'uwsgi_concurrency{{method="littles_law",{of}}}'] == pytest.approx(14, abs=0.1)
        assert values[f'uwsgi_concurrency{{method="observed",{of}}}'] == pytest.approx(14)
        assert values[f"uwsgi_hot_worker_ratio{{{of}}}"] == pytest.approx(1.72, abs=0.01)
        assert values[f"uwsgi_hot_worker_ratio_noise_floor{{{of}}}"] < 1.3
        assert values[f"uwsgi_request_share_fairness{{{of}}}"] == pytest.approx(0.85, abs=0.01)
        assert values[f"uwsgi_unevenness_cost_ratio{{{of}}}"] == pytest.approx(0.25, abs=0.01)
        assert values[f"uwsgi_queue_wait_seconds{{{of}}}"] == 0
        limits = [values[f'uwsgi_headroom_ratio{{limit="{limit}",{of}}}'] for limit in LIMITS]
        assert limits == [pytest.approx(factor, abs=0.02) for factor in (1.0, 1.73, 2.29, 3.45)]
        assert values[f"uwsgi_usable_headroom_ratio{{{of}}}"] == pytest.approx(0.55, abs=0.02)
    workers = {key for key in values if key.startswith("uwsgi_worker_")}
    assert len(workers) == 3 * 4
    assert all('window="5m"' in key for key in workers)
    hot = 'window="5m",worker_id="2"'
    assert values[f"uwsgi_worker_request_share{{{hot}}}"] == pytest.approx(0.43, abs=0.005)
    assert values[f"uwsgi_worker_response_time_seconds{{{hot}}}"] == pytest.approx(0.67, abs=0.01)
    assert values[f"uwsgi_worker_interpreter_load{{{hot}}}"] == pytest.approx(1.0, abs=0.01)


LIMITS = ("hottest_interpreter", "interpreters", "threads", "cpu")


def test_idle_server():
    """Without requests, throughput and concurrency are 0; shares, ratios, times and headroom are absent."""
    server = Server()
    readings = [server.read(float(second)) for second in range(5)]
    values = series_of(watch_of(*readings), readings[-1])
    assert {key.partition("{")[0] for key in values} == {
        "uwsgi_window_seconds",
        "uwsgi_throughput_requests_per_second",
        "uwsgi_concurrency",
        "uwsgi_worker_interpreter_load",
    }


def test_first_second():
    """Before the second row there are no window and no series of a window."""
    server = Server()
    first, second = server.read(10.0), server.read(10.5)
    assert series_of(watch_of(first), first) == {}
    assert series_of(watch_of(first, second), second) == {}


def test_emperor_has_no_windows():
    """An emperor has none, whatever its history."""
    readings = [emperor(float(second)) for second in range(5)]
    assert series_of(watch_of(*readings), readings[-1]) == {}


def test_without_cores_and_kernel():
    """Figures that stats-no-cores and another host hide are absent: observed concurrency, loads, headroom, cost."""
    server, readings = Server(cores=False, host=False, queue=None), []
    for second in range(10):
        readings.append(server.read(float(second)))
        server.serve(1, 100)
    values = series_of(watch_of(*readings), readings[-1])
    # Little's law needs no threads, and the hot ratio only the number of workers.
    assert values['uwsgi_concurrency{method="littles_law",window="1m"}'] == pytest.approx(10)
    assert values['uwsgi_hot_worker_ratio{window="1m"}'] == 4
    gone = ("observed", "interpreter_load", "headroom", "cost", "queue_wait")
    assert not [key for key in values for part in gone if part in key]


@pytest.mark.parametrize(
    ("seconds", "text"), [(60, "1m"), (300, "5m"), (3600, "1h"), (90, "90s"), (5400, "90m"), (1, "1s"), (2.5, "2.5s")]
)
def test_duration(seconds, text):
    """The label is a duration in PromQL's syntax."""
    assert prometheus_duration(seconds) == text


class Load:
    """Requests of one worker for an hour: arrivals, and the requests held and done at any instant."""

    def __init__(self, arrivals: list[float], held: list[float], cpu: float) -> None:
        pairs = sorted((at + seconds, seconds) for at, seconds in zip(arrivals, held, strict=True))
        self._starts = arrivals
        self._ends = [end for end, _ in pairs]
        self._time = list(accumulate((seconds for _, seconds in pairs), initial=0.0))
        self._cpu = cpu

    def put(self, server: Server, worker_id: int, at: float) -> None:
        slot = server[worker_id]
        slot.requests = bisect_right(self._ends, at)
        slot.busy = bisect_right(self._starts, at) - slot.requests
        slot.state = "busy" if slot.busy else "idle"
        slot.running_time = self._time[slot.requests]
        slot.cpu = slot.requests * self._cpu


def random_load(rng: random.Random, rate: float, held: float) -> Load:
    arrivals = list(accumulate(rng.expovariate(rate) for _ in range(round(3660 * rate))))
    return Load(arrivals, [rng.expovariate(1 / held) for _ in arrivals], 0.0833)


def steady_load(rate: float, held: float) -> Load:
    arrivals = [index / rate for index in range(round(3660 * rate))]
    return Load(arrivals, [held] * len(arrivals), 0.0833)


class Prometheus:
    """The PromQL functions used here, over an hour scraped every 15 s: exact differences within a range."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.scrapes: list[dict[str, float]] = []

    def scrape(self, at: float, values: dict[str, float]) -> None:
        self.times.append(at)
        self.scrapes.append(values)

    def rate(self, key: str, seconds: float) -> float:
        first = bisect_right(self.times, self.times[-1] - seconds - 1e-6)
        grown = self.scrapes[-1][key] - self.scrapes[first][key]
        return grown / (self.times[-1] - self.times[first])

    def rates(self, name: str, seconds: float, **labels: str) -> dict[str, float]:
        """`sum by (worker_id) (rate(name[seconds]))`"""
        matchers = [f'{label}="{value}"' for label, value in labels.items()]
        by: dict[str, float] = {}
        for key in self.scrapes[-1]:
            if key.startswith(name + "{") and all(matcher in key for matcher in matchers):
                worker_id = key.partition('worker_id="')[2].partition('"')[0]
                by[worker_id] = by.get(worker_id, 0.0) + self.rate(key, seconds)
        return by


def promql(prometheus: Prometheus, seconds: float) -> dict[str, float]:
    """The expressions of a recording rule, by the name of the gauge that should equal each."""
    now, of = prometheus.scrapes[-1], f'window="{prometheus_duration(seconds)}"'
    requests = prometheus.rates("uwsgi_worker_requests_total", seconds)
    running = prometheus.rates("uwsgi_worker_running_time_seconds_total", seconds)
    cpu = prometheus.rates("uwsgi_worker_cpu_seconds_total", seconds)
    busy = prometheus.rates("uwsgi_worker_busy_thread_seconds_total", seconds)
    covered = prometheus.rate("uwsgi_exporter_observed_seconds_total", seconds)
    observed = sum(busy.values()) / covered
    waiting = prometheus.rates("uwsgi_socket_queue_seconds_total", seconds)[""] / covered
    expected = {
        f"uwsgi_throughput_requests_per_second{{{of}}}": sum(requests.values()),
        f"uwsgi_mean_response_time_seconds{{{of}}}": sum(running.values()) / sum(requests.values()),
        f'uwsgi_concurrency{{method="littles_law",{of}}}': sum(running.values()),
        f'uwsgi_concurrency{{method="observed",{of}}}': observed,
        f"uwsgi_queue_wait_seconds{{{of}}}": waiting / sum(requests.values()),
        f"uwsgi_hot_worker_ratio{{{of}}}": len(requests) * max(requests.values()) / sum(requests.values()),
        f'uwsgi_headroom_ratio{{limit="hottest_interpreter",{of}}}': 1 / max(cpu.values()),
        f'uwsgi_headroom_ratio{{limit="interpreters",{of}}}': len(cpu) / sum(cpu.values()),
        f'uwsgi_headroom_ratio{{limit="threads",{of}}}': now["uwsgi_threads_ceiling"] / observed,
        f'uwsgi_headroom_ratio{{limit="cpu",{of}}}': now["uwsgi_cpus_usable"] / sum(cpu.values()),
    }
    if seconds == 300:
        for worker_id in requests:
            labels = f'{{{of},worker_id="{worker_id}"}}'
            expected |= {
                f"uwsgi_worker_request_share{labels}": requests[worker_id] / sum(requests.values()),
                f"uwsgi_worker_response_time_seconds{labels}": running[worker_id] / requests[worker_id],
                f"uwsgi_worker_interpreter_load{labels}": cpu[worker_id],
            }
    return expected


@pytest.mark.parametrize("kind", ["steady", "random"])
def test_gauges_are_what_promql_computes(kind):
    """The gauges equal PromQL over a quarter of an hour scraped every 15 s, with jittered readings every half second.

    Three differences are by construction and excluded or tolerated. A window begins at a row up to 0.7 s from PromQL's
    range, so that of a minute's random requests one in a hundred is in only one of them. Prometheus extrapolates a rate
    to the ends of its range, and this test does not. PromQL cannot distinguish a reload or an outage from idleness, and
    the totals count both as a gap.
    """
    rng = random.Random(6)
    # More threads than there ever are requests in service, because threads bound the running time.
    server, watch, prometheus = Server(cpus=8.0, threads=64), watch_of(), Prometheus()
    rows = [(0.19 * 27.8, 0.378), (0.43 * 27.8, 0.669), (0.19 * 27.8, 0.378), (0.19 * 27.8, 0.378)]
    loads = [random_load(rng, rate, held) if kind == "random" else steady_load(rate, held) for rate, held in rows]
    server.queue = 3
    at, scrape_at, compared, worst = 0.0, 15.0, 0, (0.0, "")
    while scrape_at <= 900:
        scraping = at >= scrape_at
        now = scrape_at if scraping else at
        for worker_id, load in enumerate(loads, 1):
            load.put(server, worker_id, now)
        reading = server.read(now)
        watch._record(now, reading)
        if not scraping:
            at += 0.5 * rng.uniform(0.8, 1.2)
            continue
        scrape_at += 15
        values = series(watch, reading)
        prometheus.scrape(now, values)
        if now < 330 or (now / 15) % 2 == 0:
            continue
        for seconds in (60, 300):
            for key, truth in promql(prometheus, seconds).items():
                worst = max(worst, (abs(values[key] / truth - 1), key))
                compared += 1
    assert compared > 400
    assert worst[0] < 0.01, worst


def totals_series(watch: Watch, outcome) -> dict[str, float]:
    return series(watch, outcome, "Sampled totals")


def test_a_busy_second():
    """Two workers of two threads for a second and a half; all threads are busy for a third of that."""
    server = Server(processes=2, threads=2, queue=3)
    server.busy(2, 2)
    readings = [server.read(10.0), server.read(10.5)]
    server.busy(2, 0)
    readings += [server.read(10.5001), server.read(11.5001)]
    values = totals_series(watch_of(*readings), readings[-1])
    assert values['uwsgi_worker_busy_thread_seconds_total{worker_id="1"}'] == pytest.approx(3, abs=1e-3)
    assert values['uwsgi_worker_busy_thread_seconds_total{worker_id="2"}'] == pytest.approx(1, abs=1e-3)
    assert values['uwsgi_socket_queue_seconds_total{socket="app.sock"}'] == pytest.approx(4.5, abs=1e-3)
    assert values["uwsgi_full_occupancy_seconds_total"] == pytest.approx(0.5, abs=1e-3)
    assert values["uwsgi_exporter_observed_seconds_total"] == pytest.approx(1.5, abs=1e-3)
    assert values["uwsgi_exporter_sample_gap_seconds_total"] == 0
    assert values["uwsgi_exporter_samples_total"] == 4
    assert values["uwsgi_server_reloads_total"] == 0


def test_histogram_adds_up():
    """Buckets are cumulative, the last has all samples, and the histogram is valid for Prometheus."""
    server = Server(processes=1, threads=10)
    readings = []
    for at, busy in enumerate([0, 1, 2, 5, 9, 10, 10]):
        server.busy(busy)
        readings.append(server.read(float(at)))
    values = totals_series(watch_of(*readings), readings[-1])
    buckets = {key.split('"')[1]: value for key, value in values.items() if "_bucket" in key}
    assert list(buckets.values()) == sorted(buckets.values())
    assert (buckets["0.1"], buckets["0.5"], buckets["0.9"], buckets["0.99"], buckets["1.0"]) == (2, 4, 5, 5, 7)
    assert buckets["+Inf"] == values["uwsgi_threads_busy_ratio_count"] == 7
    assert values["uwsgi_threads_busy_ratio_sum"] == pytest.approx(3.7)


def test_without_cores_nothing_is_said_of_threads():
    """Busy-thread seconds, occupancy and full time are absent, and not 0."""
    server = Server(cores=False, queue=None)
    readings = [server.read(float(at)) for at in range(5)]
    values = totals_series(watch_of(*readings), readings[-1])
    assert set(values) == {
        "uwsgi_server_reloads_total",
        "uwsgi_no_worker_seconds_total",
        "uwsgi_starting_worker_seconds_total",
        "uwsgi_exporter_samples_total",
        "uwsgi_exporter_observed_seconds_total",
        "uwsgi_exporter_sample_gap_seconds_total",
    }


def test_server_that_is_down():
    """Gaps and samples continue; series of workers are absent until the server is back."""
    server = Server()
    watch = watch_of(server.read(10.0), server.read(10.5))
    down = ReadError("refused", "connection refused")
    watch._record(20.0, down)
    assert totals_series(watch, down) == {
        "uwsgi_exporter_samples_total": 2,
        "uwsgi_exporter_observed_seconds_total": 0.5,
        "uwsgi_exporter_sample_gap_seconds_total": 9.5,
    }


def test_emperor():
    """An emperor has no integrals."""
    assert set(totals_series(watch_of(emperor(1.0), emperor(2.0)), emperor(2.0)).values()) == {0}


def test_workers_that_a_reload_took_away():
    """Slots that no longer exist have no series."""
    server = Server(processes=4)
    before = [server.read(10.0), server.read(10.5)]
    server.reload(11.0, processes=2)
    after = server.read(11.5)
    values = totals_series(watch_of(*before, after), after)
    assert sum("busy_thread_seconds" in key for key in values) == 2
    assert values["uwsgi_server_reloads_total"] == 1


def test_labels_are_escaped():
    """A socket may have any name."""
    server = Server(socket='a"b\\c\nd')
    reading = server.read(1.0)
    assert 'uwsgi_socket_queue_seconds_total{socket="a\\"b\\\\c\\nd"}' in totals_series(watch_of(reading), reading)
