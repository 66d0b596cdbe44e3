"""What panels and marks show of series, evaluated by promtool."""

import re

import pytest

from dashboards.signals.waits import ORDER
from tests.dashboards.dashboard_queries import board, panels, queries
from tests.support.promtool import evaluate
from uwsgi_headroom.record import STATES
from uwsgi_headroom.web import live_page

IDENTITY = {"job": "uwsgi", "instance": "10.0.0.1:9238", "server": "shop"}
LOAD, PER_REQUEST = "Load: requests in the system, by what they do", "Time per request by state"
STACKS = {
    "server": (LOAD, PER_REQUEST),
    "capacity": ("Share of the time of requests by state", "Threads by state: the day's mean"),
}
SCRAPE, LENGTH = 15, 3600
"""Seconds."""

WORDS = "CPU,CPU wait,interpreter lock (GIL),backend,client,DNS,disk,lock,sleep,child process,pipe,other,unknown"
"""Of all states, in their order."""


def stacks():
    return [panel for name, titles in STACKS.items() for panel in panels(board(name)) if panel["title"] in titles]


def properties(panel, name):
    """What the overrides say of the series of this name; later ones win, as in Grafana."""
    found = {}
    for override in panel["fieldConfig"]["overrides"]:
        matcher, options = override["matcher"]["id"], override["matcher"]["options"]
        pattern, flags = ("", "") if matcher == "byName" else options[1:].rsplit("/", 1)
        matches = (
            name == options if matcher == "byName" else re.search(pattern, name, re.IGNORECASE if flags == "i" else 0)
        )
        found |= {each["id"]: each["value"] for each in override["properties"]} if matches else {}
    return found


def test_every_state_has_its_words_and_a_colour_of_its_own():
    """The same on all panels, as in the files of the exporter's page."""
    script, style = ((live_page.FOLDER / name).read_text() for name in ("words.js", "page.css"))
    words = tuple(re.search(rf'^  {state}: \["(.*?)", ', script, re.MULTILINE)[1] for state in STATES)
    colours = [re.search(rf"--wait-{state.replace('_', '-')}: (#\w+);", style)[1] for state in STATES]
    assert len(stacks()) == 4
    for panel in stacks():
        shown = [properties(panel, state) for state in STATES]
        assert tuple(each["displayName"] for each in shown) == words == tuple(WORDS.split(","))
        assert [each["color"]["fixedColor"] for each in shown] == colours
        assert len(set(colours)) == len(STATES)
        assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"


@pytest.mark.parametrize("name", ["postgres", "Redis", "zookeeper", "9p", "élastic"])
def test_a_named_backend_has_a_colour(name):
    """Whatever its name begins with; the legend has the name as it is."""
    for panel in stacks():
        shown = properties(panel, f"waits for {name}")
        states = {properties(panel, state)["color"]["fixedColor"] for state in STATES}
        assert shown["color"]["fixedColor"] not in states
        assert "displayName" not in shown


def test_lines_and_descriptions():
    """Lines of threads are not stacked. Descriptions say what to grant where a panel may be empty."""
    (panel,) = [panel for panel in panels(board("server")) if panel["title"] == LOAD]
    for name in ("available", "configured"):
        assert properties(panel, name)["custom.stacking"]["mode"] == "none"
        assert properties(panel, name)["custom.fillOpacity"] == 0
    lock = [panel for panel in panels(board("server")) if panel["title"].startswith("Interpreter lock")]
    assert len(lock) == 1
    for panel in [*stacks(), *lock]:
        for word in ("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "docs/waits.md"):
            assert word in panel["description"], panel["title"]


BUSY = {"cpu": 1.0, "interpreter_lock": 0.5, "backend": 4.0, "dns": 0.25, "sleep": 2.0, "unknown": 0.25}
RARE = {"disk": 0.03, "pipe": 0.0}
"""Mean threads by state, in the part of the time that is sampled. The rare ones have no band."""
NAMED = {"redis": 1.0, "postgres": 2.5}
BANDS = (
    ("cpu", 1.0),
    ("interpreter_lock", 0.5),
    ("backend", 0.5),
    ("waits for postgres", 2.5),
    ("waits for redis", 1.0),
    ("dns", 0.25),
    ("sleep", 2.0),
    ("unknown", 0.25),
)
"""From the bottom."""
REQUESTS = 20.0
"""Per second."""


def test_bands_of_backends(tmp_path):
    """Named backends are taken from the state `backend`, which has no band if nothing is left."""
    assert sum(threads for _, threads in BANDS) == sum(BUSY.values())
    assert _answered(tmp_path, LOAD, NAMED, BANDS) == ""
    bands = list(BUSY.items())
    assert _answered(tmp_path, LOAD, {}, bands) == ""
    bands = [(state, threads) for state, threads in BUSY.items() if state != "backend"]
    assert _answered(tmp_path, LOAD, {"redis": BUSY["backend"]}, [*bands, ("waits for redis", BUSY["backend"])]) == ""
    bands = [(state, threads / REQUESTS) for state, threads in BANDS]
    assert _answered(tmp_path, PER_REQUEST, NAMED, bands) == ""


def test_the_order_of_all_states():
    """Prometheus sorts by labels, first by the place that the query adds: states come in their order, and named
    backends after the state `backend`."""
    names = ["waits for the moon", "waits for a redis", *reversed(STATES)]
    places = {name: [place for place, states in enumerate(ORDER) if re.fullmatch(states, name)] for name in names}
    assert all(len(found) == 1 for found in places.values())
    after = STATES.index("backend") + 1
    assert sorted(names, key=lambda name: (places[name], name)) == [
        *STATES[:after],
        "waits for a redis",
        "waits for the moon",
        *STATES[after:],
    ]


def test_threads_that_wait_for_an_interpreter(tmp_path):
    """By worker, of the time that is sampled."""
    locks = {"1": 0.75, "2": 0.25}
    samples = [(f'{{worker_id="{worker_id}"}}', threads) for worker_id, threads in locks.items()]
    title = "Interpreter lock: waiting threads by worker"
    name = "uwsgi_worker_interpreter_lock_wait_thread_seconds_total"
    counters = {_series(name, worker_id=worker_id): threads * SAMPLED for worker_id, threads in locks.items()}
    assert _evaluated(tmp_path, title, counters, samples) == ""


PARTS = 10_000
"""Values are compared in these parts of 1, as whole numbers: sums differ in their last digit by their order."""
SAMPLED = 0.5
"""The sampled part of the time."""


def _answered(directory, title, named, bands):
    """promtool's output unless the panel's stack has these bands for the load above, else empty."""
    states = {**BUSY, **RARE}
    counters = {
        **{_series("uwsgi_wait_thread_seconds_total", state=state): states[state] * SAMPLED for state in states},
        **{_series("uwsgi_backend_wait_thread_seconds_total", backend=name): named[name] * SAMPLED for name in named},
        _series("uwsgi_wait_thread_seconds_total", server="other", state="cpu"): 7.0,
    }
    samples = []
    for state, value in bands:
        (place,) = [place for place, states_there in enumerate(ORDER, 1) if re.fullmatch(states_there, state)]
        samples.append((f'{{place="{place}", state="{state}"}}', value))
    return _evaluated(directory, title, counters, samples)


def _evaluated(directory, title, counters, samples):
    """promtool's output unless the panel's first query has these samples, else empty. counters: their growth per
    second."""
    every = {
        **counters,
        _series("uwsgi_wait_observed_seconds_total"): SAMPLED,
        _series("uwsgi_worker_requests_total", worker_id="1"): REQUESTS / 4,
        _series("uwsgi_worker_requests_total", worker_id="2"): REQUESTS * 3 / 4,
    }
    asked = {
        "expr": f"round({PARTS} * ({_expression(f'server: {title} A')}))",
        "eval_time": f"{LENGTH}s",
        "exp_samples": [{"labels": labels, "value": round(value * PARTS)} for labels, value in samples],
    }
    series = {name: f"0+{growth * SCRAPE}x{LENGTH // SCRAPE}" for name, growth in every.items()}
    return evaluate(directory, series, f"{SCRAPE}s", [asked])


def _expression(where, **values):
    """The query of this place, over LENGTH seconds, with these values of variables beside those of the one server."""
    values = {**IDENTITY, "service_label": "server", "service": ".*", "window": "5m", **values}
    (query,) = [each for each in queries(where.partition(":")[0], values, LENGTH) if each.where == where]
    return query.expression


def _labels(**labels):
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items() if value) + "}"


def _series(name, **labels):
    return name + _labels(**IDENTITY | labels)


def _trouble(directory, name, kind, event, values, marked):
    """promtool's output unless the mark `name` is exactly at the points `marked` of a counter with these values."""
    subject = f"{IDENTITY['server']} {IDENTITY['instance']} "
    sample = _labels(**IDENTITY, kind=kind, event=event, subject=subject)
    asked = [
        {
            "expr": _expression(f"server: mark {name}"),
            "eval_time": f"{point * SCRAPE}s",
            "exp_samples": [{"labels": sample, "value": point * SCRAPE * 1000}] if point in marked else [],
        }
        for point in range(len(values.split()))
    ]
    return evaluate(directory, {_series("uwsgi_events_total", kind=kind): values}, f"{SCRAPE}s", asked)


@pytest.mark.parametrize(
    ("values", "marked"),
    [
        pytest.param("0 0 0 0 0", [], id="nothing"),
        pytest.param("0 1 1 1 2 2", [1, 4], id="two reloads"),
        pytest.param("0 0 3 3 3", [2], id="three in one step"),
        pytest.param("4 4 0 0 1 1", [4], id="a counter that starts again"),
        pytest.param("0 stale stale 7 7 8", [5], id="an exporter that was away"),
        pytest.param("_ _ 2 2 3", [4], id="a series that begins"),
        pytest.param("2 2 stale stale stale", [], id="a series that ends"),
    ],
)
def test_a_mark_is_where_something_happened(tmp_path, values, marked):
    """A mark is at the end of the step in which the counter grew, and nowhere else."""
    assert _trouble(tmp_path, "Reloads", "reload", "reload", values, marked) == ""


@pytest.mark.parametrize(
    ("name", "kind", "event"),
    [
        ("Workers ended", "worker_ended", "worker ended"),
        ("Configuration", "configuration_changed", "configuration changed"),
        ("Down and up", "server_down", "server down"),
        ("Down and up", "server_up", "server up"),
        ("Cheaper mode", "cheaper_up", "cheaper up"),
        ("Cheaper mode", "cheaper_down", "cheaper down"),
        ("Verdicts", "verdict_changed", "verdict changed"),
        ("Exporter", "exporter_started", "exporter started"),
        ("Exporter", "sampling_gap", "sampling gap"),
    ],
)
def test_each_kind_has_its_mark(tmp_path, name, kind, event):
    assert _trouble(tmp_path, name, kind, event, "0 1 1", [1]) == ""


def test_an_event_of_another_kind_makes_no_mark(tmp_path):
    """A reload does not make the mark of a configuration change."""
    assert _trouble(tmp_path, "Configuration", "reload", "reload", "0 1 1", []) == ""


def test_an_alert_is_named_without_labels_that_it_lacks(tmp_path):
    """The text names the worker if the alert has one; otherwise Grafana would show `worker_id`."""
    labels = {**IDENTITY, "alertname": "UwsgiDown", "severity": "critical"}
    of_worker = {**IDENTITY, "alertname": "UwsgiWorker", "code": "x", "severity": "warning", "worker_id": "3"}
    series = {}
    expected = []
    for alert, worker in ((labels, ""), (of_worker, "worker 3")):
        series["ALERTS" + _labels(**alert, alertstate="firing")] = "1 1"
        series["ALERTS_FOR_STATE" + _labels(**alert)] = "900 900"
        subject = f"shop 10.0.0.1:9238 {worker}"
        named = f"{alert['alertname']} {alert.get('code', '')}"
        own = {**alert, "alert": named, "subject": subject, **({"worker": worker} if worker else {})}
        expected.append({"labels": _labels(**own), "value": 900_000})
    asked = {"expr": _expression("server: mark Alerts"), "eval_time": f"{SCRAPE}s", "exp_samples": expected}
    assert evaluate(tmp_path, series, f"{SCRAPE}s", [asked]) == ""


def _finding(server, urgency, title, worker_id=""):
    words = {"title": title, "act": f"Fix: {title}"}
    name = "uwsgi_finding_since_time_seconds"
    return _series(name, server=server, code="x", urgency=urgency, **words, worker_id=worker_id)


SERIES = {
    _series("uwsgi_verdict_info", server="hurt", verdict="critical", harm="queue_wait", cause="x"): "1",
    _series("uwsgi_verdict_info", server="refused", verdict="critical", harm="clients_refused", cause="x"): "1",
    _series("uwsgi_verdict_info", server="fine", verdict="ok", harm="none", cause="none"): "1",
    _series("uwsgi_verdict_since_time_seconds", server="fine"): "40",
    _finding("hurt", "page", "Requests wait.", "2"): "50",
    _finding("hurt", "ticket", "Memory grows."): "60",
    _finding("refused", "page", "The queue is full."): "70",
}


def _row(server, verdict, title=""):
    words = {"title": title, "act": f"Fix: {title}"} if title else {}
    return _series("", server=server, service=server, verdict=verdict, **words)


def test_the_worst_server_comes_first_with_its_finding(tmp_path):
    """A page before a ticket; who refuses clients before who lets them wait; a server without a finding is there."""
    rows = {_row("refused", "critical", "The queue is full."): 3.9, _row("hurt", "critical", "Requests wait."): 3.6}
    rows[_row("fine", "ok")] = 0
    asked = {
        "expr": _expression(
            "fleet: Servers, worst verdict first A", **dict.fromkeys(IDENTITY, ".*"), utc_offset="0", __from="0"
        ),
        "eval_time": "0s",
        "exp_samples": [{"labels": labels, "value": rank} for labels, rank in rows.items()],
    }
    assert evaluate(tmp_path, SERIES, "1m", [asked]) == ""


def test_a_server_has_all_its_findings(tmp_path):
    """With when each began; of a server without any, since when its verdict is what it is."""
    hurt = [
        {"labels": _labels(verdict="critical", title=title, act=f"Fix: {title}"), "value": since}
        for title, since in (("Requests wait.", 50_000), ("Memory grows.", 60_000))
    ]
    asked = [
        {"expr": _expression("server: Verdict A", server=server), "eval_time": "0s", "exp_samples": samples}
        for server, samples in (("hurt", hurt), ("fine", [{"labels": '{verdict="ok"}', "value": 40_000}]))
    ]
    assert evaluate(tmp_path, SERIES, "1m", asked) == ""
