"""Leads a story's documents through everything that is made of them, and asserts what holds whatever they say."""

import json
import math
import os
from collections.abc import Iterable
from random import Random

import msgspec
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.fuzz.mutations import tell_story
from tests.support.observations import render_families
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.check.reports import render_json, render_lines, render_list, render_report
from uwsgi_headroom.check.request import Threshold, Thresholds
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.errors import REASONS, StatsError
from uwsgi_headroom.history.totals import Totals, copy_totals
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.metrics import families
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.routes import Templates
from uwsgi_headroom.source import Answer, File
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.top.feeds import NO_TREND
from uwsgi_headroom.top.navigation import Navigation, ScreenModel, ServerEntry
from uwsgi_headroom.top.view.screen import draw
from uwsgi_headroom.watch.reader import RouteNamer
from uwsgi_headroom.watch.watch import Watch

DOCUMENTS = 5
"""In one story. The last that can be read is led through all faces."""

VIEWS = ("servers", "workers", "threads", "findings", "events", "plots")
WINDOWS = (60.0,)


class Story:
    """One server watched over a story. Instants are a second apart, or a little less or much more."""

    def __init__(self, number: int) -> None:
        self._random = Random(number)
        self._now = 1000.0
        self._clock = Clock(monotonic=lambda: self._now, epoch=lambda: 1.7e9 + self._now)
        self._watch = Watch("story", File("/story.json"), clock=self._clock)
        self._host = Host(clock=self._clock.monotonic)
        self._known: list[float] = []
        self.readable = 0
        self._routes = RouteNamer(Templates()) if number % 2 else None

    def run(self) -> None:
        """Raise AssertionError, or whatever came out, at the first thing that is wrong."""
        reading = None
        for body in tell_story(self._random, DOCUMENTS):
            self._now += self._random.choice([0.2, 1.0, 1.0, 1.1, 30.0])
            reading = self._read(body) or reading
        assert not self._watch.reader.faults
        if reading:
            self._watch.reading = reading
            self._watch.reader.outcome = reading
            self._now = max(self._now, reading.at)
            self._look_at_all_faces(reading)

    def _read(self, body: bytes) -> Reading | None:
        before = copy_totals(self._watch.integrals.totals)
        try:
            snapshot = stats.decode(body, self._routes.templates if self._routes else None)
        except StatsError as error:
            self._watch._record(self._now, error)
            self._assert_each_second_counts_once()
            _assert_refusal(error)
            return None
        self.readable += 1
        own = os.getpid() if self._random.random() < 0.2 else None
        if own and isinstance(snapshot, Snapshot):
            snapshot = replace(snapshot, pid=own)
        host = self._host.read_facts(snapshot, Answer(b"", peer_pid=own))
        routes = self._routes.find_routes(snapshot, self._now) if self._routes else None
        reading = Reading(self._now, self._clock.epoch(), 0.001, 0.001, len(body), snapshot, host, routes)
        self._watch._record(self._now, reading)
        if isinstance(snapshot, Snapshot):
            self._assert_each_second_counts_once()
        _assert_totals_grow(before, self._watch.integrals.totals)
        return reading

    def _assert_each_second_counts_once(self) -> None:
        """The time since the first attempt to read the server was observed, or is a gap."""
        self._known.append(self._now)
        totals = self._watch.integrals.totals
        assert math.isclose(totals.observed_seconds + totals.gap_seconds, self._now - self._known[0], abs_tol=1e-6)

    def _look_at_all_faces(self, reading: Reading) -> None:
        figures = self._watch.figures(reading, WINDOWS)
        for each in figures:
            _assert_figures(each)
        observation = self._watch.observe(WINDOWS)
        if self._watch.state == "up":
            assert observation.reading is reading
        _assert_metrics([replace(observation, outcome=reading, figures=figures)])
        document = build.build_server(self._watch, self._clock, WINDOWS[0], WINDOWS)
        assert document.error is None or document.error.reason != "internal"
        json.loads(msgspec.json.encode(document), parse_constant=_refuse_constant)
        _assert_check_and_screen(document)


def _refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} in a document")


def _assert_refusal(error: StatsError) -> None:
    """It is one of the known reasons, in a sentence that cannot hold a document."""
    assert error.reason in REASONS
    assert len(str(error)) < 300


def _assert_totals_grow(before: Totals, after: Totals) -> None:
    """Nothing that was counted is taken back, nothing is negative or no number."""
    for name in ("samples", "observed_seconds", "gap_seconds", "full_seconds", "reloads", "occupancy_sum"):
        assert getattr(after, name) >= getattr(before, name) >= 0, name
    for then, now in zip(before.workers, after.workers, strict=False):
        for name in ("requests", "static_requests", "exceptions", "harakiris", "respawns", "up_seconds"):
            assert getattr(now, name) >= getattr(then, name) >= 0, name
        for name in ("running_time", "busy_seconds", "cpu_seconds"):
            assert (getattr(now, name) or 0.0) >= (getattr(then, name) or 0.0) >= 0, name
            assert math.isfinite(getattr(now, name) or 0.0), name
    for name, area in after.queue_seconds.items():
        assert area >= before.queue_seconds.get(name, 0.0) >= 0


def _assert_figures(found: Figures) -> None:
    """Shares and ratios are within their bounds, and the headroom is that of a limit."""
    balance, window = found.balance, found.window
    active = sum(worker.active for worker in found.workers)
    assert window.seconds > 0
    assert window.observed_seconds <= window.seconds + 1e-3
    assert all(worker.share is None or 0 <= worker.share <= 1 for worker in found.workers)
    assert balance.hot_ratio is None or 1 - 1e-9 <= balance.hot_ratio <= active + 1e-9
    assert balance.fairness is None or 1 / active - 1e-9 <= balance.fairness <= 1 + 1e-9
    assert balance.noise_floor is None or balance.noise_floor >= 1
    assert balance.cost is None or 0 <= balance.cost <= 1
    assert found.headroom.factor == min(found.headroom.by_limit.values(), default=None)
    assert all(0 < factor < math.inf for factor in found.headroom.by_limit.values())
    times = (found.flow.queue_wait, found.flow.response_time, found.flow.observed, found.demand.at_once)
    assert all(0 <= number < math.inf for number in times if number is not None)


def _assert_metrics(observations: list) -> None:
    """Both formats parse, say the same, have no series twice, no NaN and no counter below zero."""
    made = [family for family in families(observations) if not family.name.startswith("process_")]
    text = render_families(made).decode()
    openmetrics = render_families(made, openmetrics=True).decode()
    parsed = [
        [
            (sample.name, tuple(sorted(sample.labels.items())), sample.value)
            for family in read
            for sample in family.samples
        ]
        for read in (parse_text(text), parse_openmetrics(openmetrics))
    ]
    assert sorted(parsed[0]) == sorted(parsed[1])
    series = [(name, labels) for name, labels, _ in parsed[0]]
    assert len(series) == len(set(series)), "a series is there twice"
    for name, labels, value in parsed[0]:
        assert math.isfinite(value), (name, labels)
        assert value >= 0 or not name.endswith(("_total", "_bucket", "_count", "_sum")), (name, labels, value)


def _assert_check_and_screen(document: ServerDocument) -> None:
    assert list(render_lines(document))
    assert list(render_lines(document, everything=True))
    assert list(render_list([document, document]))
    assert json.loads(render_json([document], single=True))["name"] == document.name
    line = render_report([document, document], Thresholds(Threshold(2.0), Threshold(0.1), Threshold(0.1)))
    assert line.isprintable()
    assert line.count("|") <= 1
    entry = ServerEntry((0, document.name), build.build_server_list([document], Clock()).servers[0])
    model = ScreenModel(entries=(entry,), server=document, trend=NO_TREND, where="here")
    for view in VIEWS:
        assert len(draw(model, Navigation(view=view, server=entry.key), 100, 30, 1.7e9).lines) == 30


def run_stories(numbers: Iterable[int]) -> int:
    """Run these; return how many documents could be read. The number of a story that fails is in the note."""
    readable = 0
    for number in numbers:
        story = Story(number)
        try:
            story.run()
        except Exception as error:
            raise AssertionError(f"story {number}: {type(error).__name__}: {error}") from error
        readable += story.readable
    return readable
