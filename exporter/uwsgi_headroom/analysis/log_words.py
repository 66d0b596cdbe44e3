"""Says what uWSGI's log said about a finding, or how to read it: the end of every advice that would name the log.

A message is *proven* if a counter or a process agreed with it (`record.LogMessage.agreed`). Other messages are only
said by the log, to which the application writes too; the words keep the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.record import LogMessage, LogRecord, ServerRecord
from uwsgi_headroom.uwsgi_log.messages import SIGNALS, advise, describe, name_signal
from uwsgi_headroom.words.formats import numbered, repeated

ENDS = (
    "killed_by_signal",
    "segmentation_fault",
    "floating_point_exception",
    "mercy_kill",
    "evil_reload",
    "exception_respawn",
    "failed_in_worker",
    "application_not_loaded",
    "worker_died",
    "respawning_too_fast",
)
"""Messages that say why a worker ended, the most telling first."""

STARTS = ("no_callable", "application_not_loaded", "failed_in_worker", "no_application_loaded", "killed_by_signal")
"""Messages that say why an application or a worker does not start."""

_MOST_QUOTED = 2


def see_log(server: ServerRecord, why: str, codes: Sequence[str], plain: str = "") -> str:
    """What to do about what the log says by these messages, as sentences; else where to look for the reason, `why`.
    plain: that sentence, where it is not `Check uWSGI's log for ...`."""
    plain = plain or f"Check uWSGI's log for {why}."
    log = server.log
    if log is None or (log.off and not log.turn_on):
        return plain + (f" uwsgi-headroom cannot read uWSGI's log: {log.off}." if log and log.off else "")
    if log.turn_on:
        return (
            f"{plain.rstrip('.')}. If you start uwsgi-headroom with `{log.turn_on}`, it shows the messages in "
            "uWSGI's log that it recognizes."
        )
    found = [code for code in codes if code in log.messages]
    if not found:
        return (
            f"Check uWSGI's log for {why}. uwsgi-headroom reads only what is added to this log while it watches, and "
            "recognized no message in that."
        )
    first, *more = [(_quote(code, log.messages[code]), log.messages[code]) for code in found[:_MOST_QUOTED]]
    clause, message = first
    doubt = "" if message.agreed else ", but nothing else confirms it"
    change = advise(found[0], message.limit)
    return " ".join(
        [
            f"{change} uWSGI's log reports{_count(message)} that {clause}{doubt}."
            if change
            else f"Find out why {clause}: uWSGI's log reports this{_count(message)}{doubt}.",
            *(f"The log also says{_count(message)} that {clause}." for clause, message in more),
            *_explain_signal(log),
        ]
    )


def _quote(code: str, message: LogMessage) -> str:
    """What a message says, as a clause."""
    worker = message.workers[0] if len(message.workers) == 1 else None
    signal = message.signals[0] if len(message.signals) == 1 else None
    clause = describe(code, worker, signal, message.limit)
    if len(message.workers) > 1:
        clause = clause.replace("a worker was", f"{numbered('worker', message.workers)} were")
    return f"{clause} ({message.place})" if message.place and message.agreed else clause


def _count(message: LogMessage) -> str:
    return f" {repeated(message.count)}" if message.count > 1 else ""


def is_proven(server: ServerRecord, code: str) -> bool:
    """Whether the log has a message with which something agrees."""
    message = server.log.messages.get(code) if server.log else None
    return message is not None and message.agreed > 0


def proven_signal(server: ServerRecord) -> str:
    """The signal that ended workers, if the log names one alone and their processes agree: ` by signal 11 (SIGSEGV)`;
    else empty."""
    signals = _find_signals(server.log, is_proven=True) if server.log else ()
    return f" by signal {name_signal(signals[0])}" if len(signals) == 1 else ""


def _find_signals(log: LogRecord, *, is_proven: bool = False) -> Sequence[int]:
    """The signals that the log names for ends of workers. uWSGI catches two of them, and its master then sees no
    signal."""
    signals = set[int]()
    for code, caught in (("segmentation_fault", 11), ("floating_point_exception", 8), ("killed_by_signal", None)):
        message = log.messages.get(code)
        if message is not None and (message.agreed or not is_proven):
            signals.update((caught,) if caught else message.signals)
    return sorted(signals)


def proven_place(server: ServerRecord, codes: Sequence[str]) -> str:
    """The exception that a proven message names: `KeyError at shop/views.py:12`; empty if there is none."""
    messages = server.log.messages if server.log else {}
    found = (messages[code] for code in codes if code in messages)
    return next((message.place for message in found if message.agreed and message.place), "")


def _explain_signal(log: LogRecord) -> Sequence[str]:
    return [SIGNALS[number] for number in _find_signals(log) if number in SIGNALS][:1]
