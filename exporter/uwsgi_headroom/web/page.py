"""The page at `/`: which servers, in what state, and what is not known and why."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from uwsgi_headroom import __version__
from uwsgi_headroom.analysis.littles_law import total
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.metrics.subject import Subject, scrape
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.others import EmperorSnapshot, RouterSnapshot
from uwsgi_headroom.stats.server import Snapshot

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --up: #1a7f37; --down: #cf222e }
@media (prefers-color-scheme: dark) { :root { --up: #3fb950; --down: #ff7b72 } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid var(--line); padding: .5rem .75rem .5rem 0; text-align: left; vertical-align: top }
td ul { margin: 0; padding: 0; list-style: none }
.up, .down { font-weight: 600; white-space: nowrap } .up { color: var(--up) } .down { color: var(--down) }
code { font-size: .9em; overflow-wrap: anywhere } .dim { opacity: .75 }
@media (max-width: 40rem) {
  thead { display: none }
  tr, td { display: block; border: 0; padding: .1rem 0 }
  tr { border-bottom: 1px solid var(--line); padding: .5rem 0 }
}
"""


def render(subjects: Sequence[Subject]) -> str:
    """The whole page."""
    rows = "".join(_row(subject) for subject in subjects)
    down = sum(isinstance(subject.outcome, ReadError) for subject in subjects)
    state = f"{len(subjects)} server{'s' if len(subjects) != 1 else ''}, {down} that cannot be read"
    table = f"<table><thead><tr><th>Server<th>State<th>What is there<th>Notes</tr></thead><tbody>{rows}</tbody></table>"
    empty = "<p>No server yet: the globs of the configuration match no socket.</p>"
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>uwsgi-headroom</title><style>{_STYLE}</style>
<h1>uwsgi-headroom</h1>
<p>Version {__version__}. {state}.
<a href="/metrics">Metrics</a> · <a href="/-/healthy">healthy</a> · <a href="/-/ready">ready</a></p>
{table if subjects else empty}
</html>
"""


def _row(subject: Subject) -> str:
    if isinstance(subject.outcome, ReadError):
        state, what, notes = '<span class="down">✗ down</span>', "", [str(subject.outcome)]
    else:
        state, what, notes = '<span class="up">✓ up</span>', _what(subject.outcome), _notes(subject)
    items = "".join(f"<li>{escape(note)}" for note in notes)
    return (
        f'<tr><td><b>{escape(subject.name)}</b><br><code class="dim">{escape(subject.address)}</code>'
        f"<td>{state}<td>{escape(what)}<td><ul>{items}</ul></tr>"
    )


def _what(reading: Reading) -> str:
    snapshot = reading.snapshot
    match snapshot:
        case Snapshot():
            threads = total([worker.threads for worker in snapshot.workers])
            busy = total([reading.busy_threads(worker) for worker in snapshot.workers])
            of = f", {busy} of {threads} threads busy" if threads is not None else ""
            return f"uWSGI {snapshot.version}: {len(snapshot.workers)} workers{of}"
        case EmperorSnapshot():
            return f"uWSGI {snapshot.version} emperor: {len(snapshot.vassals)} vassals"
        case RouterSnapshot():
            return f"uWSGI {snapshot.version} router: {snapshot.active_sessions} active sessions"


def _notes(subject: Subject) -> list[str]:
    """What is not known, and why."""
    notes: list[str] = []
    for server in scrape([subject]).servers:
        if server.reading.host.off:
            notes.append(f"No process facts: {server.reading.host.off}")
        notes += [
            f"The queue of {name} cannot be measured: {backlog.reason}"
            for name, backlog in server.reading.listen_queues().items()
            if backlog.queue is None
        ]
        if total([worker.threads for worker in server.snapshot.workers]) is None:
            notes.append("No threads: uWSGI runs with stats-no-cores, so busy threads and capacity are unknown")
    return notes
