"""The words, signs and styles of states, limits, severities and events: a table for each, by the code of the API.

A name reads well in a sentence or a list; a short form fits a narrow column. A terminal's style is one of `rich`. A
sign stands beside every colour, so that colour alone says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from uwsgi_headroom.words.colours import BACKENDS, PALETTE, Colour


class WaitWords(NamedTuple):
    """What a thread with a request does.

    does: as what the thread does; name: as a part of the time of a request; short: as `name`, for narrow columns;
    terminal: the style of its part of a bar, empty for the states that terminals have no colour left for.
    """

    does: str
    name: str
    short: str
    colour: Colour
    terminal: str = ""


WAITS: Mapping[str, WaitWords] = {
    "cpu": WaitWords("on CPU", "CPU", "CPU", Colour("#007d5a", "#2fbf95"), "black on green"),
    "cpu_wait": WaitWords("waits for a CPU", "CPU wait", "CPU wait", Colour("#c98500", "#f0b13a"), "black on yellow"),
    "interpreter_lock": WaitWords(
        "waits for the interpreter lock", "interpreter lock (GIL)", "GIL", Colour("#c62f2f", "#ff7060"), "white on red"
    ),
    "backend": WaitWords("waits for a backend", "backend", "backend", Colour("#0072b2", "#56b4e9"), "white on blue"),
    "client": WaitWords("waits for the client", "client", "client", Colour("#1397b5", "#6fe3f0"), "black on cyan"),
    "dns": WaitWords("waits for DNS", "DNS", "DNS", Colour("#0d7571", "#35b0a8"), "black on cyan"),
    "disk": WaitWords("waits for a disk", "disk", "disk", Colour("#915e31", "#c79a6c"), "white on magenta"),
    "lock": WaitWords("waits for a lock", "lock", "lock", Colour("#b53d86", "#ffb0da"), "white on magenta"),
    "sleep": WaitWords("sleeps", "sleep", "sleep", Colour("#828d99", "#8f9aa6"), "white on bright_black"),
    "child": WaitWords("waits for a child process", "child process", "child", Colour("#767a12", "#c2c44f")),
    "pipe": WaitWords("waits for a pipe", "pipe", "pipe", Colour("#7a90b8", "#8ba3cf")),
    "other": WaitWords("other", "other", "other", Colour("#5d6874", "#66717d")),
    "unknown": WaitWords("unknown", "unknown", "unknown", Colour("#76808b", "#98a4b0")),
}
"""In the order of a stack, from the bottom. Running is green, waits in this machine are warm, waits for others cool.
Only the grey of sleep is not known to terminals with eight colours."""


_PARTICIPLES = {"cpu": "computing", "sleep": "sleeping", "unknown": "", "other": ""}


def name_activity(state: str, address: str = "", how: str = "") -> str:
    """What a thread does, as the end of a clause: `waiting for 10.0.0.5:5432`; empty if that is not known. how: as in
    `Blocker`."""
    if how == "connection":
        return f"connecting to {address or 'a backend'}"
    if how == "file":
        return "waiting for the lock of a file"
    if state == "backend" and address:
        return f"waiting for {address}"
    return _PARTICIPLES.get(state, WAITS[state].does.replace("waits", "waiting", 1))


class Limit(NamedTuple):
    """A limit of the load. outcome: what happens when it is reached, as a clause; colour: the name of one in COLOURS:
    where requests wait at the limit, that of the state in which they do."""

    name: str
    short: str
    outcome: str
    colour: str


LIMITS: Mapping[str, Limit] = {
    "hottest_interpreter": Limit(
        "hottest interpreter", "hot interpreter", "the hottest worker's interpreter saturates", "wait-interpreter-lock"
    ),
    "interpreters": Limit(
        "all interpreters", "interpreters", "the interpreters of all workers saturate", "wait-named-0"
    ),
    "threads": Limit("threads", "threads", "threads run out", "blue"),
    "cpu": Limit("CPUs", "CPUs", "CPUs run out", "wait-cpu-wait"),
    "lock": Limit("lock of the application", "lock", "requests queue for a lock of the application", "wait-lock"),
    "other": Limit("what requests wait for", "other", "what requests wait for is at its limit", "wait-other"),
}


COLOURS: Mapping[str, Colour] = {
    **PALETTE,
    **{f"wait-{code.replace('_', '-')}": state.colour for code, state in WAITS.items()},
    **{f"wait-named-{number}": colour for number, colour in enumerate(BACKENDS)},
}


class Status(NamedTuple):
    """A status of a server or the severity of a finding. word: in capitals, which are an alarm without colour."""

    sign: str
    word: str
    terminal: str


STATUSES: Mapping[str, Status] = {
    "ok": Status("✓", "OK", "bold green"),
    "info": Status("i", "INFO", "bold"),
    "warning": Status("▲", "WARNING", "bold yellow"),
    "critical": Status("✖", "CRITICAL", "bold red"),
    "unknown": Status("?", "UNKNOWN", "bold magenta"),
}
"""The colour in the palette has the same name; `info` has none."""

NO_CAUSE = "none"
"""The code of a verdict that is about no finding."""

SERVER_STATES: Mapping[str, tuple[str, str]] = {
    "up": ("✓", "up"),
    "stale": ("…", "stale"),
    "down": ("✖", "down"),
    "paused": ("‖", "paused"),
    "lost": ("?", "not current"),
}
"""Sign and name. The last two are states of the page: its reader paused it, or the exporter does not answer."""


_ENDED = (
    "If uWSGI has ended, clients get errors: a web server in front answers 502.",
    "Start uWSGI, or wait until it has loaded its application. If uWSGI exits again, read the end of its log, and roll "
    "back the last deploy. If uWSGI runs, `uwsgi-headroom discover` finds its statistics.",
)
_HELD_UP = (
    "uWSGI's master does not answer: workers may still serve, but uWSGI replaces no worker, and ends no stuck request.",
    "Open a page of the application: if the application answers, users do not suffer yet. If the message says that the "
    "process is stopped or frozen, or waits for a pipe, do as it says. If not, find the reader that blocks the master "
    "(in `ss -xntp`, its connection has a Send-Q above 0), and end this reader.",
)
_ELSEWHERE = (
    "Whether uWSGI serves requests is not known: this address is not that of its stats server.",
    "Give the exporter the address of uWSGI's `stats` option: `uwsgi-headroom discover` prints it.",
)

STILL_RUNS: Mapping[str, tuple[str, str]] = {
    "refused": (
        "Requests wait in the listen queue until uWSGI has loaded its application.",
        "Wait until uWSGI has loaded its application. If that takes longer than usual, read the end of its log.",
    ),
    "not_found": (
        "uWSGI most likely serves requests: only the socket file of its statistics was removed.",
        "Reload uWSGI when it suits you: that creates the file again. Find out what removed it.",
    ),
}
"""The same as FAILURES has, if the process that served the stats still runs."""

DAMAGED = (
    "uWSGI's master answers, so workers most likely serve requests: only its statistics are damaged.",
    "Rename the directory, socket or file whose name damages them.",
)
"""The same as FAILURES has, for a document that uWSGI itself damages."""

BLIND = (
    "uWSGI runs; requests without an end hold its threads for up to `socket-timeout` each.",
    "Find the client that sends HTTP to uWSGI's `socket`, such as a health check. With `stats-no-cores`, uWSGI writes "
    "its stats nevertheless.",
)
"""The same for empty stats (`errors.BlindError`)."""

FAILURES: Mapping[str, tuple[str, str]] = {
    "not_found": _ENDED,
    "refused": _ENDED,
    "permission": (
        "uWSGI most likely serves requests: only the exporter is not allowed to connect.",
        "Give the exporter access: run `uwsgi-headroom discover` as root to see how.",
    ),
    "unreachable": (
        "Whether uWSGI serves requests is not known: the exporter does not reach uWSGI.",
        "Check the address, and the network between the exporter's host and uWSGI's host.",
    ),
    "timeout": _HELD_UP,
    "truncated": _HELD_UP,
    "too_large": (
        "uWSGI most likely serves requests: only its statistics are too large.",
        "Make its document smaller (`stats-no-metrics`, `stats-no-cores`), or raise the limit that the reason names.",
    ),
    "empty": _ELSEWHERE,
    "http": _ELSEWHERE,
    "not_json": _ELSEWHERE,
    "not_uwsgi": _ELSEWHERE,
    "internal": ("Whether uWSGI serves requests is not known.", "Report this error as a bug, with the exporter's log."),
}
"""What a failed read means for users, and what to do about it, by its reason."""


class WorkerState(NamedTuple):
    """A state of a worker. short: in at most seven letters; narrow: in at most five, as uwsgitop has them; sign: for
    a worker that takes no requests; terminal: the colour that uwsgitop uses."""

    name: str
    short: str
    narrow: str
    sign: str = ""
    terminal: str = ""


WORKERS: Mapping[str, WorkerState] = {
    "idle": WorkerState("idle", "idle", "idle"),
    "busy": WorkerState("busy", "busy", "busy", terminal="green"),
    "cheap": WorkerState("in reserve", "reserve", "cheap", "○", "magenta"),
    "pause": WorkerState("paused", "paused", "pause", "‖", "blue"),
    "signal": WorkerState("signal", "signal", "sig", terminal="yellow"),
    "starting": WorkerState("starting", "not up", "start", "…", "yellow"),
    "gone": WorkerState("gone", "not up", "gone", "✖"),
    "never_spawned": WorkerState("never spawned", "reserve", "never", "○"),
}
"""A worker in cheaper mode's reserve is not a problem, so it has not the sign of one."""


class EventLook(NamedTuple):
    """How an event looks. tone: a colour in the palette, from which follows how severe it is; terminal: the style."""

    tone: str
    terminal: str = ""


EVENTS: Mapping[str, EventLook] = {
    "server_down": EventLook("critical", "bold red"),
    "server_up": EventLook("ok", "bold green"),
    "worker_ended": EventLook("critical", "yellow"),
    "reload": EventLook("accent", "yellow"),
    "sampling_gap": EventLook("dim", "magenta"),
    "configuration_changed": EventLook("accent", "cyan"),
    "verdict_changed": EventLook("warning", "bold"),
    "deploy_judged": EventLook("accent", "bold"),
}
"""The other kinds look plain."""


class JudgementWords(NamedTuple):
    """A report's judgement. answer: to whether there is a problem; service: on a service; urgency: of a
    recommendation; colour: a name in the palette."""

    answer: str
    service: str
    urgency: str
    colour: str


JUDGEMENTS: Mapping[str, JudgementWords] = {
    "act": JudgementWords("Yes", "Act now", "Act now", "alarm"),
    "plan": JudgementWords("Not yet", "Plan", "Plan", "warning"),
    "ok": JudgementWords("No", "Enough capacity", "Good to know", "ok"),
    "unknown": JudgementWords("Unknown", "Not judged", "Unknown", "unknown"),
}
