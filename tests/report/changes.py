"""Makes and changes what a source delivers."""

from collections.abc import Callable, Mapping
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.history.window import WorkerWindow
from uwsgi_headroom.report.quarters import STEP, ReviewData, ServerHistory
from uwsgi_headroom.report.review.peaks import Peaks, find_peaks, group_services
from uwsgi_headroom.store.record import Record


def data_of(*services: Service, days: float) -> ReviewData:
    """The days of these services, with their usual end."""
    return make_review_data(History(services=services, days=days))


def peaks_of(data: ReviewData) -> Peaks:
    """Those of the first service."""
    return find_peaks(group_services(data)[0], ZoneInfo(data.time_zone))


Edit = Callable[[Record], Record | None]


def change(data: ReviewData, edit: Edit) -> ReviewData:
    """The data with other records; without those that become None."""
    return replace(data, servers=tuple(change_server(server, edit) for server in data.servers))


def change_server(server: ServerHistory, edit: Edit) -> ServerHistory:
    quarters = {end: new for end, record in server.quarters.items() if (new := edit(record))}
    return replace(server, quarters=quarters, sampled=STEP * len(quarters))


def with_window(**fields: object) -> Edit:
    """Sets fields of each window."""
    return lambda record: replace(record, window=replace(record.window, **fields))


def with_levels(**fields: object) -> Edit:
    """Sets levels of each record."""
    return lambda record: replace(record, levels=replace(record.levels, **fields))


def with_workers(edit: Callable[[WorkerWindow], WorkerWindow]) -> Edit:
    """Changes each worker."""
    return lambda record: replace(
        record, window=replace(record.window, workers=tuple(map(edit, record.window.workers)))
    )


def at_places(data: ReviewData, places: range, edit: Edit) -> Edit:
    """Changes the records of these quarters only, counted from the start of the range."""
    ends = {data.since + STEP * (place + 1) for place in places}
    return lambda record: edit(record) if record.until in ends else record


def scaled_busy(factor: float) -> Edit:
    """So many times as many threads in service, of the same requests."""
    return with_workers(lambda worker: replace(worker, busy_seconds=factor * (worker.busy_seconds or 0.0)))


def waiting_in(states: Mapping[str, float]) -> Edit:
    """What the threads wait for: mean threads by state."""

    def edit(record: Record) -> Record:
        waits = record.window.waits
        seconds = {state: threads * waits.observed_seconds for state, threads in states.items()}
        return replace(record, window=replace(record.window, waits=replace(waits, seconds=seconds, backends={})))

    return edit
