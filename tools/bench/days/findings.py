"""What would have been said of a simulated day: findings by the judge, and pages by the shipped rules.

A day has 17,280 judgements. Those are made in whose window a figure comes near a threshold of a CRITICAL finding, and
one in ten minutes besides. Findings are held as `watch` does.

promtool evaluates the rules that page every minute, over the stretches of a day in which a figure comes near a
threshold of a page (about half of it) or the server is away, with the time before them that windows and holds need: a
whole day would take it many seconds.
"""

from __future__ import annotations

import re
import tempfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from msgspec import structs

from tests.support import promtool
from tools.bench.days.course import MARKS, STEP, Course, Hurt, simulate_also
from tools.bench.days.healthy import QUEUE, Array
from uwsgi_headroom.analysis.capacity import follow_requests
from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.findings import Finding, Hold, collect_findings
from uwsgi_headroom.analysis.findings.evenness import LOADED
from uwsgi_headroom.analysis.littles_law import SEVERE
from uwsgi_headroom.analysis.objective import BURN_WINDOWS, FAST_BURN, judge_objective
from uwsgi_headroom.config.defaults import DEFAULT_SAMPLES_PER_SECOND, DEFAULT_WINDOWS
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.response_times.totals import SlowRequests
from uwsgi_headroom.history.totals import CpuTotals, Totals, WaitTotals, WorkerTotals
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import (
    STATES,
    Backlog,
    Cpus,
    Options,
    Outage,
    ServerRecord,
    Setup,
    State,
    Waits,
    WorkerRecord,
    WorkerState,
)
from uwsgi_headroom.watch.judging import is_whole

SOCKET = "/run/app.sock"
EPOCH = 1_700_000_000
OBJECTIVE = 0.99

WINDOW = int(DEFAULT_WINDOWS[0] / STEP)
"""Marks of the window that a verdict is about."""

REST = int(600 / STEP)
"""Marks between two judgements where nothing is near."""

LEAST_UP = 10.0
"""Seconds that a server is up before it is judged, as by `watch`."""


@dataclass(frozen=True)
class Episode:
    """A finding above info. start, end: when it was first and last seen, in seconds of the day. hurt: what users had in
    the worst two minutes of it; paged: when the problem that was a page in it began."""

    seed: int
    code: str
    severity: str
    title: str
    evidence: str
    start: float
    end: float
    hurt: Hurt
    paged: float | None = None


FIGURES = (
    *("requests", "running", "busy", "cpu", "cpu_wait", "lock", "up", "respawns", "observed", "full", "queue"),
    *("queue_full", "slow", "late", "exceptions", "idle", "others", "reloads"),
)
"""The figures of a course that the exporter sees."""


class _Counters:
    """The counters of a day: their values at its start, and after each step of so many marks."""

    def __init__(self, course: Course, step: int = 1) -> None:
        self._course, self._step = course, step
        self._kept: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._kept:
            self._kept[name] = self._course.total(name)[..., :: self._step]
        return self._kept[name]

    def grown(self, name: str, steps: int) -> Array:
        """The growth of a figure of the server over so many steps, at the start and after each step."""
        total = self[name] if self[name].ndim == 1 else self[name].sum(axis=0)
        return np.asarray(total - total[np.maximum(0, np.arange(len(total)) - steps)])

    def burn(self, steps: int) -> Array:
        """The burn rate over so many steps."""
        bad = self.grown("slow", steps) + self.grown("late", steps)
        return np.asarray(bad / np.maximum(1, self.grown("requests", steps)) / (1 - OBJECTIVE))


class _Judge:
    """Judges one day. Times are seconds of the day."""

    def __init__(self, course: Course) -> None:
        self.course, self.day = course, course.day
        self.totals = _Counters(course)
        self._spawns = [
            [away.end for away in course.day.away if away.worker in (None, worker)]
            for worker in range(course.day.processes)
        ]
        self._outages = [away for away in self.day.away if away.kind == "restart"]
        self.hold = Hold()
        self._follows: tuple[int, bool | None] = (-1, None)
        self._options = Options(
            listen=QUEUE,
            max_requests=self.day.max_requests or None,
            processes=self.day.processes,
            threads=self.day.threads,
            master=True,
            complete=True,
            can_reload_workers=True,
        )

    def choose_marks(self) -> list[int]:
        """The marks at which the server is judged: those at which a figure of the last minute comes near a threshold of
        a CRITICAL finding, and one in ten minutes. Where only the CPUs of the host are nearly full, as beside a busy
        neighbour for an hour, one in half a minute."""
        day = self.day
        grown, seen = self.totals.grown, WINDOW * STEP
        requests, queue = grown("requests", WINDOW), grown("queue", WINDOW)
        near = (queue / np.maximum(requests, 1) >= SEVERE[0] / 2) & (queue > 0)
        near |= grown("queue_full", WINDOW) > 0
        near |= grown("busy", WINDOW) >= 0.75 * day.capacity * seen
        near |= grown("respawns", WINDOW) >= 2
        near |= grown("reloads", WINDOW) > 0
        cpu = self.totals["cpu"]
        hottest = (cpu[:, WINDOW:] - cpu[:, :-WINDOW]).max(axis=0) / seen
        near[WINDOW:] |= hottest >= LOADED[0]
        if day.threshold:
            burns = [self.totals.burn(int(seconds / STEP)) for seconds in BURN_WINDOWS]
            near |= np.minimum(*burns) >= FAST_BURN / 2
        full = grown("idle", WINDOW) <= 0.1 * day.cpus * seen
        full &= np.arange(MARKS + 1) % 6 == 1
        marks = {*np.flatnonzero(near | full).tolist(), *range(REST, MARKS + 1, REST)}
        return sorted(mark for mark in marks if mark >= WINDOW)

    def judge(self, mark: int) -> list[Finding]:
        figures = self._figures(mark)
        if figures is None:
            return []
        now, found = mark * STEP, collect_findings(figures)
        self.hold.look(found, now - STEP, EPOCH + now - STEP, is_whole=is_whole(figures.window))  # marks are far apart
        return self.hold.look(found, now, EPOCH + now, is_whole=is_whole(figures.window))

    def _figures(self, mark: int) -> Figures | None:
        now, first = mark * STEP, max(0, mark - WINDOW)
        outage = next((away for away in reversed(self._outages) if away.start <= now), None)
        if outage and now - outage.end < LEAST_UP:
            return None
        if outage and outage.end > first * STEP:
            first = -int(-outage.end // STEP)
        history = History()
        history.add(first * STEP, self._total(first))
        history.add(now, self._total(mark))
        window = history.window(DEFAULT_WINDOWS[0])
        if window is None:
            return None
        recent = outage is not None and outage.end >= now - DEFAULT_WINDOWS[0]
        away = Outage(outage.end - outage.start, EPOCH + outage.end) if outage and recent else None
        figures = compute_figures(Known(window, self._server(mark), self._others_follow(mark), outage=away))
        return self._with_objective(figures, window, mark) if self.day.threshold else figures

    def _total(self, mark: int) -> Totals:
        of = {name: self.totals[name][..., mark] for name in FIGURES}
        since = 0.0
        workers = [
            WorkerTotals(
                requests=int(of["requests"][worker]),
                running_time=float(of["running"][worker]),
                busy_seconds=float(of["busy"][worker]),
                up_seconds=float(of["up"][worker]),
                cpu_seconds=float(of["cpu"][worker]),
                resident_bytes=60_000_000,
                running_time_since=since,
                cpu_since=since,
                exceptions=int(of["exceptions"]) if worker == 0 else 0,
                respawns=1 + int(of["respawns"][worker]),
                interpreter_lock_seconds=float(of["lock"][worker]),
                write_errors_since=since,
            )
            for worker in range(self.day.processes)
        ]
        observed = float(of["observed"])
        return Totals(
            samples=round(observed * DEFAULT_SAMPLES_PER_SECOND),
            observed_seconds=observed,
            gap_seconds=mark * STEP - observed,
            full_seconds=float(of["full"]),
            reloads=int(of["reloads"]),
            configured=self.day.capacity,
            available=self.day.capacity,
            workers=workers,
            queue_seconds={SOCKET: float(of["queue"])},
            queue_full_seconds={SOCKET: float(of["queue_full"])},
            queue_since={SOCKET: since},
            cpu=CpuTotals(
                measured_seconds=mark * STEP,
                own_seconds=float(of["cpu"].sum()),
                idle_seconds=float(of["idle"]),
                others_seconds=float(of["others"]),
                since=since,
                others_since=since,
            ),
            waits=self._waits(of, observed) if self.day.waits_known else None,
        )

    def _waits(self, of: dict[str, Array], observed: float) -> WaitTotals:
        """What the threads have done: computed, waited for a CPU or an interpreter, and waited for a backend."""
        cpu, cpu_wait, lock = float(of["cpu"].sum()), float(of["cpu_wait"].sum()), float(of["lock"].sum())
        rest = max(0.0, float(of["busy"].sum()) - cpu - cpu_wait - lock)
        seconds: dict[State, float] = {"cpu": cpu, "cpu_wait": cpu_wait, "interpreter_lock": lock, "backend": rest}
        return WaitTotals([seconds.get(state, 0.0) for state in STATES], {}, observed, 0.0, since=0.0)

    def _server(self, mark: int) -> ServerRecord:
        now, day = mark * STEP, self.day
        gone = {away.worker for away in day.away if away.start <= now < away.end}
        workers = []
        for worker in range(day.processes):
            state: WorkerState = "down" if worker in gone or None in gone else "accepting"
            spawned = bisect_right(self._spawns[worker], now)
            workers.append(
                WorkerRecord(
                    worker_id=worker + 1,
                    state=state,
                    threads=day.threads,
                    pid=None if state == "down" else 1000 + worker + 100 * spawned,
                    has_application=True,
                    last_spawn=EPOCH + int(self._spawns[worker][spawned - 1]) if spawned else EPOCH - 86400,
                )
            )
        length = int(self.course.length[max(0, mark - 1)])
        return ServerRecord(
            workers=tuple(workers),
            time=EPOCH + now,
            cpus=Cpus(float(day.cpus), "host"),
            setup=Setup(self._options, 4096, "threads" if day.threads > 1 else "single", None, mapped=False),
            waits=Waits() if day.waits_known else None,
            queues={SOCKET: Backlog(length, QUEUE, None)},
        )

    def _others_follow(self, mark: int) -> bool | None:
        """Whether the CPU use of other programs follows the requests, from the minutes of the last hour."""
        minute = mark // 12
        if self._follows[0] != minute:
            ends = np.arange(max(0, minute - 60), minute + 1) * 12
            requests = np.diff(self.totals["requests"].sum(axis=0)[ends]) / 60
            others = np.diff(self.totals["others"][ends]) / 60
            self._follows = minute, follow_requests(list(zip(requests.tolist(), others.tolist(), strict=True)))
        return self._follows[1]

    def _with_objective(self, figures: Figures, window: Window, mark: int) -> Figures:
        slo = Slo(self.day.threshold, OBJECTIVE)
        windows = []
        for seconds in BURN_WINDOWS:
            first = max(0, mark - int(seconds / STEP))
            requests, slow, late = (
                float((self.totals[name][..., mark] - self.totals[name][..., first]).sum())
                for name in ("requests", "slow", "late")
            )
            windows.append(SlowRequests((mark - first) * STEP, int(requests), slow, 0, late))
        objective = judge_objective(slo, windows, 1 / DEFAULT_SAMPLES_PER_SECOND)
        return structs.replace(figures, objective=objective)


def judge_day(course: Course) -> list[Episode]:
    """The findings above info of a day, each from its beginning to its end.

    A formula knows only the mean wait of an hour. So where a finding is CRITICAL without a reason, and the minutes
    before it were not simulated, they are, and the day is judged again.
    """
    episodes = list(_judge_once(course))
    for _ in range(_REPEATS):
        doubtful = [each for each in episodes if _is_doubtful(course, each)]
        if not doubtful:
            break
        for each in doubtful:
            simulate_also(course, each.start - _LEAD, each.end + WINDOW * STEP)
        episodes = list(_judge_once(course))
    return episodes


_REPEATS = 3
_LEAD = 180.0
"""Seconds before a finding that are simulated: its window, the minute for which findings are held, and one more."""


def _is_doubtful(course: Course, episode: Episode) -> bool:
    first = max(0, int((episode.start - 2 * WINDOW * STEP) // STEP))
    is_simulated = bool(course.simulated[first : int(episode.end // STEP)].all())
    return episode.severity == "critical" and not episode.hurt.explains_critical and not is_simulated


def _judge_once(course: Course) -> Iterator[Episode]:
    judge = _Judge(course)
    shown: dict[tuple[str, str], Episode] = {}
    for mark in judge.choose_marks():
        now = mark * STEP
        findings = [finding for finding in judge.judge(mark) if finding.severity != "info"]
        for key in [key for key, episode in shown.items() if now - episode.end > 2 * WINDOW * STEP]:
            yield shown.pop(key)
        hurt = course.hurt(max(0, mark - 2 * WINDOW), mark) if findings else None
        pages = {held.named.code: held.since for held, is_page in judge.hold.alerts(now) if is_page}
        for finding in findings:
            assert hurt is not None
            key = finding.code, finding.severity
            if key not in shown:
                shown[key] = Episode(course.day.seed, *key, finding.title, finding.evidence, now, now, hurt)
            paged = pages.get(finding.code, shown[key].paged)
            shown[key] = replace(shown[key], end=now, hurt=max(shown[key].hurt, hurt), paged=paged)
    yield from shown.values()


SCRAPE = 60
"""Seconds between two scrapes, and between two evaluations."""

_MARKS = int(SCRAPE / STEP)

BEFORE, AFTER = 20, 15
"""Minutes of a stretch before and after what is near: the longest window and hold, and the time that a page stays."""

_NO_PAGE = {"objective_missed"}
"""Findings for which UwsgiErrorBudgetBurning pages."""

_BURNS = ((5, 60, 14.4), (30, 360, 6.0))
"""Minutes of the short and of the long window, and the burn rate that pages."""


@dataclass(frozen=True)
class Page:
    """An alert that pages: for how many minutes it fired in a stretch, whose first and last second of the day are start
    and end. hurt: the users of the worst five minutes in it."""

    seed: int
    alert: str
    start: float
    end: float
    minutes: int
    hurt: Hurt


@dataclass(frozen=True)
class Stretch:
    """Minutes of a day, from the first to the last one, and the series that an exporter shows in them."""

    course: Course
    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of its server in the rules."""
        return f"{self.course.day.seed} {self.first}"


def judged_pages(episodes: Sequence[Episode]) -> list[Page]:
    """The problems that were pages, each once, by the finding that was seen first."""
    pages = {
        (each.seed, each.paged): Page(
            each.seed, each.code, each.start, each.end, round((each.end - each.start) / 60), each.hurt
        )
        for each in sorted(episodes, key=lambda each: -each.start)
        if each.paged is not None and each.code not in _NO_PAGE
    }
    return list(pages.values())


def find_stretches(course: Course) -> Iterator[Stretch]:
    """The stretches in which a rule may page: the server is away, or its error budget burns."""
    day, scrapes = course.day, _Counters(course, _MARKS)
    near = np.zeros(len(scrapes["observed"]), dtype=bool)
    for away in day.away:
        if away.worker is None:
            near[int(away.start // SCRAPE) : int(away.end // SCRAPE) + 2] = True
    before = np.full(len(near), BEFORE)
    for short, long, rate in _BURNS if day.threshold else ():
        burns = np.minimum(scrapes.burn(short), scrapes.burn(long)) >= rate / 2
        near |= burns
        before[burns] = np.maximum(before[burns], long + 5)
    last = len(near) - 1
    stretches: list[tuple[int, int]] = []
    for minute in np.flatnonzero(near).tolist():
        first, end = max(0, minute - int(before[minute])), min(last, minute + AFTER)
        if stretches and first <= stretches[-1][1]:
            stretches[-1] = min(first, stretches[-1][0]), end
        else:
            stretches.append((first, end))
    for first, end in stretches:
        yield Stretch(course, first, end)


class _Exposition:
    """The series of an exporter in a stretch that the rules for pages read."""

    def __init__(self, stretch: Stretch) -> None:
        self._stretch = stretch
        self._day, self._scrapes = stretch.course.day, _Counters(stretch.course, _MARKS)
        self._scraped = np.arange(len(self._scrapes["observed"])) * float(SCRAPE)
        self._up = np.ones(len(self._scraped))
        for away in self._day.away:
            if away.kind == "restart":
                self._up[(self._scraped >= away.start) & (self._scraped < away.end)] = 0

    def series(self) -> Iterator[tuple[str, str]]:
        """Yields the series and their values as promtool reads them, from the first minute on."""
        yield self._one("up", 1)
        yield self._one("uwsgi_up", self._up)
        if self._day.threshold:
            yield from self._of_objective()

    def _one(self, name: str, values: Array | float, **labels: str) -> tuple[str, str]:
        first, last = self._stretch.first, self._stretch.last
        pairs = {"job": "uwsgi", "instance": "web1:9238", "server": self._stretch.name, **labels}
        selector = ",".join(f'{key}="{value}"' for key, value in pairs.items())
        if isinstance(values, (int, float)):
            text = f"{values:g}x{last - first}"
        else:
            text = " ".join(f"{round(float(value), 4):.15g}" for value in values[first : last + 1])
        return f"{name}{{{selector}}}", text

    def _of_objective(self) -> Iterator[tuple[str, str]]:
        scrapes, one = self._scrapes, self._one
        yield one("uwsgi_slo_objective_ratio", OBJECTIVE)
        yield one("uwsgi_slo_threshold_seconds", self._day.threshold)
        yield one("uwsgi_slo_requests_total", scrapes["requests"].sum(axis=0))
        yield one("uwsgi_slo_bad_requests_total", scrapes["slow"], reason="slow")
        yield one("uwsgi_slo_bad_requests_total", scrapes["late"], reason="waited")


def find_pages(stretches: Sequence[Stretch]) -> list[Page]:
    """Evaluates the rules over stretches, together those of about the same length."""
    by_length: dict[int, list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        by_length[-(-(stretch.last - stretch.first) // 30)].append(stretch)
    with tempfile.TemporaryDirectory() as directory:
        rules = _write_rules(Path(directory))
        return [page for alike in by_length.values() for page in _evaluate(Path(directory), rules, alike)]


def _write_rules(directory: Path) -> list[Path]:
    """Writes the rules of the alerts that page and the recorded series that they read."""
    files = sorted(promtool.RULES.glob("*.yaml"))
    rules = promtool.list_rules(files)
    pages = [rule["alert"] for rule in rules if rule.get("labels", {}).get("severity") == "critical"]
    return promtool.write_rules(directory, files, promtool.rules_read(files, (), pages))


def _evaluate(directory: Path, rules: Sequence[Path], stretches: Sequence[Stretch]) -> Iterator[Page]:
    length = max(stretch.last - stretch.first for stretch in stretches)
    series = dict(pair for stretch in stretches for pair in _Exposition(stretch).series())
    fired = 'count_over_time(ALERTS{alertstate="firing",severity="critical"}[1d])'
    asked = {"expr": f"sum by (alertname, server) ({fired})", "eval_time": f"{length}m", "exp_samples": []}
    said = promtool.evaluate(directory, series, f"{SCRAPE}s", [asked], rules)
    by_name = {stretch.name: stretch for stretch in stretches}
    found = re.findall(r'\{alertname="(\w+)", server="([^"]+)"\} ([\d.E+]+)', said)
    if said and not found:
        raise RuntimeError(f"promtool: {said[:2000]}")
    for alert, name, minutes in found:
        yield _page(by_name[name], alert, round(float(minutes)))


def _page(stretch: Stretch, alert: str, minutes: int) -> Page:
    course = stretch.course
    ends = range(stretch.first + 5, stretch.last + 1)
    hurt = max(course.hurt((end - 5) * _MARKS, end * _MARKS) for end in ends)
    return Page(course.day.seed, alert, stretch.first * SCRAPE, stretch.last * SCRAPE, minutes, hurt)
