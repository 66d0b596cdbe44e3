"""Finds the pages that the shipped rules would have sent: the real rules, evaluated by promtool.

A whole day of a server takes promtool many seconds. So the rules are evaluated every minute over the stretches of a day
in which a figure comes near a threshold of a page (about half of it), or the server is away, with the time before them
that the windows and holds of the rules need. Rules that only make tickets are left out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from alerts.thresholds import Thresholds
from tests.support.monitoring import find
from tools.bench.days.course import STEP, Course, Hurt
from tools.bench.days.findings import OBJECTIVE
from tools.bench.days.healthy import QUEUE, Array
from tools.environments import ROOT

RULES = ROOT / "alerts" / "rules"

SCRAPE = 60
"""Seconds between two scrapes, and between two evaluations."""

_MARKS = int(SCRAPE / STEP)

BEFORE, AFTER = 20, 15
"""Minutes of a stretch before and after what is near: the longest window and hold, and the time that a page stays."""

_T = Thresholds()


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


class _Scrapes:
    """The counters of a day, as scraped once a minute."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._kept: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._kept:
            self._kept[name] = self.course.total(name)[..., ::_MARKS]
        return self._kept[name]

    def grown(self, name: str, minutes: int) -> Array:
        """The growth of a figure of the server over these minutes, at each scrape."""
        total = self[name] if self[name].ndim == 1 else self[name].sum(axis=0)
        return np.asarray(total - total[np.maximum(0, np.arange(len(total)) - minutes)])

    def length(self) -> Array:
        return np.concatenate([[0.0], self.course.length[_MARKS - 1 :: _MARKS]])


def find_stretches(course: Course) -> Iterator[Stretch]:
    day, scrapes = course.day, _Scrapes(course)
    requests, queue = scrapes.grown("requests", 5), scrapes.grown("queue", 5)
    near = (queue / np.maximum(requests, 1) >= _T.queue_wait_severe_seconds / 2) & (queue > 0)
    near |= scrapes.grown("queue_full", 2) >= _T.queue_full / 2 * 120
    near |= scrapes.grown("busy", 5) >= 0.8 * _T.near_capacity * day.capacity * 300
    near |= (scrapes.length() >= 1) & (scrapes.grown("requests", 1) <= 2)
    cpu = scrapes["cpu"]
    near[5:] |= (cpu[:, 5:] - cpu[:, :-5]).max(axis=0) >= 0.75 * _T.interpreter_full * 300
    spawned = scrapes["respawns"]
    near[5:] |= (spawned[:, 5:] - spawned[:, :-5]).max(axis=0) >= _T.respawns / 2
    for away in day.away:
        if away.worker is None:
            near[int(away.start // SCRAPE) : int(away.end // SCRAPE) + 2] = True
    before = np.full(len(near), BEFORE)
    if day.threshold:
        for short, long, rate in ((5, 60, _T.burn_page_1h), (30, 360, _T.burn_page_6h)):
            burns = np.minimum(_burn(scrapes, short), _burn(scrapes, long)) >= rate / 2
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


def _burn(scrapes: _Scrapes, minutes: int) -> Array:
    bad = scrapes.grown("slow", minutes) + scrapes.grown("late", minutes)
    return np.asarray(bad / np.maximum(1, scrapes.grown("requests", minutes)) / (1 - OBJECTIVE))


class _Exposition:
    """The series of an exporter in a stretch that the rules for pages read."""

    def __init__(self, stretch: Stretch) -> None:
        self._stretch = stretch
        self._day, self._scrapes = stretch.course.day, _Scrapes(stretch.course)
        self._scraped = np.arange(len(self._scrapes["observed"])) * float(SCRAPE)
        self._away = np.zeros((self._day.processes, len(self._scraped)))
        self._up = np.ones(len(self._scraped))
        for away in self._day.away:
            then = (self._scraped >= away.start) & (self._scraped < away.end)
            self._away[slice(None) if away.worker is None else slice(away.worker, away.worker + 1), then] = 1
            if away.kind == "restart":
                self._up[then] = 0

    def series(self) -> Iterator[Mapping[str, str]]:
        """Yields the series as promtool reads them: values from the first minute on."""
        yield from self._of_server()
        yield from self._of_cpus_and_queue()
        for worker in range(self._day.processes):
            yield from self._of_worker(worker)
        if self._day.threshold:
            yield from self._of_objective()

    def _one(self, name: str, values: Array | float, **labels: str) -> Mapping[str, str]:
        first, last = self._stretch.first, self._stretch.last
        pairs = {"job": "uwsgi", "instance": "web1:9238", "server": self._stretch.name, **labels}
        selector = ",".join(f'{key}="{value}"' for key, value in pairs.items())
        if isinstance(values, (int, float)):
            text = f"{values:g}x{last - first}"
        else:
            text = " ".join(f"{round(float(value), 4):.15g}" for value in values[first : last + 1])
        return {"series": f"{name}{{{selector}}}", "values": text}

    def _of_server(self) -> Iterator[Mapping[str, str]]:
        day, scrapes, one = self._day, self._scrapes, self._one
        up = day.processes - self._away.sum(axis=0)
        yield one("up", 1)
        yield one("uwsgi_up", self._up)
        yield one("uwsgi_threads_configured", day.capacity)
        yield one("uwsgi_threads_available", day.threads * up)
        yield one("uwsgi_threads_ceiling", day.capacity)
        yield one("uwsgi_threads_stuck", 0)
        yield one("uwsgi_workers", up, state="idle")
        yield one("uwsgi_workers_without_application", 0)
        yield one("uwsgi_server_reloads_total", scrapes["reloads"])
        yield one("uwsgi_full_occupancy_seconds_total", scrapes["full"])
        yield one("uwsgi_exporter_observed_seconds_total", scrapes["observed"])
        yield one("uwsgi_exporter_sample_gap_seconds_total", self._scraped - scrapes["observed"])

    def _of_cpus_and_queue(self) -> Iterator[Mapping[str, str]]:
        scrapes, one, socket = self._scrapes, self._one, "/run/app.sock"
        yield one("uwsgi_cpus_usable", self._day.cpus)
        yield one("uwsgi_host_facts_available", 1)
        yield one("uwsgi_cpu_used_by_workers_seconds_total", scrapes["cpu"].sum(axis=0))
        yield one("uwsgi_cpu_available_idle_seconds_total", scrapes["idle"])
        yield one("uwsgi_cpu_used_by_others_seconds_total", scrapes["others"])
        yield one("uwsgi_socket_queue_length", scrapes.length(), socket=socket)
        yield one("uwsgi_socket_max_queue_length", QUEUE, socket=socket)
        yield one("uwsgi_socket_queue_seconds_total", scrapes["queue"], socket=socket)
        yield one("uwsgi_socket_queue_full_seconds_total", scrapes["queue_full"], socket=socket)

    def _of_worker(self, worker: int) -> Iterator[Mapping[str, str]]:
        scrapes, one, own = self._scrapes, self._one, str(worker + 1)
        yield one("uwsgi_worker_accepting", 1 - self._away[worker], worker_id=own)
        yield one("uwsgi_worker_threads", self._day.threads, worker_id=own)
        yield one("uwsgi_worker_requests_total", scrapes["requests"][worker], worker_id=own)
        yield one("uwsgi_worker_static_requests_total", 0, worker_id=own)
        yield one("uwsgi_worker_running_time_seconds_total", scrapes["running"][worker], worker_id=own)
        yield one("uwsgi_worker_busy_thread_seconds_total", scrapes["busy"][worker], worker_id=own)
        yield one("uwsgi_worker_cpu_seconds_total", scrapes["cpu"][worker], worker_id=own, mode="user")
        yield one("uwsgi_worker_harakiri_total", 0, worker_id=own)
        yield one("uwsgi_worker_respawns_total", 1 + scrapes["respawns"][worker], worker_id=own)
        yield one("uwsgi_worker_lost_requests_total", 0, worker_id=own)

    def _of_objective(self) -> Iterator[Mapping[str, str]]:
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
    """Writes the rules that page and the recorded series that they read."""
    every = [
        (path.name, group["name"], rule)
        for path in sorted(RULES.glob("*.yaml"))
        for group in yaml.load(path.read_text(), _LOADER)["groups"]
        for rule in group["rules"]
    ]
    recorded = {rule["record"] for _, _, rule in every if "record" in rule}
    pages = [rule["expr"] for _, _, rule in every if rule.get("labels", {}).get("severity") == "critical"]
    read: set[str] = set()
    unread = list(pages)
    while unread:
        found = recorded & set(re.findall(r"[A-Za-z_:][\w:]*", unread.pop())) - read
        read |= found
        unread += [rule["expr"] for _, _, rule in every if rule.get("record") in found]
    files: dict[str, dict[str, list[Mapping[str, object]]]] = defaultdict(lambda: defaultdict(list))
    for file, group, rule in every:
        if rule.get("record") in read or rule.get("labels", {}).get("severity") == "critical":
            files[file][group].append(rule)
    paths = []
    for file, groups in files.items():
        document = {"groups": [{"name": name, "rules": rules} for name, rules in groups.items()]}
        paths.append(directory / file)
        paths[-1].write_text(json.dumps(document))
    return paths


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a PyYAML built without libyaml has only the slow one


def _evaluate(directory: Path, rules: Sequence[Path], stretches: Sequence[Stretch]) -> Iterator[Page]:
    length = max(stretch.last - stretch.first for stretch in stretches)
    written = [series for stretch in stretches for series in _Exposition(stretch).series()]
    expression = 'sum by (alertname, server) (count_over_time(ALERTS{alertstate="firing"}[1d]))'
    test = directory / "days.test.yaml"
    document = {
        "rule_files": [str(path) for path in rules],
        "evaluation_interval": f"{SCRAPE}s",
        "tests": [
            {
                "interval": f"{SCRAPE}s",
                "input_series": written,
                "promql_expr_test": [{"expr": expression, "eval_time": f"{length}m", "exp_samples": []}],
            }
        ],
    }
    test.write_text(json.dumps(document))
    said = _run(test)
    by_name = {stretch.name: stretch for stretch in stretches}
    found = re.findall(r'\{alertname="(\w+)", server="([^"]+)"\} ([\d.E+]+)', said)
    if said and not found:
        raise RuntimeError(f"promtool: {said[:2000]}")
    for alert, name, minutes in found:
        yield _page(by_name[name], alert, round(float(minutes)))


def _run(test: Path) -> str:
    """Runs promtool on one CPU, and returns its output if anything fired or failed."""
    program = os.environ.get("PROMTOOL") or str(find("promtool"))
    environment = {**os.environ, "GOMAXPROCS": "1", "GOGC": "400"}
    ran = subprocess.run([program, "test", "rules", test], capture_output=True, text=True, check=False, env=environment)
    return ran.stdout + ran.stderr if ran.returncode else ""


def _page(stretch: Stretch, alert: str, minutes: int) -> Page:
    course = stretch.course
    ends = range(stretch.first + 5, stretch.last + 1)
    hurt = max(course.hurt((end - 5) * _MARKS, end * _MARKS) for end in ends)
    return Page(course.day.seed, alert, stretch.first * SCRAPE, stretch.last * SCRAPE, minutes, hurt)
