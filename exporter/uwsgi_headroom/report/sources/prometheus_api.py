"""Asks a Prometheus for ranges of values: bounded pieces, one after the other, each repeated once if that may help."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import msgspec
import numpy as np

from uwsgi_headroom.report.model import Column, Query
from uwsgi_headroom.report.sources.explain import PrometheusError, Trouble, explain_answer
from uwsgi_headroom.report.sources.http_post import QUERY_SECONDS, HttpPost

MOST_POINTS = 10_000
"""Prometheus refuses more than 11,000 points of a series in one answer."""

SMALLEST_PIECE = 6 * 3600.0
"""Seconds: a piece that is too much for Prometheus is halved down to this."""

_PAUSE = 2.0
"""Seconds before a request is repeated."""

_REPEATED: frozenset[Trouble] = frozenset(("unreachable", "busy"))
_HALVED: frozenset[Trouble] = frozenset(("timeout", "too_much"))
_LONGEST_MESSAGE = 300

Labels = Mapping[str, str]


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result: list[_Series] = []


class _Document(msgspec.Struct):
    """The answer to a query of a range: https://prometheus.io/docs/prometheus/latest/querying/api/."""

    status: str
    data: _Data | None = None
    error: str = ""
    errorType: str = ""  # noqa: N815 - its name in the API
    warnings: list[str] = []


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer: a value for each time that was asked for, nan where there is none."""

    labels: Labels
    values: Column


@dataclass
class QueryLog:
    """The queries so far, by the text that the appendix shows, with the number of answers and their seconds."""

    counts: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add(self, text: str, seconds: float) -> None:
        answers, before = self.counts.get(text, (0, 0.0))
        self.counts[text] = (answers + 1, before + seconds)

    def queries(self) -> tuple[Query, ...]:
        """The log as part of a review's data."""
        return tuple(Query(text=text, answers=answers, seconds=sum_) for text, (answers, sum_) in self.counts.items())


class PrometheusApi:
    """The API of one Prometheus. log: of all queries; warnings: sentences that Prometheus added to its answers;
    clock_ahead: seconds by which its clock is ahead of this machine's, at the last answer."""

    def __init__(self, post: HttpPost, pause: Callable[[float], None] = time.sleep) -> None:
        self._post, self._pause = post, pause
        self.log = QueryLog()
        self.warnings: list[str] = []
        self.clock_ahead = 0.0

    @property
    def url(self) -> str:
        return self._post.endpoint.url

    def now(self) -> float:
        """The time by the clock of Prometheus, in epoch seconds, as far as it is known."""
        return time.time() + self.clock_ahead

    def read_clock(self) -> float:
        """Ask for the time by the clock of Prometheus (epoch seconds), which also shows whether it answers at all."""
        now = time.time() // 60 * 60
        self._ask("vector(1)", "", now, 1, 60.0)
        return self.now()

    def query_range(self, expression: str, shown: str, first: float, last: float, step: float) -> list[Series]:
        """The values of an expression at first, first + step, ... last (epoch seconds). shown: the query's name in the
        log. A range that is too much at once is asked for in halves. Raises PrometheusError."""
        points = round((last - first) / step) + 1
        if points <= MOST_POINTS:
            try:
                return self._ask(expression, shown, first, points, step)
            except PrometheusError as error:
                if error.trouble not in _HALVED or points * step < 2 * SMALLEST_PIECE:
                    raise
        middle = first + (points // 2 - 1) * step
        early = self.query_range(expression, shown, first, middle, step)
        return _join(early, self.query_range(expression, shown, middle + step, last, step), points)

    def _ask(self, expression: str, shown: str, first: float, points: int, step: float) -> list[Series]:
        last = first + (points - 1) * step
        fields = [
            ("query", expression),
            ("start", f"{first:.0f}"),
            ("end", f"{last:.0f}"),
            ("step", f"{step:.0f}"),
            ("timeout", f"{QUERY_SECONDS:.0f}s"),
        ]
        began = time.monotonic()
        document = self._send("/api/v1/query_range", fields)
        if shown:
            self.log.add(shown, time.monotonic() - began)
        self.warnings += [text[:_LONGEST_MESSAGE] for text in document.warnings if text not in self.warnings]
        return [_column(series, first, points, step) for series in document.data.result] if document.data else []

    def _send(self, path: str, fields: Sequence[tuple[str, str]]) -> _Document:
        try:
            return self._send_once(path, fields)
        except PrometheusError as error:
            if error.trouble not in _REPEATED:
                raise
        self._pause(_PAUSE)
        return self._send_once(path, fields)

    def _send_once(self, path: str, fields: Sequence[tuple[str, str]]) -> _Document:
        answer = self._post.send(path, fields)
        with suppress(TypeError, ValueError, IndexError):
            self.clock_ahead = parsedate_to_datetime(answer.date or "").timestamp() - time.time()
        try:
            document = msgspec.json.decode(answer.body, type=_Document)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise explain_answer(self.url, answer.status, answer.content_type, "") from None
        if answer.status != HTTPStatus.OK or document.status != "success":
            said = document.error[:_LONGEST_MESSAGE]
            raise explain_answer(self.url, answer.status, answer.content_type, said)
        return document


def _column(series: _Series, first: float, points: int, step: float) -> Series:
    values = np.full(points, np.nan)
    for at, text in series.values:
        place = round((at - first) / step)
        with suppress(ValueError):
            if 0 <= place < points:
                values[place] = float(text)
    values[np.isinf(values)] = np.nan
    return Series(series.metric, values)


def _join(early: Sequence[Series], late: Sequence[Series], points: int) -> list[Series]:
    """The series of two consecutive ranges as series of the whole range of so many points."""
    joined: dict[frozenset[tuple[str, str]], Series] = {}
    for series, place in _placed(early, late, points):
        key = frozenset(series.labels.items())
        whole = joined.setdefault(key, Series(series.labels, np.full(points, np.nan)))
        whole.values[place] = series.values
    return list(joined.values())


def _placed(early: Sequence[Series], late: Sequence[Series], points: int) -> Iterator[tuple[Series, slice]]:
    yield from ((series, slice(0, len(series.values))) for series in early)
    yield from ((series, slice(points - len(series.values), points)) for series in late)
