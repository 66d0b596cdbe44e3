"""Prepares observations for the metric modules: grouped by kind, with the labels of each part made once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from uwsgi_headroom.history.totals import WorkerTotals
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.metrics.family import LabelSet, forget_label_sets, label_set, label_sets
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.stats import AnySnapshot
from uwsgi_headroom.stats.raw import EmperorSnapshot, RouterSnapshot
from uwsgi_headroom.stats.server import Snapshot, Worker
from uwsgi_headroom.watch.observation import WELL, ExporterHealth, Observation


def labels_of(observation: Observation, **more: str) -> LabelSet:
    return label_set(server=observation.name, **more)


def label_each(observation: Observation, label: str, values: tuple[str, ...], **more: str) -> tuple[LabelSet, ...]:
    """Return the labels of an observed server with each of the values of one more label."""
    return label_sets(label, values, server=observation.name, **more)


@dataclass(frozen=True)
class ObservedServer:
    """An observation whose document is a uWSGI server's. record: as it is judged."""

    observation: Observation
    reading: Reading
    snapshot: Snapshot
    record: ServerRecord
    labels: LabelSet
    workers: list[tuple[LabelSet, Worker]]
    processes: list[tuple[LabelSet, WorkerProcess]]

    @property
    def worker_totals(self) -> Iterator[tuple[LabelSet, WorkerTotals]]:
        return zip((labels for labels, _ in self.workers), self.observation.totals.workers, strict=False)


@dataclass(frozen=True)
class Scrape:
    """All observations of one scrape, with their labels, and grouped by kind of document."""

    observations: Sequence[tuple[LabelSet, Observation]]
    health: ExporterHealth
    servers: list[ObservedServer]
    emperors: list[tuple[Observation, EmperorSnapshot]]
    routers: list[tuple[Observation, RouterSnapshot]]


def group_by_kind(observations: Sequence[Observation], health: ExporterHealth = WELL) -> Scrape:
    """Group observations by kind of document. Call this once at the beginning of a scrape."""
    forget_label_sets()
    read: list[tuple[Observation, Reading, AnySnapshot]] = [
        (observation, observation.reading, observation.reading.snapshot)
        for observation in observations
        if observation.reading
    ]
    return Scrape(
        observations=[(labels_of(observation), observation) for observation in observations],
        health=health,
        servers=[
            _server(observation, reading, snapshot, observation.server)
            for observation, reading, snapshot in read
            if isinstance(snapshot, Snapshot) and observation.server
        ],
        emperors=[
            (observation, snapshot) for observation, _, snapshot in read if isinstance(snapshot, EmperorSnapshot)
        ],
        routers=[(observation, snapshot) for observation, _, snapshot in read if isinstance(snapshot, RouterSnapshot)],
    )


def _server(observation: Observation, reading: Reading, snapshot: Snapshot, record: ServerRecord) -> ObservedServer:
    ids = tuple([str(worker.worker_id) for worker in snapshot.workers])
    workers = list(zip(label_each(observation, "worker_id", ids), snapshot.workers, strict=True))
    processes = reading.host.processes
    return ObservedServer(
        observation=observation,
        reading=reading,
        snapshot=snapshot,
        record=record,
        labels=labels_of(observation),
        workers=workers,
        processes=[
            (labels, processes[worker.pid]) for labels, worker in workers if worker.pid and worker.pid in processes
        ],
    )
