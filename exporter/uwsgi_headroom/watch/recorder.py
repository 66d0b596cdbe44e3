"""Records the journal of one server: turns outcomes of reads, and judgements, into events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from time import localtime, strftime

from msgspec import Struct

from uwsgi_headroom.analysis.findings import Finding, Hold, find_harm
from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.config.servers import printable_name
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.history.events import Journal, Kind
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.kernel.options import NAMES
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Options
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.watch.worker_events import WorkerEvents, compare_masters, find_start
from uwsgi_headroom.words.formats import duration
from uwsgi_headroom.words.template import Facts, fill

GAP_SECONDS = 5.0
"""The longest time without samples that is no event: uWSGI's master is normally silent for up to 3 s."""


BEGINNINGS: Mapping[Kind, str] = {
    "configuration_changed": "the change of its configuration",
    "server_up": "the end of its outage",
    "reload": "the reload",
}
"""How an event is called with which a finding began."""

BEGAN = (
    " It began [soon? within a minute of][not soon? {after:duration} after] {event} at {at}[reload? : if that was a "
    "deploy, roll back first]."
)

BEGIN_SECONDS = 70.0
"""The longest time from such an event to a finding: a window, and two judgements."""

AFTER_RELOAD_SECONDS = 900.0
"""The longest time from a reload to a finding that may be due to it: a cache fills, and load comes."""

UP_AGAIN = (
    "[same? Its master is the same process.][left? Its master is another process, and the earlier one, process "
    "{left:plain}, still runs.][new? Its master is another process: uWSGI was restarted.]"
)
BEFORE = "[sentence? Before: {status}. {sentence}]"
CHANGED = "Configuration changed: {changes}[others? , and {others:other}]."
"""Texts of events, as templates."""


class Recorder:
    """Keeps the journal of one server. Pass it every outcome of a read, in order. down_since: since when (epoch
    seconds) the server counts as down; None while it does not. loaded_at: when all workers last loaded the application
    (epoch seconds): at uWSGI's start, a full reload, or their replacement; None if that was before the first reading
    and none has kept its first process."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.verdicts, self.hold = Verdicts(self.journal), Hold()
        self._workers = WorkerEvents(self.journal)
        self._configuration = ConfigurationEvents(self.journal)
        self._before: Reading | None = None
        self._lost: list[int] = []
        self._gap_seconds = 0.0
        self.loaded_at: float | None = None
        self.down_since: float | None = None

    def begin(self, time: float) -> None:
        """Record the first outcome, at this time (epoch seconds). Later calls do nothing."""
        if not self.journal.counts["exporter_started"]:
            self.journal.add(time, "exporter_started", "The exporter began to watch this server.")

    def read(self, reading: Reading, totals: Totals) -> None:
        """Compare a reading with the one before. totals: of the server, including this reading."""
        time, before = reading.time, self._before
        gap, self._gap_seconds = totals.gap_seconds - self._gap_seconds, totals.gap_seconds
        if self.down_since is not None:
            away, self.down_since = duration(time - self.down_since), None
            evidence = fill(UP_AGAIN, compare_masters(before, reading))
            self.journal.add(time, "server_up", f"The server is up again after {away}.", evidence)
        elif before and gap > GAP_SECONDS:
            evidence = "Figures exclude this time."
            self.journal.add(time, "sampling_gap", f"There were no samples for {duration(gap)}.", evidence)
        self._configuration.compare(reading)
        lost = [worker.lost for worker in totals.workers]
        if before:
            reloads = self.journal.counts["reload"]
            # A new worker has lost nothing before.
            grown = zip_longest(lost, self._lost[: len(lost)], fillvalue=0)
            self._workers.compare(before, reading, [now - then for now, then in grown])
            if self.journal.counts["reload"] > reloads:
                self.loaded_at = time
        else:
            self.loaded_at = find_start(reading)
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

    def describe_beginning(self, finding: Finding) -> str:
        """What happened shortly before a present finding began, as a sentence: an event within BEGIN_SECONDS, or a
        reload. Empty if nothing did, if the finding counts such events itself, or if the server was not watched, or had
        the finding, before that."""
        since, code = self.hold.since(finding.code), finding.code
        if since is None or finding.severity == "info" or finding.kind.event or code in self.hold.before_outage:
            return ""
        events = [event for event in self.journal.since(since - AFTER_RELOAD_SECONDS) if event.time <= since]
        near = [event for event in events if event.kind in BEGINNINGS and since - event.time <= BEGIN_SECONDS]
        reloads = [event for event in events if event.kind == "reload"]
        is_new = any(event.kind == "exporter_started" for event in self.journal.since(since - 2 * BEGIN_SECONDS))
        if not (near or reloads) or (near and is_new):
            return ""
        event = (near or reloads)[0]
        facts: Facts = {
            "soon": bool(near),
            "after": since - event.time,
            "event": BEGINNINGS[event.kind],
            "at": strftime("%H:%M", localtime(event.time)),
            "reload": event.kind == "reload",
        }
        return fill(BEGAN, facts)


def _sentence(words: str) -> str:
    words = printable_name(words)
    return f"{words[:1].upper()}{words[1:]}{'.' * (not words.endswith(('.', '?')))}"


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
        snapshot, options = reading.snapshot, getattr(reading.host.setup, "options", None)
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
            facts: Facts = {"changes": ", ".join(changes[:MOST_NAMED]), "others": len(changes[MOST_NAMED:]) or None}
            self._journal.add(reading.time, "configuration_changed", fill(CHANGED, facts))


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


class Verdict(Struct, frozen=True):
    """A verdict that findings hold. status: `unknown` until there is one; code: of the finding that it is about, None
    if all is well; since: when the status began (epoch seconds), None if it was the first; harm: the code of the worst
    harm of waiting that this finding explains, None without one."""

    status: Status
    code: str | None = None
    since: float | None = None
    harm: str | None = None


NO_VERDICT = Verdict("unknown")
FIRST = 2
"""The judgements after which the lack of findings is known: the first one holds none."""


class Verdicts:
    """The verdict of one server over time: what its held findings say."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._said = Verdict("ok"), ""
        self.current = NO_VERDICT
        """The present verdict; unknown while the server cannot be read."""
        self._judgements = 0

    def judge(
        self, time: float, status: Status, sentence: str, findings: Sequence[Finding], seen: float | None
    ) -> None:
        """Record a judgement at this time (epoch seconds). findings: those that have begun, worst first; seen: when the
        first of them was first seen."""
        self._judgements += 1
        worst = findings[: status != "ok"]
        code, (before, sentence_before) = next((each.code for each in worst), None), self._said
        begin = seen if worst and seen is not None and code != before.code else time
        if (status, code) != (before.status, before.code):
            evidence = fill(BEFORE, {"status": before.status, "sentence": sentence_before})
            self._journal.add(begin, "verdict_changed", f"Verdict: {status}. {sentence}", evidence)
        self._said = Verdict(status, code), sentence
        if self._judgements < FIRST and not worst:
            return
        since: float | None = begin
        if self.current.status == status:
            since = self.current.since
        elif self._judgements <= FIRST and not worst:
            since = None
        self.current = Verdict(status, code, since, find_harm(worst))

    def interrupt(self) -> None:
        self.current = NO_VERDICT
