"""Collects the values of a runbook's placeholders for one server, and the workers to choose from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from uwsgi_headroom.documents import build
from uwsgi_headroom.kernel.systemd_unit import find_systemd_unit
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats import EmperorSnapshot, Snapshot
from uwsgi_headroom.stats.server import Worker
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web.runbook_placeholders import Values, is_typeable

_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Target:
    """The server for which a runbook is filled in. values: of the placeholders; workers: those with a process; chosen:
    the id of the worker in the commands, None if none is chosen."""

    name: str
    values: Values
    workers: tuple[Worker, ...] = ()
    chosen: int | None = None


def find_exporter_address(request: Request) -> str | None:
    """Find the exporter's URL as the reader requested it; None if the Host header is not a plain host."""
    host = request.headers.get("host", "")
    return f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else None


def describe_target(watch: Watch, exporter: str | None, chosen: str) -> Target:
    """Collect the values of a server. chosen: the id of a worker as in the request, or any other text for none."""
    reading = watch.reading
    address = str(watch.address)
    values = {"SERVER": watch.name, "STATS": "" if "?" in address else address}  # a query is not shown in full
    if exporter:
        values |= {"EXPORTER": exporter, "SERVER_API": f"{exporter}{build.server_path(watch.name)}"}
    workers = _living_workers(reading)
    named = [worker for worker in workers if str(worker.worker_id) == chosen] or (workers if len(workers) == 1 else ())
    if reading and isinstance(reading.snapshot, Snapshot | EmperorSnapshot) and reading.snapshot.pid > 0:
        values |= collect_pids(reading, reading.snapshot.pid, workers, named)
    return Target(
        name=watch.name,
        values={name: value for name, value in values.items() if is_typeable(value)},
        workers=tuple(workers),
        chosen=named[0].worker_id if named else None,
    )


def collect_pids(reading: Reading, master_pid: int, workers: Sequence[Worker], named: Sequence[Worker]) -> Values:
    """Collect the PIDs for commands on the host. Those of a uWSGI that is process 1 of its container mean other
    processes there, unless they are proven and so known as they are here."""
    host = reading.host
    if host.off and master_pid == 1:
        return {}
    pids = {worker.worker_id: host.local_pids.get(worker.pid or 0, worker.pid) for worker in workers}
    return {
        "WORKER_PIDS": " ".join(str(pid) for pid in pids.values()),
        "WORKER_PID": str(pids[named[0].worker_id]) if named else "",
        "MASTER_PID": str(host.master_pid or master_pid),
        "UNIT": (host.processes and find_systemd_unit(host.master_pid or master_pid)) or "",
    }


def _living_workers(reading: Reading | None) -> list[Worker]:
    if reading is None or not isinstance(reading.snapshot, Snapshot):
        return []
    return [worker for worker in reading.snapshot.workers if worker.pid and not reading.process_is_missing(worker)]
