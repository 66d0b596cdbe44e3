"""Records the journal of one server: turns outcomes of reads, and judgements, into events.

Changes of workers are in `workers`; those of the configuration and of the verdict are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import localtime, strftime

from msgspec import Struct

from uwsgi_headroom.analysis.findings import Finding, Hold, find_harm
from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.config.servers import printable_name
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.journal.events import Journal, Kind
from uwsgi_headroom.journal.workers import WorkerEvents
from uwsgi_headroom.kernel.options import NAMES
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Options
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.words.formats import counted, duration

GAP_SECONDS = 5.0
"""The longest time without samples that is not an event: uWSGI's master is normally silent for up to 3 s."""


class Recorder:
    """Keeps the journal of one server. Pass it every outcome of a read, in order."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.verdicts, self.hold = Verdicts(self.journal), Hold()
        self._workers = WorkerEvents(self.journal)
        self._configuration = ConfigurationEvents(self.journal)
        self._before: Reading | None = None
        self._lost: list[int] = []
        self.loaded_at: float | None = None
        """When all workers last loaded the application (epoch seconds): uWSGI's start, a full reload, or the
        replacement of all workers; None if that was before the first reading and none has kept its first process."""
        self._gap_seconds = 0.0
        self.down_since: float | None = None
        """Since when (epoch seconds) the server counts as down; None while it does not."""
        self._began = False

    def begin(self, time: float) -> None:
        """Record the first outcome, at this time (epoch seconds). Later calls do nothing."""
        if not self._began:
            self._began = True
            self.journal.add(time, "exporter_started", "The exporter began to watch this server.")

    def read(self, reading: Reading, totals: Totals) -> None:
        """Compare a reading with the one before. totals: of the server, including this reading."""
        time, before = reading.time, self._before
        gap, self._gap_seconds = totals.gap_seconds - self._gap_seconds, totals.gap_seconds
        if self.down_since is not None:
            self._up(time, before, reading)
        elif before and gap > GAP_SECONDS:
            evidence = "Figures exclude this time."
            self.journal.add(time, "sampling_gap", f"There were no samples for {duration(gap)}.", evidence)
        self._configuration.compare(reading)
        lost = [worker.lost for worker in totals.workers]
        if before:
            reloads = self.journal.counts["reload"]
            self._workers.compare(before, reading, _growth(self._lost, lost))
            if self.journal.counts["reload"] > reloads:
                self.loaded_at = time
        elif isinstance(reading.snapshot, Snapshot):
            first = [worker.last_spawn for worker in reading.snapshot.workers if worker.respawns == 1]
            self.loaded_at = min([float(spawn) for spawn in first if spawn], default=None)
        self._before, self._lost = reading, lost

    def down(self, time: float, error: ReadError) -> None:
        """Record that the server counts as down from this time (epoch seconds), for this reason."""
        if self.down_since is None:
            self.down_since = time
            self.journal.add(time, "server_down", "The server is down.", _sentence(str(error)))
            self.verdicts.interrupt()
            self.hold.interrupt()

    def add_log_message(self, time: float, title: str, evidence: str, workers: tuple[int, ...], count: int) -> None:
        """Record a message of uWSGI's log, which was read at `time` (epoch seconds), `count` times."""
        self.journal.add(time, "log_message", title, evidence, workers=workers, count=count)

    def began_with(self, code: str) -> str | None:
        """What happened to the server within a minute before the present finding with this code began, such as `the
        reload at 14:02`; None if nothing did, or if the server was not watched, or had the finding, before that."""
        since = self.hold.since(code)
        if since is None or code in EVENTS_OF_FINDINGS or code in self.hold.before_outage:
            return None
        events = [event for event in self.journal.since(since - BEGIN_SECONDS) if event.time <= since]
        if any(event.kind == "exporter_started" for event in self.journal.since(since - 2 * BEGIN_SECONDS)):
            return None
        event = next((event for event in events if event.kind in WORDS_OF_BEGINNINGS), None)
        if event is None:
            return None
        return f"{WORDS_OF_BEGINNINGS[event.kind]} at {strftime('%H:%M', localtime(event.time))}"

    def began_after_reload(self, code: str) -> str | None:
        """How long after a reload the present finding with this code began, such as `3 min after the reload at 14:02`;
        None if it began at once (`began_with`), later than in AFTER_RELOAD_SECONDS, or before it."""
        since, event = self.hold.since(code), self.journal.latest_of("reload")
        if since is None or event is None or code in EVENTS_OF_FINDINGS or code in self.hold.before_outage:
            return None
        after = since - event.time
        if not BEGIN_SECONDS < after <= AFTER_RELOAD_SECONDS:
            return None
        return f"{duration(after)} after the reload at {strftime('%H:%M', localtime(event.time))}"

    def _up(self, time: float, before: Reading | None, reading: Reading) -> None:
        away = duration(time - (self.down_since or time))
        self.down_since = None
        same = reading.has_same_master(before) if before else None
        left = reading.find_earlier_master(before) if before and not same else None
        evidence = {
            None: "",
            True: "Its master is the same process.",
            False: "Its master is another process"
            + (f", and the earlier one, process {left}, still runs." if left else ": uWSGI was restarted."),
        }[same]
        self.journal.add(time, "server_up", f"The server is up again after {away}.", evidence)


def _growth(before: Sequence[int], now: Sequence[int]) -> list[int]:
    """How much each number has grown; a new one grows from 0."""
    return [later - (before[place] if place < len(before) else 0) for place, later in enumerate(now)]


def _sentence(words: str) -> str:
    words = printable_name(words)
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '?')) else '.'}"


MOST_NAMED = 6
"""The most changes that one event names."""


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
    if value is None or isinstance(value, bool):
        return {None: "unset", True: "on", False: "off"}[value]
    return printable_name(str(value))


JUDGE_SECONDS = 5.0
"""Seconds between two judgements of a server; more if a judgement takes long."""

EVENTS_OF_FINDINGS: Mapping[str, Kind] = {
    "harakiri": "worker_ended",
    "requests_lost": "worker_ended",
    "out_of_memory": "worker_ended",
    "respawn_loop": "worker_ended",
    "workers_ended": "worker_ended",
    "workers_missing": "worker_ended",
    "workers_respawned": "worker_ended",
    "reloaded": "reload",
}
"""The kind of the events that a finding is based on, by the finding's code."""

WORDS_OF_BEGINNINGS: Mapping[Kind, str] = {
    "configuration_changed": "the change of its configuration",
    "server_up": "the end of its outage",
    "reload": "the reload",
}
"""How an event is called with which a finding began."""

BEGIN_SECONDS = 70.0
"""The longest time from such an event to a finding: a window, and two judgements."""

AFTER_RELOAD_SECONDS = 900.0
"""The longest time from a reload to a finding that may be due to it: a cache fills, and load comes."""


class Verdict(Struct, frozen=True):
    """A verdict that findings hold. status: `unknown` until there is one; code: of the finding that it is about, None
    if all is well; since: when the status began (epoch seconds), None if it was the first; harm: the code of the worst
    harm of waiting that this finding explains, None without one."""

    status: Status
    code: str | None = None
    since: float | None = None
    harm: str | None = None


NO_VERDICT = Verdict("unknown")


class Verdicts:
    """The verdict of one server over time: what its held findings say."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._said: tuple[Status, str | None, str] = "ok", None, ""
        self.current = NO_VERDICT
        """The present verdict; unknown while the server cannot be read."""
        self._judgements = 0

    def judge(
        self, time: float, status: Status, sentence: str, findings: Sequence[Finding], seen: float | None
    ) -> None:
        """Record a judgement at this time (epoch seconds). findings: those that have begun, worst first; seen: when the
        first of them was first seen."""
        self._judgements += 1
        is_ok = status == "ok"
        code, harm = (None, None) if is_ok else (findings[0].code, find_harm(findings))
        before_status, before_code, before_sentence = self._said
        since = time if seen is None or is_ok or code == before_code else seen
        if (status, code) != (before_status, before_code):
            evidence = f"Before: {before_status}. {before_sentence}" if before_sentence else ""
            self._journal.add(since, "verdict_changed", f"Verdict: {status}. {sentence}", evidence)
        self._said = status, code, sentence
        if self._judgements < FIRST and is_ok:
            return
        if self.current.status == status:
            begin = self.current.since
        else:
            begin = None if self._judgements <= FIRST and is_ok else since
        self.current = Verdict(status, code, begin, harm)

    def interrupt(self) -> None:
        """Forget the verdict because the server cannot be read."""
        self.current = NO_VERDICT


FIRST = 2
"""The judgements after which it is known that there is no finding: the first one holds none."""
