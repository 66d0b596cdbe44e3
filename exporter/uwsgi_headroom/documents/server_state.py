"""Whether a server is up, and how it is: one word, and one sentence for the top of a page."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.formatting import counted
from uwsgi_headroom.analysis.verdict import Status, verdict_sentence, worst_status
from uwsgi_headroom.config.names import printable_name
from uwsgi_headroom.documents.schema import Error, State
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.stats import EmperorSnapshot, RouterSnapshot
from uwsgi_headroom.watch.watch import Watch

STALE_SECONDS = 3.0
"""Age from which a reading is called stale, where sampling is not slower than that by itself."""


def current_state(watch: Watch, now: float) -> State:
    """At this monotonic instant."""
    if isinstance(watch.reader.outcome, ReadError):
        return "down"
    if watch.reading is None or now - watch.reading.at > max(STALE_SECONDS, watch.pace.longest_step):
        return "stale"
    return "up"


def last_error(watch: Watch) -> Error | None:
    """Why it is down."""
    outcome = watch.reader.outcome
    if not isinstance(outcome, ReadError):
        return None
    return Error(reason=outcome.reason, message=printable_name(str(outcome)))


def judge(watch: Watch, now: float, figures: Figures | None, judged: Sequence[Finding]) -> tuple[Status, str]:
    """How it is. seen, judged: the figures of its last reading and what is worth knowing of them, if there are any."""
    trouble = _trouble(watch, now)
    if trouble:
        return "unknown", trouble
    if figures:
        return worst_status(judged), verdict_sentence(figures.headroom, judged)
    match watch.reading and watch.reading.snapshot:
        case EmperorSnapshot() as emperor:
            return _emperor(emperor)
        case RouterSnapshot() as router:
            return "ok", f"A router that is serving {counted(router.active_sessions, 'connection')}."
    return "unknown", "It has been watched for too short a time: figures come after two readings, a second apart."


def _trouble(watch: Watch, now: float) -> str | None:
    if failure := last_error(watch):
        return f"It cannot be read: {failure.message}{'' if failure.message.endswith('?') else '.'}"
    if watch.reading is None:
        return "It is being read for the first time."
    if current_state(watch, now) == "stale":
        return "It has not answered for a while; what is shown is what was last seen."
    return None


def _emperor(emperor: EmperorSnapshot) -> tuple[Status, str]:
    runs = f"An emperor that runs {counted(len(emperor.vassals), 'vassal')}"
    if emperor.blacklist:
        return "warning", f"{runs} and throttles {len(emperor.blacklist)} that failed to start."
    return "ok", f"{runs}."
