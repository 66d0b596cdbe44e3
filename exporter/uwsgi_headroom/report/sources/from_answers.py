"""Makes the columns of a server from what a Prometheus answered."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS
from uwsgi_headroom.report.model import (
    PERCENTILES,
    STEP,
    Column,
    EventMark,
    Objective,
    ServerData,
    WorkerColumns,
)
from uwsgi_headroom.report.sources.answers import ServerAnswers, add_all, add_known, divide, split_cumulative
from uwsgi_headroom.report.sources.events import SHOWN_KINDS
from uwsgi_headroom.report.sources.server_series import ServerSeries

_LEAST_COVERED = 0.5


def make_server_data(server: ServerSeries, answers: ServerAnswers, time: Column, span: float) -> ServerData:
    """The columns of a server. time: the ends of the quarters; span: the seconds of which growth was asked for."""
    return _Maker(server, answers, time, span).make()


class _Maker:
    """observed, seconds: growth of the exporter's clocks in a quarter, with and without gaps; nan where less than half
    of the quarter was sampled, and so is everything that is divided by them."""

    def __init__(self, server: ServerSeries, answers: ServerAnswers, time: Column, span: float) -> None:
        self._server, self._answers, self._time = server, answers, time
        observed = answers.column("observed")
        self._covered = np.nan_to_num(np.clip(observed / span, 0.0, 1.0))
        self._known = self._covered >= _LEAST_COVERED
        self._observed = np.where(self._known, observed, np.nan)
        self._seconds = self._observed + np.nan_to_num(answers.column("gap"))
        self._wait_observed = np.where(self._known, answers.column("wait_observed"), np.nan)

    def make(self) -> ServerData:
        workers = self._workers()
        requests = [worker.requests for worker in workers]
        length = len(self._time)
        cpu = [worker.cpu for worker in workers]
        bounds, by_time = self._histogram("by_time")
        own = self._share("cpu_own")
        unique, resident = self._level("memory_per_worker"), self._level("resident")
        return ServerData(
            server=self._server.name,
            service=self._server.service,
            host=self._server.host,
            time=self._time,
            covered=self._covered,
            requests=add_known(requests, length),
            static=add_known([self._rate_of(self._answers.part("worker_static", i)) for i in self._ids()], length),
            lost=self._rate("lost"),
            busy=add_all([worker.busy for worker in workers], requests, length),
            running=add_all([worker.running for worker in workers], requests, length),
            full=np.clip(self._share("full"), 0.0, 1.0),
            occupancy=self._occupancy(),
            configured=self._level("configured"),
            available=self._level("available"),
            workers_accepting=add_known([worker.accepting for worker in workers], length),
            queue=self._share("queue"),
            queue_full=np.clip(self._share("queue_full"), 0.0, 1.0),
            cpus=self._level("cpus"),
            cpu_own=np.where(np.isnan(own), add_all(cpu, requests, length), own),
            cpu_idle=self._share("cpu_idle"),
            cpu_others=self._share("cpu_others"),
            memory_per_worker=np.where(np.isnan(unique), resident, unique),
            memory_available=self._level("memory_available"),
            bounds=bounds,
            by_time=by_time,
            percentiles=self._percentiles(),
            objective=self._objective(),
            slow=self._rate("slow"),
            judged=self._rate("judged"),
            reloads=self._count("reloads"),
            respawns=self._count("respawns"),
            harakiris=self._count("harakiris"),
            exceptions=self._count("exceptions"),
            overflows=self._count("overflows"),
            waits=self._by_name("waits", self._wait_observed),
            backends=self._by_name("backends", self._wait_observed),
            routes=self._by_name("routes", self._observed),
            by_worker=workers,
            events=self._events(),
            thunder_lock=None if (lock := self._answers.last("thunder_lock")) is None else bool(lock),
        )

    def _ids(self) -> list[str]:
        ids = [text for text in self._answers.parts("worker_requests") if text.isascii() and text.isdigit()]
        return sorted(ids, key=int)

    def _workers(self) -> tuple[WorkerColumns, ...]:
        def share(query: str, worker_id: str) -> Column:
            return divide(self._answers.part(query, worker_id), self._observed)

        return tuple(
            WorkerColumns(
                worker_id=int(worker_id),
                requests=self._rate_of(self._answers.part("worker_requests", worker_id)),
                busy=share("worker_busy", worker_id),
                running=self._rate_of(self._answers.part("worker_running", worker_id)),
                cpu=self._rate_of(self._answers.part("worker_cpu", worker_id)),
                accepting=np.where(self._known, self._answers.part("worker_accepting", worker_id), np.nan),
                lock=divide(self._answers.part("worker_lock", worker_id), self._wait_observed),
            )
            for worker_id in self._ids()
        )

    def _rate_of(self, growth: Column) -> Column:
        """Growth of uWSGI's own counters, which go on in gaps, per second."""
        return divide(growth, self._seconds)

    def _rate(self, query: str) -> Column:
        return self._rate_of(self._answers.column(query))

    def _count(self, query: str) -> Column:
        """Events in the quarter."""
        return np.round(STEP * self._rate(query))

    def _share(self, query: str) -> Column:
        """Growth of an integral from samples, per sampled second."""
        return divide(self._answers.column(query), self._observed)

    def _level(self, query: str) -> Column:
        return np.where(self._known, self._answers.column(query), np.nan)

    def _by_name(self, query: str, whole: Column) -> Mapping[str, Column]:
        columns = {name: divide(self._answers.part(query, name), whole) for name in self._answers.parts(query)}
        return {name: column for name, column in columns.items() if np.nansum(column) > 0}

    def _histogram(self, query: str) -> tuple[tuple[float, ...], tuple[Column, ...]]:
        columns: dict[float, Column] = {}
        for text in self._answers.parts(query):
            with suppress(ValueError):
                column, bound = self._rate_of(self._answers.part(query, text)), float(text)
                # Prometheus 3 writes a bound as 1.0 where earlier versions keep the exporter's 1.
                before = columns.get(bound, column)
                columns[bound] = np.where(np.isnan(before), column, before)
        return split_cumulative(columns)

    def _occupancy(self) -> tuple[Column, ...]:
        bounds, between = self._histogram("occupancy")
        if bounds != (*OCCUPANCY_BOUNDS, float("inf")):
            return tuple(self._answers.unknown() for _ in range(len(OCCUPANCY_BOUNDS) + 1))
        whole = np.sum(between, axis=0)
        return tuple(divide(part, whole) for part in between)

    def _percentiles(self) -> tuple[Column, ...]:
        """The percentiles of shorter windows in a quarter: their mean, weighted by requests."""
        found = [self._answers.part("percentiles", f"{100 * share:g}") for share in PERCENTILES]
        weights = self._answers.column("throughput").reshape(len(self._time), -1)
        columns = []
        for values in found:
            table = values.reshape(len(self._time), -1)
            if table.shape != weights.shape:
                columns.append(self._answers.unknown())
                continue
            known = ~np.isnan(table) & ~np.isnan(weights)
            sums = np.where(known, table * weights, 0.0).sum(axis=1)
            columns.append(np.where(self._known, divide(sums, np.where(known, weights, 0.0).sum(axis=1)), np.nan))
        return tuple(columns) if any(np.isfinite(column).any() for column in columns) else ()

    def _objective(self) -> Objective | None:
        threshold, objective = self._answers.last("threshold"), self._answers.last("objective")
        if threshold is None or objective is None:
            return None
        return Objective(threshold=threshold, objective=objective)

    def _events(self) -> tuple[EventMark, ...]:
        """Events by kind, at the middle of their quarter: Prometheus knows no better."""
        marks = [
            EventMark(time=float(at) - STEP / 2, kind=kind, title=title)
            for kind, title in SHOWN_KINDS.items()
            for at, number in zip(self._time, self._rate_of(self._answers.part("events", kind)), strict=True)
            if number * STEP >= 0.5
        ]
        return tuple(sorted(marks, key=lambda mark: mark.time))
