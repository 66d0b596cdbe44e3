"""The application of the scenarios in `rows.waits`: asks other servers, as clients of databases and of HTTP do.

OUTSIDE lists their addresses, `HOST:PORT,HOST:PORT`. `/ask?n=0` asks the first one over a connection of its thread,
`/new?n=0` over a new one, `/locked?n=0` does so one request at a time, `/lookup?n=0` with a datagram; `timeout=SECONDS`
gives the socket a timeout, as most clients do. Each thread writes into the working directory for how many seconds, and
how often, it asked each address.
"""

import contextlib
import json
import os
import socket
import threading
import time
from urllib.parse import parse_qs

ADDRESSES = [address.rpartition(":") for address in os.environ["OUTSIDE"].split(",")]
OWN = threading.local()
LOCK = threading.Lock()


def connect(number: int, timeout: "float | None") -> socket.socket:
    host, _, port = ADDRESSES[number]
    connection = socket.create_connection((host, int(port)), timeout)
    connection.settimeout(timeout)
    return connection


def ask(path: str, number: int, timeout: "float | None") -> None:
    if path == "/ask":
        kept = OWN.__dict__.setdefault("kept", {})
        if (number, timeout) not in kept:
            kept[number, timeout] = connect(number, timeout)
        exchange(kept[number, timeout])
    elif path == "/new":
        with connect(number, timeout) as connection:
            exchange(connection)
    elif path == "/locked":
        with LOCK:
            ask("/new", number, timeout)
    else:
        host, _, port = ADDRESSES[number]
        with socket.socket(type=socket.SOCK_DGRAM) as question:
            question.settimeout(timeout)
            question.connect((host, int(port)))
            exchange(question)


def exchange(connection: socket.socket) -> None:
    connection.sendall(b"?")
    connection.recv(1)


def application(environ, start_response):  # type: ignore[no-untyped-def]
    query = parse_qs(environ["QUERY_STRING"])
    timeout = float(query["timeout"][0]) if "timeout" in query else None
    for number in map(int, query.get("n", [])):
        begin = time.monotonic()
        with contextlib.suppress(TimeoutError):
            ask(environ["PATH_INFO"], number, timeout)
        record(number, time.monotonic() - begin)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]


def record(number: int, seconds: float) -> None:
    totals = OWN.__dict__.setdefault("totals", [(0.0, 0)] * len(ADDRESSES))
    before, times = totals[number]
    totals[number] = before + seconds, times + 1
    name = f"asked-{os.getpid()}-{threading.get_ident()}"
    with open(f".{name}", "w") as file:
        json.dump(totals, file)
    os.replace(f".{name}", name)
