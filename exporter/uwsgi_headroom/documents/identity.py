"""Builds the section that identifies a server."""

from __future__ import annotations

from uwsgi_headroom.config.servers import printable_name
from uwsgi_headroom.documents import schema
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats import Snapshot


def build_identity(reading: Reading) -> schema.Identity:
    """Build the section: the master's PID from the stats, the rest from the kernel and the master's options."""
    known, setup = reading.host.identity, reading.host.setup
    options = setup.options if setup else None
    return schema.Identity(
        pid=reading.snapshot.pid or None,
        local_pid=reading.host.master_pid,
        host=known.host if known else None,
        application=printable_name((options.application if options else "") or _find_mountpoint(reading)) or None,
        configuration_file=(options.configuration_file if options else "") or None,
        working_directory=printable_name(known.working_directory) if known and known.working_directory else None,
        started=known.started if known else None,
        uptime=max(0.0, reading.time - known.started) if known and known.started else None,
        emperor_pid=known.emperor_pid if known else None,
    )


def _find_mountpoint(reading: Reading) -> str:
    """Find the mountpoint of the first worker's only application; empty if it is `/`, or if there are several."""
    workers = reading.snapshot.workers if isinstance(reading.snapshot, Snapshot) else ()
    loaded = next((worker.apps for worker in workers if worker.apps), ())
    names = {app.mountpoint for app in loaded} - {"", "/"}
    return names.pop() if len(names) == 1 else ""
