"""Builds sections of a server's document: figures of a window, what is known now, the server's identity and setup.

Sections with types of their own are in `subjects`.
"""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis import littles_law
from uwsgi_headroom.analysis.advice import connections_hold_threads
from uwsgi_headroom.analysis.capacity import count_more_workers
from uwsgi_headroom.analysis.demand import was_full
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.worker_states import count_harmful_now
from uwsgi_headroom.config.servers import printable_name
from uwsgi_headroom.documents import schema
from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS, sum_if_all_known
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.facts import Memories
from uwsgi_headroom.kernel.options import NAMES
from uwsgi_headroom.reading import Reading, describe_memory
from uwsgi_headroom.record import Options, ServerRecord, Setup
from uwsgi_headroom.same_fields import copy_fields, given
from uwsgi_headroom.stats import Snapshot


def build_threads(
    reading: Reading, record: ServerRecord, stuck_seconds: float, figures: Figures | None
) -> schema.Threads:
    """Build the section about threads. stuck_seconds: the age from which on a request counts as stuck."""
    assert isinstance(reading.snapshot, Snapshot)
    workers = reading.snapshot.workers
    configured = sum_if_all_known([worker.threads for worker in workers])
    return schema.Threads(
        configured=configured,
        available=0
        if figures and figures.reload_wait
        else sum_if_all_known([worker.available_threads for worker in record.workers]),
        busy=sum_if_all_known([reading.busy_threads(worker) for worker in workers]),
        stuck=None if configured is None else count_harmful_now(record, stuck_seconds),
        stuck_seconds=stuck_seconds,
        mean=given(figures, lambda known: known.threads),
        held=figures is not None and connections_hold_threads(figures),
    )


def build_memory(memory: Memories) -> schema.MemorySection:
    room, available = describe_memory(memory), memory.available
    return copy_fields(
        schema.MemorySection,
        available,
        memory.worker,
        available=given(available, lambda known: known.byte_count),
        per_worker=given(memory.worker, lambda known: known.largest),
        more_workers=given(room, count_more_workers),
    )


def build_occupancy(window: Window) -> schema.Occupancy | None:
    samples = sum(window.occupancy)
    if not samples:
        return None
    return schema.Occupancy(
        up_to=OCCUPANCY_BOUNDS,
        # No ratio is above 1, the last bound.
        shares=tuple(count / samples for count in window.occupancy[: len(OCCUPANCY_BOUNDS)]),
        full=littles_law.ratio(window.full_seconds, window.observed_seconds),
    )


def build_sockets(record: ServerRecord, figures: Figures | None, totals: Totals) -> Iterator[schema.Socket]:
    """Build a section about every socket: its queue, now and over the window. totals: as of now."""
    flows = {each.socket: each.flow for each in figures.demand.by_socket} if figures else {}
    areas, seconds = (figures.window.queue_seconds, figures.window.observed_seconds) if figures else ({}, 0.0)
    if figures and len(record.queues) == 1:
        flows = dict.fromkeys(areas, figures.flow)
    for name, backlog in record.queues.items():
        yield copy_fields(
            schema.Socket,
            backlog,
            flows.get(name),
            name=name,
            measurable=backlog.queue is not None,
            reason=backlog.reason if backlog.queue is None else None,
            mean_queue=littles_law.ratio(areas.get(name), seconds),
            oldest_wait=totals.oldest_waits.get(name),
            full=_full(figures, name),
        )


def _full(figures: Figures | None, name: str) -> float | None:
    """The share of the window in which a socket's queue was full; None if unknown."""
    if figures is None or name not in figures.window.queue_full_seconds:
        return None
    if not was_full(figures.window, name):
        return 0.0
    return littles_law.ratio(figures.window.queue_full_seconds[name], figures.window.observed_seconds)


def build_identity(reading: Reading) -> schema.Identity:
    known, setup = reading.host.identity, reading.host.setup
    options = setup.options if setup else Options()
    directory, started = (known.working_directory, known.started) if known else (None, None)
    return copy_fields(
        schema.Identity,
        known,
        pid=reading.snapshot.pid or None,
        local_pid=reading.host.master_pid,
        application=printable_name(options.application or _find_mountpoint(reading)) or None,
        configuration_file=options.configuration_file or None,
        working_directory=printable_name(directory) if directory else None,
        uptime=max(0.0, reading.time - started) if started else None,
    )


def _find_mountpoint(reading: Reading) -> str:
    """Find the mountpoint of the first worker's only application; empty if it is `/`, or if there are several."""
    workers = reading.snapshot.workers if isinstance(reading.snapshot, Snapshot) else ()
    loaded = next((worker.apps for worker in workers if worker.apps), ())
    names = {app.mountpoint for app in loaded} - {"", "/"}
    return names.pop() if len(names) == 1 else ""


def build_setup(known: Setup) -> schema.SetupSection:
    options = known.options
    return copy_fields(
        schema.SetupSection,
        known,
        options={
            name: schema.Option(value=getattr(options, field), source=options.source[field])
            for field, name in NAMES.items()
            if field in options.source
        },
        options_complete=options.complete,
        options_changed=options.changed,
        socket_holders=None if known.socket_holders is None else dict(known.socket_holders),
    )
