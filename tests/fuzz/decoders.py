"""Feeds each decoder with damaged bytes, and the faces with stories of documents, for a time.

Inputs that reach other lines of the package than all before are kept in build/fuzz/, and changed further, in later runs
as well. What a decoder may raise is listed; anything else, or an input that takes a second, is a failure.
"""

import os
import random
import sqlite3
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from hashlib import sha1
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from unittest.mock import patch

from tests.fuzz.faces import Story
from tests.fuzz.mutations import tell_story
from tests.store.test_database import NOON, minute, opened
from tools.environments import ROOT
from uwsgi_headroom import stats
from uwsgi_headroom.config.yaml_file import load_file
from uwsgi_headroom.errors import ConfigError, HistoryFileError, StatsError
from uwsgi_headroom.kernel import cgroups, cpus, procfs, sock_diag, web_servers
from uwsgi_headroom.kernel.options import read_file_options
from uwsgi_headroom.kernel.stacks import layout, reader
from uwsgi_headroom.kernel.waits import memory, system_calls
from uwsgi_headroom.store.file import HistoryFile
from uwsgi_headroom.uwsgi_log.scan import LineCutter, Scanner
from uwsgi_headroom.web import request_head

KEPT = ROOT / "build/fuzz"
MOST_BYTES = 200_000
SLOW_SECONDS = 1.0


class Decoder(NamedTuple):
    decode: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    may_raise: tuple[type[Exception], ...] = ()


def _as_file(decode: Callable[[Path], object], data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as file:
        Path(file.name).write_bytes(data)
        decode(Path(file.name))


def _scan(data: bytes) -> None:
    cutter, scanner = LineCutter(), Scanner()
    for begin in range(0, len(data), 997):
        scanner.scan(cutter.cut(data[begin : begin + 997]))


def _read_head(data: bytes) -> None:
    if end := request_head.measure(data):
        request_head.parse(data[:end])


def _find_lines(data: bytes) -> None:
    sockets = (("a", "/run/shop.sock", "uwsgi"), ("b", "127.0.0.1:3031", "http"))
    with patch.object(web_servers, "_read_files", lambda _: iter([("/etc/nginx/nginx.conf", data)])):
        web_servers.find_lines.__wrapped__(sockets, ())


def _read_history(path: Path) -> None:
    with HistoryFile(path, NOON + 10**6) as file:
        for server in file.servers():
            list(file.records(server.name, 0, NOON + 10**6, 60))
            file.latest_events(server.name, 0, (NOON + 10**6, 1 << 62), 10)
            file.reach(server.name)


def _read_netlink(data: bytes) -> None:
    for _, _, payload in sock_diag._messages(data):
        for read in (sock_diag._unix, sock_diag._inet, sock_diag.seconds_to_end, sock_diag.read_ages):
            read(payload)
        parts = sock_diag.attributes(payload, sock_diag.unix_diag_msg)
        sock_diag.unix_name(parts.get(sock_diag.UNIX_DIAG_NAME, b""))
        sock_diag.unix_file(parts.get(sock_diag.UNIX_DIAG_VFS, b""))


def _read_lines(data: bytes) -> None:
    for read in (procfs.parse_process_stat, system_calls.parse_system_call, cpus.parse_stat, _read_text):
        try:
            read(data)
        except ValueError:
            continue
    list(memory.parse_mappings(data))


def _read_text(data: bytes) -> None:
    text = data.decode()
    cgroups._cgroup(text, "cpu")
    list(cgroups._mounts(text, 2, "cpu"))


def _read_stacks(data: bytes) -> None:
    for minor in range(9, 16):
        layout.read_debug_offsets((3, minor), data)
        assert reader.find_line((3, minor), data, 7, len(data) // 2) > 0


def _history_seed() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history"
        database = opened(path)
        database.write([minute(number, route="/a") for number in range(1, 4)], NOON + 300.0)
        database.close()
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
        return [path.read_bytes()]


def _proc_seeds() -> list[bytes]:
    names = ("self/stat", "stat", "self/syscall", "self/maps", "self/cgroup", "self/mountinfo")
    return [Path("/proc", name).read_bytes() for name in names]


def _log_seeds() -> list[bytes]:
    lines = (ROOT / "tests/uwsgi_log/captured.log").read_bytes().splitlines(keepends=True)
    return [b"".join(lines[begin : begin + 20]) for begin in range(0, len(lines), 20)]


def _netlink_seeds() -> list[bytes]:
    request = sock_diag.unix_request(sock_diag.UDIAG_SHOW_NAME | sock_diag.UDIAG_SHOW_VFS)
    found = sock_diag.ask(request)[0][:4] + list(sock_diag.dump_listeners("inet").values())[:4]
    return [struct.pack("=IHHII", 16 + len(each), 20, 2, 1, 0) + each for each in found]


def _tell_story(data: bytes) -> None:
    Story(int.from_bytes(data[:8], "big")).run()


DECODERS = {
    "stories": Decoder(_tell_story, lambda: [bytes(8)]),
    "stats": Decoder(stats.decode, lambda: list(tell_story(random.Random(1), 20)), (StatsError,)),
    "ini": Decoder(partial(_as_file, lambda path: read_file_options(str(path))), lambda: [_INI]),
    "log": Decoder(_scan, _log_seeds),
    "request head": Decoder(_read_head, lambda: [_HEAD], (request_head.RefusedHeadError,)),
    "web config": Decoder(_find_lines, lambda: [_NGINX]),
    "own config": Decoder(partial(_as_file, load_file), lambda: [_YAML], (ConfigError,)),
    "history file": Decoder(partial(_as_file, _read_history), _history_seed, (HistoryFileError,)),
    "netlink": Decoder(_read_netlink, _netlink_seeds, (struct.error, OSError)),
    "/proc lines": Decoder(_read_lines, _proc_seeds),
    "stacks": Decoder(_read_stacks, lambda: [layout._COOKIE + bytes(range(256)) * 3, bytes(range(200))]),
}
_INI = b"[uwsgi]\nprocesses = %k\nthreads=4\nif-env = X\nini = :other\nendif =\nset-ph = a=b\n[other]\nharakiri = 30\n"
_HEAD = b"GET /metrics?a=%20b HTTP/1.1\r\nHost: [::1]:9238\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
_NGINX = b"http {\n upstream a { server unix:/run/shop.sock; }\n location / { uwsgi_pass 127.0.0.1:3031; } # unix:\n}\n"
_YAML = b"servers:\n - name: shop\n   address: unix:///run/shop.stats\n   timeout: 2\nhistory: &a {file: /a}\nslo: *a\n"

WORDS = (b"\0", b"\xff" * 8, b"-1", b"99999999999999999999", b"\n", b"\r\n", b"%", b"[", b"\x7f\xff\xff\xff", b":")


def change(chance: random.Random, kept: list[bytes]) -> bytes:
    """One of the inputs with a few bytes changed, taken out, doubled, or of another input."""
    data = bytearray(chance.choice(kept))
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at, size = chance.randrange(len(data) + 1), chance.choice((1, 1, 2, 4, 8, 60))
        other = chance.choice(kept)
        begin = chance.randrange(len(other) + 1)
        new = (b"", chance.randbytes(size), other[begin : begin + size], bytes(data[at : at + size]) * 3)
        data[at : at + chance.choice((0, size))] = chance.choice((*new, chance.choice(WORDS)))
    return bytes(data[:MOST_BYTES])


def trace(decode: Callable[[bytes], object], data: bytes, lines: set[tuple[str, int]]) -> None:
    """Run a decoder, and add the lines of the package that it ran. Raises what it raises."""

    def note(frame: FrameType, _event: str, _: object) -> object:
        lines.add((frame.f_code.co_name, frame.f_lineno))
        return note

    sys.settrace(lambda frame, *_: note if "uwsgi_headroom" in frame.f_code.co_filename else None)
    try:
        decode(data)
    finally:
        sys.settrace(None)


def fuzz(name: str, seconds: float, seed: int | None = None) -> tuple[int, int, list[str]]:
    """Fuzz one decoder; how many inputs it had, how many are kept, and its failures."""
    decoder, chance, folder = DECODERS[name], random.Random(seed), KEPT / name.replace("/", "").replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    kept = [*decoder.seeds(), *(path.read_bytes() for path in sorted(folder.glob("*")))]
    known: set[tuple[str, int]] = set()
    failures, end, number, seeds = dict[str, str](), time.monotonic() + seconds, 0, kept[::-1]
    while time.monotonic() < end:
        number += 1
        data, lines, began = seeds.pop() if seeds else change(chance, kept), set[tuple[str, int]](), time.process_time()
        try:
            trace(decoder.decode, data, lines)
        except decoder.may_raise:
            pass
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            place = traceback.extract_tb(error.__traceback__)[-1]
            failures.setdefault(f"{type(error).__name__} in {place.filename}:{place.lineno}", repr(data[:2000]))
        if (taken := time.process_time() - began) > SLOW_SECONDS:
            failures.setdefault("slow", f"{taken:.1f} s: {data[:2000]!r}")
        if not lines <= known:
            known |= lines
            kept.append(data)
            (folder / sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
    return number, len(kept), [f"{error}: {data}" for error, data in failures.items()]
