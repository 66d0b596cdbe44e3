"""Finds the pages that the shipped rules would have sent: those of the judge, from the findings of the day, and the
others by the real rules, evaluated by promtool.

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

from tests.support.monitoring import find
from tools.bench.days.course import STEP, Course, Hurt
from tools.bench.days.findings import OBJECTIVE, Episode
from tools.bench.days.healthy import Array
from tools.environments import ROOT
from tools.findings_page import list_rows
from uwsgi_headroom.analysis.findings import hold

RULES = ROOT / "alerts" / "rules"

SCRAPE = 60
"""Seconds between two scrapes, and between two evaluations."""

_MARKS = int(SCRAPE / STEP)

BEFORE, AFTER = 20, 15
"""Minutes of a stretch before and after what is near: the longest window and hold, and the time that a page stays."""

PAGE_AFTER = {row.code: row.page_after for row in list_rows() if "critical" in row.severities}
"""Seconds for which a critical finding must be seen before it pages."""

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


def judged_pages(episodes: Sequence[Episode]) -> list[Page]:
    """The pages of critical findings that were seen for long enough. The time for which they were held afterwards does
    not count, or a burst of seconds would page."""
    return [
        Page(each.seed, each.code, each.start, each.end, round((seen - after) / 60), each.hurt)
        for each in episodes
        if each.severity == "critical" and each.code not in _NO_PAGE
        if (seen := each.end - each.start - hold.HOLD_SECONDS) >= (after := PAGE_AFTER.get(each.code, hold.PAGE_AFTER))
    ]


def find_stretches(course: Course) -> Iterator[Stretch]:
    """The stretches in which a rule may page: the server is away, or its error budget burns."""
    day, scrapes = course.day, _Scrapes(course)
    near = np.zeros(len(scrapes["observed"]), dtype=bool)
    for away in day.away:
        if away.worker is None:
            near[int(away.start // SCRAPE) : int(away.end // SCRAPE) + 2] = True
    before = np.full(len(near), BEFORE)
    for short, long, rate in _BURNS if day.threshold else ():
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
        self._up = np.ones(len(self._scraped))
        for away in self._day.away:
            if away.kind == "restart":
                self._up[(self._scraped >= away.start) & (self._scraped < away.end)] = 0

    def series(self) -> Iterator[Mapping[str, str]]:
        """Yields the series as promtool reads them: values from the first minute on."""
        yield self._one("up", 1)
        yield self._one("uwsgi_up", self._up)
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
