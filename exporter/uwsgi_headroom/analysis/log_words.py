"""Finds what uWSGI's log says about a finding, or how to read it: the facts of every advice that would name the log.

A message is *proven* if a counter or a process agreed with it (`record.LogMessage.agreed`).
"""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.record import LogMessage, LogRecord, ServerRecord
from uwsgi_headroom.same_fields import given
from uwsgi_headroom.uwsgi_log.messages import SIGNALS, advise, describe, name_signal
from uwsgi_headroom.words.formats import numbered
from uwsgi_headroom.words.template import Facts, Private, fill

ENDS = (
    *("killed_by_signal", "segmentation_fault", "floating_point_exception", "mercy_kill", "evil_reload"),
    *("evil_reload_as", "exception_respawn", "failed_in_worker", "application_not_loaded", "worker_died"),
    "respawning_too_fast",
)
"""Messages that say why a worker ended, the most telling first."""

STARTS = ("no_callable", "application_not_loaded", "failed_in_worker", "no_application_loaded", "killed_by_signal")
"""Messages that say why an application or a worker does not start."""

_MOST_QUOTED = 2

LOG = (
    "[said? uWSGI's log says that {said}. ][unsure? Nothing else confirms this. ][signal? {signal} ]"
    "[silent? uwsgi-headroom reads this log, and recognized no message in it since it began to watch. ]"
    "[turn_on? With `{turn_on}`, uwsgi-headroom shows the messages in it that it recognizes. ]"
    "[log_off? uwsgi-headroom cannot read uWSGI's log: {log_off}. ]"
)
"""What a row says about uWSGI's log, by the facts of `read_log`."""


def read_log(server: ServerRecord, codes: Sequence[str]) -> Facts:
    """What uWSGI's log says by these messages: the facts of `LOG`; and `killed` and `place`, if proven."""
    log = server.log or LogRecord()
    every = [code for code in codes if code in log.messages]
    found, proven = every[:_MOST_QUOTED], [log.messages[code] for code in every if log.messages[code].agreed]
    fix = next(map(advise, found), "")
    return {
        "fix": fix,
        "look": not fix,
        "said": "; ".join(_quote(code, log.messages[code]) for code in found),
        "unsure": any(not log.messages[code].agreed for code in found[:1]),
        "signal": next((SIGNALS[number] for number in _find_signals(log) if found and number in SIGNALS), ""),
        "silent": bool(server.log and not found and not log.off),
        "turn_on": log.turn_on,
        "log_off": (not log.turn_on and log.off) or "",
        "killed": proven_signal(server),
        "place": Private(next((message.place for message in proven if message.place), "")),
    }


def see_log(server: ServerRecord, why: str, codes: Sequence[str]) -> str:
    """What to do about what the log says by these messages; else where to look for the reason, `why`."""
    text = "[fix? {fix}][look? Check uWSGI's log for {why}.][said?  uWSGI's log says that {said}.]"
    return fill(text, {**read_log(server, codes), "why": why})


def _quote(code: str, message: LogMessage) -> str:
    clause = describe(code, _only(message.workers), _only(message.signals), message.limit)
    if len(message.workers) > 1:
        clause = clause.replace("a worker was", f"{numbered('worker', message.workers)} were")
    facts: Facts = {"clause": clause, "place": bool(message.agreed) and message.place, "count": message.count}
    return fill("{clause}[place?  ({place})], {count:times}", facts)


def _only(numbers: Sequence[int]) -> int | None:
    """The number, if there is one alone."""
    return numbers[0] if len(numbers) == 1 else None


def is_proven(server: ServerRecord, code: str) -> bool:
    """Whether the log has a message with which something agrees."""
    message = server.messages.get(code)
    return message is not None and message.agreed > 0


def proven_signal(server: ServerRecord) -> str:
    """The signal that ended workers, if it is one alone, and proven: ` by signal 11 (SIGSEGV)`; else empty."""
    signal = _only(_find_signals(server.log or LogRecord(), is_proven=True))
    return given(signal, lambda signal: f" by signal {name_signal(signal)}") or ""


def _find_signals(log: LogRecord, *, is_proven: bool = False) -> Sequence[int]:
    """The signals that the log names for ends of workers, with those that uWSGI itself catches."""
    signals = set[int]()
    for code, caught in (("segmentation_fault", [11]), ("floating_point_exception", [8]), ("killed_by_signal", [])):
        message = log.messages.get(code)
        if message is not None and (message.agreed or not is_proven):
            signals.update(caught or message.signals)
    return sorted(signals)
