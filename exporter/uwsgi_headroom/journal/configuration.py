"""Records changes in a server's configuration from one reading to the next."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.config.servers import printable_name
from uwsgi_headroom.history.totals import sum_if_all_known
from uwsgi_headroom.journal.events import Journal
from uwsgi_headroom.kernel.options import Options
from uwsgi_headroom.kernel.options.model import NAMES
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.words.formats import counted

MOST_NAMED = 6


class ConfigurationEvents:
    """Compares readings of one server. A value that is missing in a reading counts as unchanged."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seen: tuple[Snapshot, Options | None] | None = None
        self._known: dict[str, object] = {}

    def compare(self, reading: Reading) -> None:
        """Add an event if the configuration differs from that of the earlier readings."""
        snapshot, options = reading.snapshot, reading.host.setup.options if reading.host.setup else None
        # Without workers in its document, uWSGI is still starting.
        if not isinstance(snapshot, Snapshot) or not snapshot.workers:
            return
        if self._seen and self._seen[0] is snapshot and self._seen[1] is options:
            return
        self._seen = snapshot, options
        now = dict(_describe(snapshot, options))
        changes = [
            f"{name} {_words(self._known[name])} → {_words(value)}"
            for name, value in now.items()
            if name in self._known and self._known[name] != value
        ]
        self._known.update(now)
        if changes:
            self._journal.add(
                reading.time,
                "configuration_changed",
                f"Configuration changed: {', '.join(changes[:MOST_NAMED])}"
                + (f", and {counted(len(changes) - MOST_NAMED, 'other')}." if len(changes) > MOST_NAMED else "."),
            )


def _describe(snapshot: Snapshot, options: Options | None) -> Iterator[tuple[str, object]]:
    yield "version", snapshot.version
    yield "workers", len(snapshot.workers)
    threads = sum_if_all_known([worker.threads for worker in snapshot.workers])
    if threads is not None:
        yield "threads", threads
    yield "sockets", tuple(socket.name for socket in snapshot.sockets)
    if options is None:
        return
    for field, name in NAMES.items():
        value = getattr(options, field)
        # Workers and threads are listed above. An unknown option may still be set, so it is left out.
        if field not in ("processes", "threads", "stats") and (value is not None or options.complete):
            yield f"`{name}`", value


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return printable_name(" ".join(map(str, value)))[:200] or "none"
    return (
        {None: "unset", True: "on", False: "off"}[value]
        if value is None or isinstance(value, bool)
        else (printable_name(str(value)))
    )
