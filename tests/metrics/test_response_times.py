"""The histogram of response times, the percentiles over windows, and the figures of the objective."""

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.support.observations import SLO, render_families, series, twice_the_share, up
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.response_times.bins import BUCKET_BOUNDS
from uwsgi_headroom.metrics import families
from uwsgi_headroom.watch.observation import Observation

NAME = "uwsgi_response_time_seconds"


def served(slo: Slo | None = None, seconds: int = 30) -> Observation:
    """A server of which worker 1 completes a request of 100 ms each second, and worker 2 one of 3 s every 6 s."""
    server, watch = Server(2, 1), ScriptedWatch(slo=slo)
    for tick in range(4 * seconds):
        at = tick / 4
        if tick and not tick % 4:
            server.serve(1, 1, 0.1)
        phase = tick % 24
        server[2].busy = int(phase < 12)
        server[2].request_starts = (1_700_000_000 + int(at - phase / 4),) if phase < 12 else ()
        if phase == 12:
            server.serve(2, 1, 3.0)
        watch.read(server.read(at))
    return watch.watch.observe((60.0,))


def buckets(values: dict[str, float]) -> dict[float, float]:
    """The histogram's numbers by bound, in the order of the exposition."""
    return {
        float(key.partition('le="')[2].partition('"')[0]): value
        for key, value in values.items()
        if key.startswith(f"{NAME}_bucket")
    }


def test_the_histogram():
    """Requests are counted up to each bound; the bound `+Inf` has all, as the count."""
    values = series(served())
    found = buckets(values)
    assert tuple(found) == (*BUCKET_BOUNDS, float("inf"))
    assert list(found.values()) == sorted(found.values())
    assert all(value == int(value) for value in found.values())
    assert values[f'{NAME}_count{{server="shop"}}'] == found[float("inf")] == 25 + 4
    assert values[f'{NAME}_sum{{server="shop"}}'] == pytest.approx(25 * 0.1 + 4 * 3.0)
    assert (found[0.05], found[0.1], found[2.5], found[5.0]) == (0, 25, 25, 29)


def test_all_of_it_moves_together():
    """At the end of a batch: a request that was completed since is in no part of it."""
    earlier, later = series(served(seconds=11)), series(served(seconds=14))
    for values in (earlier, later):
        assert buckets(values)[float("inf")] == values[f'{NAME}_count{{server="shop"}}']
    requests = [
        sum(value for key, value in values.items() if "worker_requests_total" in key) for values in (earlier, later)
    ]
    assert requests[1] > requests[0]
    assert requests[0] >= earlier[f'{NAME}_count{{server="shop"}}']


def test_the_threshold_is_a_bound():
    """The slow requests of the objective are those above it, and that which is in service for longer already."""
    values = series(served(Slo(0.75, 0.99)))
    assert buckets(values)[0.75] == 25
    assert values['uwsgi_slo_threshold_seconds{server="shop"}'] == 0.75
    assert values['uwsgi_slo_objective_ratio{server="shop"}'] == 0.99
    assert values['uwsgi_slo_requests_total{server="shop"}'] == 29 + 1
    assert values['uwsgi_slo_bad_requests_total{reason="slow",server="shop"}'] == 29 - 25 + 1
    for reason in ("waited", "refused"):
        assert values[f'uwsgi_slo_bad_requests_total{{reason="{reason}",server="shop"}}'] == 0
    assert values['uwsgi_slo_bad_requests_total{reason="lost",server="shop"}'] == 0


def test_a_threshold_that_is_a_bound_already():
    """It adds no second series of the same bound."""
    assert tuple(buckets(series(served(Slo(1.0, 0.99))))) == (*BUCKET_BOUNDS, float("inf"))


def test_no_objective_no_series_of_it():
    """Nor has a server whose threads are unknown, except for what is configured."""
    assert not [key for key in series(served()) if "uwsgi_slo" in key]
    values = series(up("no_cores", slo=SLO))
    assert not [key for key in values if key.startswith(NAME)]
    assert {key.partition("{")[0] for key in values if "slo" in key} == {
        "uwsgi_slo_threshold_seconds",
        "uwsgi_slo_objective_ratio",
    }


def test_percentiles_of_a_window():
    """Only those of at least 0.8 sampling intervals, which the median is not, and with a slower request."""
    values = {key: value for key, value in series(served()).items() if "percentile_seconds" in key}
    name = "uwsgi_response_time_percentile_seconds"
    assert values == {
        f'{name}{{percentile="{percentile}",server="shop",window="1m"}}': pytest.approx(3.0, rel=0.1)
        for percentile in (90, 95)
    }


def test_waits_in_the_queue():
    """Ten wait, and four a second are served: from the second on that is seen, all wait for 2.5 s. Percentiles are of
    the longest window; the oldest request is there until the queue is empty, then it is 0. A queue that cannot be
    measured has neither."""
    server, watch = Server(1, 1), ScriptedWatch()
    watch.seconds(server, 1)
    server.queue = 10
    watch.seconds(server, 50, lambda _: server.serve(1, 4, 0.2))
    values = series(watch.watch.observe((30.0, 300.0)))
    name = "uwsgi_queue_wait_percentile_seconds"
    assert {key for key in values if key.startswith(name)} == {
        f'{name}{{percentile="{percentile}",server="shop",window="5m"}}' for percentile in (50, 90, 95, 99)
    }
    assert values[f'{name}{{percentile="95",server="shop",window="5m"}}'] == pytest.approx(2.5, rel=0.2)
    oldest = 'uwsgi_listen_queue_oldest_wait_seconds{server="shop"}'
    assert values[oldest] == pytest.approx(2.5, rel=0.2)
    server.queue = 0
    assert series(watch.seconds(server, 1).watch.observe((30.0,)))[oldest] == 0
    server.queue = None
    assert oldest not in series(watch.seconds(server, 1).watch.observe((30.0,)))


def test_labels_of_percentiles():
    """They are whole numbers."""
    observation = served()
    times = twice_the_share()
    figures = [replace(figures, response_times=times) for figures in observation.figures]
    values = series(replace(observation, figures=figures))
    found = {
        key.partition('percentile="')[2].partition('"')[0]: value
        for key, value in values.items()
        if "percentile_" in key
    }
    assert found == {"50": 1.0, "90": 1.8, "95": 1.9, "99": pytest.approx(1.98)}


def test_prometheus_parsers_read_it():
    """As text 0.0.4 and as OpenMetrics, both are one histogram with equal samples."""
    observations = [served(Slo(0.75, 0.99)), replace(served(), name="other")]
    text = {family.name: family for family in parse_text(render_families(families(observations)).decode())}
    openmetrics = {
        family.name: family
        for family in parse_openmetrics(render_families(families(observations), openmetrics=True).decode())
    }
    for parsed in (text, openmetrics):
        assert parsed[NAME].type == "histogram"
        assert len(parsed[NAME].samples) == 2 * (len(BUCKET_BOUNDS) + 3) + 1
        assert parsed["uwsgi_slo_requests"].type == "counter"
    assert [sample.value for sample in text[NAME].samples] == [sample.value for sample in openmetrics[NAME].samples]
