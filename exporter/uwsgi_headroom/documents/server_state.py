"""Judges the state of a server: a status, and a verdict in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.verdict import Status, verdict_sentence, worst_status
from uwsgi_headroom.analysis.worker_states import name_slots
from uwsgi_headroom.config.servers import printable_name
from uwsgi_headroom.documents.schema import Error
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.stats import EmperorSnapshot, RouterSnapshot
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.words.formats import counted


def build_error(error: ReadError | None) -> Error | None:
    """Build the section with the reason why a server is down; None if there is none."""
    return Error(reason=error.reason, message=printable_name(str(error))) if error else None


def judge(watch: Watch, figures: Figures | None, judged: Sequence[Finding]) -> tuple[Status, str]:
    """Return status and verdict. figures: of the last reading, if any; judged: its findings, worst first."""
    trouble = describe_trouble(watch.error) if watch.error else _silence(watch)
    if trouble:
        return "unknown", trouble
    if figures:
        return worst_status(judged), verdict_sentence(figures.headroom, judged, name_slots(figures.server))
    match watch.reading and watch.reading.snapshot:
        case EmperorSnapshot() as emperor:
            return worst_status(judged), judged[0].title if judged else _describe_emperor(emperor)
        case RouterSnapshot() as router:
            return "ok", f"Router with {counted(router.active_sessions, 'open connection')}."
    return "unknown", "No figures yet: they need two readings, a second apart."


def describe_trouble(error: ReadError) -> str:
    """Say in a sentence why a server is down."""
    message = printable_name(str(error))
    what = "Down" if error.reason in ("refused", "not_found") else "Cannot be read"
    return f"{what}: {message}{'' if message.endswith('?') else '.'}"


def _silence(watch: Watch) -> str | None:
    if watch.reading is None:
        return "Not read yet: the first reading is under way."
    if watch.state == "stale":
        return "No answer for a while: these are the last figures."
    return None


def _describe_emperor(emperor: EmperorSnapshot) -> str:
    return f"Emperor with {counted(len(emperor.vassals), 'vassal')}; none is throttled."
