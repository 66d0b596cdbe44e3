"""Saves what `check` was given of each server, without names, and judges it again from the file, for a bug report.

A file is JSON: for each server the judge's input, and its document without what the judge makes. A text that is not
known to be harmless is replaced by a stand-in, the same one wherever it stands, that has what a judgement depends on: a
path stays a path, and an address keeps the port of a well-known service. Numbers and uWSGI's option names stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from math import inf, isfinite
from sys import float_info
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom import __version__
from uwsgi_headroom.analysis.backends import BackendSlices
from uwsgi_headroom.analysis.destinations import PORTS, name_service
from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings, correct_headroom
from uwsgi_headroom.analysis.findings.threads import find_change
from uwsgi_headroom.documents.build import judge_again, runbook_path, server_path
from uwsgi_headroom.documents.lines import list_lines
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.errors import ConfigError, OutputError
from uwsgi_headroom.history.response_times.bins import Bins, share_bins
from uwsgi_headroom.kernel.procfs import open_regular
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import DISTRIBUTIONS_FILES, Destination
from uwsgi_headroom.terminal_text import escape_text
from uwsgi_headroom.watch.watch import Watch

FORM = 1
"""The version of a file: raise it when an older file could be read as something else."""

MOST_BYTES = 16 << 20
"""Of a file. A server of two workers with two threads each, and code, takes 16 kB."""

MOST_THREADS = 50_000
"""Of a server: the time that a judgement takes grows with them."""

_BEGINNING = b'{"uwsgi_headroom_check":'


class Look(Struct, frozen=True):
    """One server. known: the judge's input for the window of the document, after that of the whole time if it was
    judged by the last part; empty if it was not judged. destinations: those of each, which are no keys in JSON."""

    document: ServerDocument
    known: tuple[Known, ...] = ()
    destinations: tuple[tuple[tuple[Destination, float], ...], ...] = ()


class _Form(Struct, frozen=True):
    uwsgi_headroom_check: int
    version: str


class _File(_Form, frozen=True):
    looks: tuple[Look, ...]


_JUDGED = (
    *("window", "headroom", "flow", "occupancy", "balance", "cpu", "routes", "waits", "response_times"),
    *("queue_waits", "objective", "code"),
)
"""The sections that `judge_again` makes."""

_QUOTING = ("log_message", "verdict_changed", "configuration_changed", "deploy_judged")
"""The kinds of events whose texts may quote the application."""


def take(watch: Watch, document: ServerDocument) -> Look:
    reading, server = watch.reading, describe_server(watch.reading)
    events = [replace(each, title="", evidence="") if each.kind in _QUOTING else each for each in document.events]
    rest = replace(document, path="", lines=(), deploy=None, what_if=None, events=tuple(events))
    if reading is None or server is None:
        return Look(rest)  # that of an emperor or a router is made without the judge
    rest = replace(rest, findings=(), **dict.fromkeys(_JUDGED))
    if document.window is None or document.state != "up":
        return Look(rest)
    lengths = dict.fromkeys([document.windows[0].asked, document.window.asked])
    known = [watch.know(server, reading, window) for window in map(watch.history.window, lengths) if window]
    remembered = {finding.code: watch.recorder.describe_beginning(finding) for finding in _judge(known)[1]}
    blank = partial(replace, title="", meaning="", change="", settings={}, harms=(), runbook=None)
    findings = [blank(each, evidence=remembered.get(each.code, "")) for each in document.findings]
    return Look(
        replace(rest, verdict="", findings=tuple(findings)),
        tuple([replace(each, destinations=None, server=_leave_out_destinations(each)) for each in known]),
        tuple([tuple((each.destinations or {}).items()) for each in known]),
    )


def _leave_out_destinations(known: Known) -> Any:
    waits = known.server.waits
    return replace(known.server, waits=waits and replace(waits, destinations={}))


def _judge(known: Sequence[Known]) -> tuple[Figures, list[Finding]]:
    figures = [correct_headroom(compute_figures(each)) for each in known]
    slower = find_change(*figures) if len(figures) > 1 else None
    return figures[-1], [*collect_findings(figures[-1]), *([slower] if slower else [])]


@contextmanager
def saving(path: str | None) -> Iterator[list[Look] | None]:
    """Write the looks that it gets to a file that it creates at the end, if there are any: whatever ends this program
    before leaves none. Without a path, there is no list. Raises ConfigError if the file exists or cannot be created,
    and OutputError if it cannot be written."""
    if path is None:
        yield None
        return
    if "\0" in path or os.path.lexists(path) or not os.access(os.path.dirname(path) or ".", os.W_OK | os.X_OK):
        raise ConfigError(f"--save: cannot create {path}, and overwrites nothing")
    looks: list[Look] = []
    try:
        yield looks
    finally:
        try:
            if looks:
                with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
                    file.write(encode(looks))
        except OSError as error:
            raise OutputError(f"--save: {path} cannot be written: {error.strerror or error}") from None


def encode(looks: Sequence[Look]) -> bytes:
    file, names = _File(FORM, __version__, tuple(looks)), _StandIns()
    _change(file, names.replace)
    names.seen = names.list_seen()
    return msgspec.json.encode(_change(file, names.replace), enc_hook=_encode_object) + b"\n"


def _encode_object(value: Any) -> Any:
    return value.list_rows() if isinstance(value, BackendSlices) else None


def _decode_object(kind: type, value: Any) -> Any:
    if kind is Bins:
        return share_bins()
    return BackendSlices().restore(msgspec.convert(value, list[tuple[float, float, float]]))


def is_saved(path: str) -> bool:
    try:
        return _read(path, len(_BEGINNING)) == _BEGINNING
    except OSError:
        return False


def _read(path: str, most: int) -> bytes:
    with open(open_regular(path), "rb") as file:
        return file.read(most)


def replay(path: str) -> list[ServerDocument]:
    """Judge what a file has, and return the documents. Raises ConfigError if it is too large, damaged, or of another
    version."""
    try:
        data = _read(path, MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError("too large")
        form = msgspec.json.decode(data, type=_Form)
        if form.uwsgi_headroom_check == FORM:
            file = msgspec.json.decode(data, type=_File, dec_hook=_decode_object)
            return [_replay(look) for look in _change(file, _check).looks]
    except Exception as error:  # noqa: BLE001 - whatever another person's file makes of the judge
        raise ConfigError(f"{path} is damaged, or `check --save` did not write it ({type(error).__name__})") from None
    raise ConfigError(f"{path} was saved by uwsgi-headroom {form.version}, whose files this version does not read")


def _replay(look: Look) -> ServerDocument:
    document = replace(look.document, path=server_path(look.document.name))
    if not look.known:
        findings = [replace(each, runbook=runbook_path(each.code, document.name)) for each in document.findings]
        document = replace(document, findings=tuple(findings))
        return replace(document, lines=list_lines(document))
    pairs = zip(look.known, look.destinations, strict=True)
    known = [replace(each, destinations=dict(destinations)) for each, destinations in pairs]
    if any(sum([max(1, worker.threads or 0) for worker in each.server.workers]) > MOST_THREADS for each in known):
        raise ValueError("too many threads")
    return judge_again(document, *_judge(known))


_INFINITY = float_info.max
"""Stands for infinity, which JSON lacks."""

_LARGEST_FLOAT, _LARGEST_WHOLE = 1e15, 2**64
"""The largest other numbers in a file: times and bytes, and what a stats document may have, such as a false PID."""


def _check(value: Any, _field: str) -> Any:
    if isinstance(value, str):
        return escape_text(value)
    if abs(value) > (_LARGEST_FLOAT if isinstance(value, float) else _LARGEST_WHOLE) and value != _INFINITY:
        raise ValueError("too large a number")
    return inf if value == _INFINITY else value


def _change(value: Any, change: Callable[[Any, str], Any], field: str = "", is_free: bool = False) -> Any:
    """Copy a value with every number changed, and every text. is_free: whether its type permits any text, rather than
    certain words; field: the name of its field."""
    if isinstance(value, str):
        return change(value, field) if is_free else value
    if isinstance(value, int | float):
        return change(value, field)
    if names := getattr(value, "__struct_fields__", None) or getattr(value, "_fields", None):
        free = _list_free(value.__class__)
        return type(value)(**{name: _change(getattr(value, name), change, name, name in free) for name in names})
    if isinstance(value, Mapping):
        keys = [_change(key, change, field, is_free and field not in _WORDS_ARE_KEYS) for key in value]
        return dict(zip(keys, [_change(each, change, field, is_free) for each in value.values()], strict=True))
    if isinstance(value, Sequence):
        return tuple([_change(each, change, field, is_free) for each in value])
    return value


@cache
def _list_free(kind: Callable[..., Any]) -> frozenset[str]:
    return frozenset(name for name, hint in get_type_hints(kind).items() if _is_free(hint))


def _is_free(hint: Any) -> bool:
    return hint is str or any(map(_is_free, get_args(hint)))


_WORDS_ARE_KEYS = ("messages", "options", "source")
_WORDS = ("version", "code", "ends_workers", "directive", "protocol")
_SENTENCES = (
    *("why", "reason", "off", "gaps", "message", "harm", "change", "title", "evidence", "verdict", "meaning"),
    *("processes_off", "why_unknown", "turn_on"),
)
"""Fields, by name, whose texts are this program's; sentences may quote names."""

_KEPT = re.compile(
    r"|command line|other|/|pid:\d+|\*|localhost|0\.0\.0\.0|\[::1?\]|127\.[\d.]+|\d{1,4}(:\d{1,3})?(,\d{1,3})*"
    r"|app|application|emperor|master|socket|stats|uwsgi|worker|<module>|spare2?|backlog|busyness|manual"
)
"""What tells nothing of anybody: numbers, this machine, and words that sentences have anyway."""

_KIND = re.compile(r"((?:unix|tcp|file)://|unix:|app:|journal:|(?:MemoryError|OSError E[A-Z]+) at )(.+)")
_URL = re.compile(r"(https?://)([^/]+)(/.*)?")
_ROUTE = re.compile(r"([A-Z]+) /.*")
_PLACE = re.compile(r"([^/@]*):(\d{1,5})")
_PORTS = {*PORTS, 53, 80, 443}
_QUOTED = "|".join(
    (
        r"(?<![\w./-])/(?!proc\b|sys\b)[\w.@%+:~/-]*[\w/~]",
        r"\b(?!127\.)\d+\.\d+\.\d+\.\d+\b",
        r"(?<!\w)(?!::1\b)(?:(?:[0-9a-f]{1,4}:){4,}|(?:[0-9a-f]{1,4}:)*:)[0-9a-f:.]+",
    )
)
"""Paths and addresses in sentences, but for those of the kernel's files, and of this machine."""
_SHORTEST = 3
"""Characters of a name that is looked for in sentences."""


class _StandIns:
    """The stand-ins of one file, by the text that they replace. seen: finds these in sentences; None: leave
    sentences."""

    def __init__(self) -> None:
        self.seen: re.Pattern[str] | None = None
        self._by_text: dict[str, str] = {}
        self._ports: dict[str, str] = {}
        self._find(os.uname().nodename)

    def replace(self, value: Any, field: str) -> Any:
        if not isinstance(value, str):
            return value if isfinite(value) else _INFINITY
        if field in _SENTENCES and self.seen:
            return self.seen.sub(lambda match: self._find(match[0]), value)
        return value if field in _WORDS or field in _SENTENCES else self._find(value)

    def list_seen(self) -> re.Pattern[str]:
        known = [each for each, shown in self._by_text.items() if len(each) >= _SHORTEST and each != shown]
        longest = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
        return re.compile(rf"(?<!\w)(?:{longest})(?!\w)|{_QUOTED}")

    def _find(self, text: str) -> str:
        if text not in self._by_text:
            self._by_text[text] = text  # it has a number from here on
            if not _KEPT.fullmatch(text):
                self._by_text[text] = self._make(text, len(self._by_text))
        return self._by_text[text]

    def _make(self, text: str, number: int) -> str:
        if match := _URL.fullmatch(text):
            return f"{match[1]}{self._find(match[2])}{'/path' * bool(match[3])}"
        if match := _KIND.fullmatch(text):
            return match[1] + self._find(match[2])
        if match := _ROUTE.fullmatch(text):
            return f"{match[1]} /route-{number}"
        if match := _PLACE.fullmatch(text):
            host, port = match.groups()
            kept = port if int(port) in _PORTS else self._ports.setdefault(port, str(40_000 + len(self._ports)))
            return f"{self._find(host)}:{kept}"
        if text.startswith("/"):
            root, service = DISTRIBUTIONS_FILES if text.startswith(DISTRIBUTIONS_FILES) else "/", name_service(text)
            ends = (f"/{service}.sock", "/.s.PGSQL.6432", "/php-fpm.sock") if service else ()
            return f"{root}path-{number}" + next((end for end in ends if name_service(end) == service), "")
        return f"{'@' * text.startswith('@')}name-{number}"
