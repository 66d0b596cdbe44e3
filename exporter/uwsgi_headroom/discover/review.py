"""Runs `review`: says which settings, from a file or of a running uWSGI, will cause trouble later, and the line that
prevents it. `analysis.settings` judges.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from uwsgi_headroom import source, stats
from uwsgi_headroom.analysis.setting_facts import Seen, parse_version
from uwsgi_headroom.analysis.settings import GENERAL, NEVER, SettingAdvice, review
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.discover.find import FoundMaster, ask_in_time, common_threads, find_masters
from uwsgi_headroom.errors import HeadroomError, ReadError
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.namespaces import read_pid_numbers
from uwsgi_headroom.kernel.options import read_file_options, read_options
from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.kernel.proof import prove_master_pid
from uwsgi_headroom.kernel.setup import find_systemd_unit, read_identity, read_somaxconn
from uwsgi_headroom.record import Options
from uwsgi_headroom.source import Address, Answer
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.terminal_text import escape_text, join_blocks, print_lines, wrap
from uwsgi_headroom.words.template import Facts, fill

T = TypeVar("T")

_READ_SECONDS = 5.0
_SECONDS = 10.0
"""How long all running uWSGIs may take together. Those of hostile users are slow."""

_ONE_INTERPRETER = re.compile(
    rb"/(numpy|scipy|torch|pydantic_core|cryptography|lxml|grpc|tensorflow|psycopg_binary)/[^\n]*\.so"
)
"""Modules in C, by the directory of their library, that support only one interpreter per process, or did so in versions
that are in use."""

_MOST_MAP_BYTES = 8 << 20


class Subject(Struct, frozen=True):
    """What is reviewed. name: as the user gave it, or the configuration file; problem: why nothing is known of its
    options, empty if they are known."""

    name: str
    options: Options
    seen: Seen
    problem: str = ""


def read_subjects(words: list[str]) -> list[Subject]:
    """What each word names: a PID, a configuration file, or the address of a stats server; without words, every uWSGI
    on this machine. Raises HeadroomError."""
    end = time.monotonic() + _SECONDS
    masters: list[FoundMaster] = []
    if not words or any(map(str.isdecimal, words)):
        masters = asyncio.run(find_masters())
    if not words and not masters:
        raise HeadroomError("no uWSGI runs on this machine: give a configuration file, or the address of its stats")
    words = words or [str(pid) for pid in dict.fromkeys(master.pid for master in masters)]
    return [_read(word, masters, end) for word in words]


def _read(word: str, masters: Sequence[FoundMaster], end: float) -> Subject:
    if word.isdecimal():
        return _read_running(int(word), masters, end)
    return _read_file(word) if os.path.isfile(word) else _read_stats(word)


def _read_file(name: str) -> Subject:
    if not name.endswith(".ini"):
        raise HeadroomError(f"{name}: only ini files can be read (a name that ends in .ini)")
    try:
        Path(name).read_bytes()
    except OSError as error:
        raise HeadroomError(f"{name}: {error.strerror}") from None
    # Its workers will run with the limits of this machine, as far as they can be known before.
    return Subject(name, read_file_options(name), Seen(somaxconn=read_somaxconn(os.getpid())))


def _read_running(pid: int, masters: Sequence[FoundMaster], end: float) -> Subject:
    """The uWSGI of this master, with its stats if it has a stats server that answers by `end`. Raises HeadroomError."""
    name, own = f"process {pid}", [master for master in masters if master.pid == pid]
    if not own:
        raise HeadroomError(f"{name}: is no uWSGI master that this user can see (`uwsgi-headroom discover` lists them)")
    for master in own:
        seconds = min(_READ_SECONDS, end - time.monotonic())
        if master.address and not master.trouble and seconds > 0:
            with suppress(HeadroomError):
                _, snapshot = asyncio.run(_ask(master.address, seconds))
                return _subject(name, pid, snapshot, end)
    return _subject(name, pid, None, end)


def _read_stats(word: str) -> Subject:
    address = source.parse_address(word)
    answer, snapshot = asyncio.run(_ask(address, _READ_SECONDS))
    proof = prove_master_pid(snapshot.pid, peer_pid=answer.peer_pid, listener=answer.peer)
    if proof.pid is None:
        problem = proof.reason or "its master cannot be found on this machine"
        return Subject(word, Options(), Seen(), problem)
    return _subject(word, proof.pid, snapshot, time.monotonic() + _SECONDS)


async def _ask(address: Address, seconds: float) -> tuple[Answer, Snapshot]:
    answer = await source.read_document(address, timeout=seconds, size_cap=SIZE_CAP)
    snapshot = stats.decode(answer.body)
    if not isinstance(snapshot, Snapshot):
        raise ReadError("not_uwsgi", f"{address} is the stats server of an emperor or a router: review its vassals")
    return answer, snapshot


def _subject(name: str, pid: int, snapshot: Snapshot | None, end: float) -> Subject:
    try:
        options, seen = ask_in_time(end, _read_process, pid)
    except (OSError, ValueError) as error:
        return Subject(name, Options(), Seen(), problem=str(error))
    problem = "its options cannot be read: run this command as its user, or as root"
    if options.complete or options.source:
        problem = ""
    if snapshot:
        seen = replace(
            seen,
            version=parse_version(snapshot.version),
            workers=len(snapshot.workers) or None,
            threads=common_threads(snapshot),
            mounted=max((len(worker.apps) for worker in snapshot.workers), default=None),
        )
    known = fill("{name}[file?  ({file})]", {"name": name, "file": options.configuration_file})
    return Subject(known, options, seen, problem)


def _read_process(pid: int) -> tuple[Options, Seen]:
    """The options of a running uWSGI, and what else the kernel says of it. Its user can make this slow."""
    return read_options(pid), Seen(
        somaxconn=read_somaxconn(pid),
        descriptors=_value(lambda: procfs.read_limits(pid).get("open files")),
        is_first=read_pid_numbers(pid)[-1:] == (1,),
        is_vassal=read_identity(pid).emperor_pid is not None,
        unit=find_systemd_unit(pid) or "",
        logs_to_pipe=_value(lambda: os.readlink(f"/proc/{pid}/fd/2").startswith("pipe:")),
        extensions=_find_extensions(pid),
    )


def _value(read: Callable[[], T]) -> T | None:
    """What is read of a process; None if that is hidden, or if it has ended."""
    try:
        return read()
    except (OSError, ValueError):
        return None


def _find_extensions(pid: int) -> tuple[str, ...]:
    """The modules of `_ONE_INTERPRETER` that a process has loaded; with `lazy-apps` only its workers have."""
    names: set[bytes] = set()
    for each in (pid, *list_children(pid)[:1]):
        with suppress(OSError), open(f"/proc/{each}/maps", "rb") as maps:
            names.update(_ONE_INTERPRETER.findall(maps.read(_MOST_MAP_BYTES)))
    return tuple(sorted(name.decode() for name in names))


_WIDTH = 100

_PARTLY = (
    "Not every option is known (a file that cannot be read, a condition, or a placeholder), so nothing is said about "
    "options that may be missing."
)


def run(options: argparse.Namespace) -> int:
    """Review each subject. The exit status is 0 if surely nothing will cause trouble, else 1. Raises HeadroomError."""
    subjects = read_subjects(list(options.subjects))
    reviews = [(subject, [] if subject.problem else review(subject.options, subject.seen)) for subject in subjects]
    print_lines(_render_json(reviews) if options.json else join_blocks(starmap(_render_one, reviews)))
    return int(any(each.problem or "warning" in [advice.severity for advice in found] for each, found in reviews))


def _render_json(reviews: Sequence[tuple[Subject, Sequence[SettingAdvice]]]) -> list[str]:
    documents = [
        {
            "name": subject.name,
            "problem": subject.problem,
            "all_options_known": subject.options.complete,
            "advice": [
                {key: value for key, value in asdict(advice).items() if key not in ("when", "warns", "sets")}
                for advice in found
            ],
        }
        for subject, found in reviews
    ]
    return json.dumps(documents, indent=2).splitlines()


def _render_one(subject: Subject, found: Sequence[SettingAdvice]) -> list[str]:
    lines = [escape_text(f"{subject.name}: {_summarize(subject, found)}")]
    if not subject.problem and not subject.options.complete:
        lines += wrap(_PARTLY, _WIDTH, "  ", "  ")
    for number, advice in enumerate(found, 1):
        lines += ["", *wrap(f"{number}. {advice.severity.upper()}: {advice.title}", _WIDTH, rest="   ")]
        seen = f"{'Seen: ' * (advice.seen != GENERAL)}{advice.seen}"
        for text in (advice.reason, seen, advice.change):
            lines += wrap(text, _WIDTH, "   ", "   ")
        lines += [f"   {'' if place else 'Write:':6} {line}" for place, line in enumerate(advice.lines)]
        lines += [f"   Needs: uWSGI {advice.needs} or later."] * bool(advice.needs)
        if advice.unless != NEVER:
            lines += wrap(f"Ignore this if {advice.unless}", _WIDTH, "   ", "   ")
        lines.append(f"   Source: {advice.source}")
    return lines


def _summarize(subject: Subject, found: Sequence[SettingAdvice]) -> str:
    if subject.problem:
        return f"no review: {subject.problem.rstrip('.')}."
    if not found:
        return "no setting that is known will cause trouble."
    warnings = sum(advice.severity == "warning" for advice in found)
    facts: Facts = {"warnings": warnings or None, "others": len(found) - warnings or None}
    return fill(
        "[warnings? {warnings:setting}][not warnings? no setting] will cause trouble[others? , {others} may].", facts
    )
