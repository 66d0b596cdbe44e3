"""What runs inside the machine, with its Python alone: a client that counts every answer, and two readers of stats.

    inside.py load SOCKET STATE STOP       one request in flight, until the file STOP exists; STATE says what came back
    inside.py read ADDRESS                 reads a stats server as this user; the status is 0 if a document came
    inside.py figures EXPECTED COMMAND...  runs an exporter, until its counts are those of EXPECTED or 20 s are over

The client speaks uWSGI's protocol, as a web server does. Each answer names the application and its instance (a number
that is new whenever uWSGI loads the application), so every answer is counted for the instance that gave it.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

PAUSE_SECONDS = 0.01  # between two requests: a light load, of at most 100 requests/s
LIMIT_SECONDS = 30.0  # for one request: a reload takes under 10
FIGURES_SECONDS = 20.0

_VARIABLES = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "QUERY_STRING": "", "SERVER_NAME": "trial"}
_COUNT = re.compile(r'^uwsgi_worker_requests_total\{server="([^"]+)"[^}]*\} (\S+)$', re.MULTILINE)
_UP = re.compile(r'^uwsgi_up\{server="([^"]+)"\} (\S+)$', re.MULTILINE)


def main(argv: list[str]) -> int:
    if argv[0] == "load":
        load(argv[1], Path(argv[2]), Path(argv[3]))
        return 0
    if argv[0] == "read":
        return read(argv[1])
    return figures(json.loads(argv[1]), argv[2:])


def load(address: str, state: Path, stop: Path) -> None:
    """Sends one request after the other and writes after each what came back.

    answers: by "APPLICATION INSTANCE"; failed: by the kind of error; last: who answered last; away: the longest time in
    seconds without an answer, up to now if none has come since.
    """
    answers: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    last, since, away = "", time.monotonic(), 0.0
    while not stop.exists():
        try:
            last = _request(address)
            answers[last] += 1
            away, since = max(away, time.monotonic() - since), time.monotonic()
        except OSError as error:
            failed[type(error).__name__] += 1
        now = max(away, time.monotonic() - since)
        text = {"answers": answers, "failed": failed, "last": last, "away": now, "silent": time.monotonic() - since}
        new = state.with_suffix(".new")
        new.write_text(json.dumps(text))
        new.replace(state)
        time.sleep(PAUSE_SECONDS)


def _request(address: str) -> str:
    """The body of an answer. Raises OSError if none comes."""
    packed = b"".join(struct.pack("<H", len(text)) + text.encode() for pair in _VARIABLES.items() for text in pair)
    with _connected(address) as connection:
        connection.sendall(struct.pack("<BHB", 0, len(packed), 0) + packed)
        whole = _received(connection)
    head, _, body = whole.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0] or not body:
        raise ConnectionAbortedError("no whole answer")
    return body.decode()


def read(address: str) -> int:
    """Prints what this user gets from a stats server."""
    try:
        with _connected(address.removeprefix("unix://").removeprefix("tcp://")) as connection:
            document = json.loads(_received(connection))
    except (OSError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    print(f"a document of process {document['pid']}")
    return 0


def figures(expected: dict[str, int], command: list[str]) -> int:
    """Prints the exporter's `uwsgi_up` and requests by server; the status is 0 if all are as expected."""
    said = Path("/tmp", f"exporter-{time.time_ns()}.log")
    with said.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as exporter:
        try:
            up: dict[str, float] = {}
            counts: dict[str, int] = {}
            end = time.monotonic() + FIGURES_SECONDS
            while exporter.poll() is None and time.monotonic() < end and counts != expected:
                time.sleep(0.3)
                try:
                    with urllib.request.urlopen("http://127.0.0.1:9238/metrics", timeout=5) as answer:
                        text = answer.read().decode()
                except OSError:
                    continue
                up = {name: float(value) for name, value in _UP.findall(text)}
                counts = dict.fromkeys(up, 0)
                for name, value in _COUNT.findall(text):
                    counts[name] += int(float(value))
        finally:
            exporter.terminate()
    fits = counts == expected
    print(json.dumps({"up": up, "counts": counts, "said": "" if fits else said.read_text()[-600:]}))
    return 0 if fits else 1


def _connected(address: str) -> socket.socket:
    """A connection to the path of a UNIX socket or to HOST:PORT. Raises OSError."""
    if not address.startswith("/"):
        host, _, port = address.rpartition(":")
        return socket.create_connection((host, int(port)), LIMIT_SECONDS)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(LIMIT_SECONDS)
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def _received(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
