"""`/sleep?50` sleeps for so many milliseconds, `/burn?50` computes, `/lock?50` holds the only lock while it sleeps,
`/read` reads what its client sends, `/ask` waits for a backend at port 7000, `/poll` for the same by select.poll(),
`/pipe` for a program, and `/grow?50` takes so many megabytes for good."""

import select
import socket
import subprocess
import threading
import time
from typing import Any

KEPT: list[bytearray] = []
LOCK = threading.Lock()


def ask(polls: bool) -> None:
    with socket.create_connection(("127.0.0.1", 7000)) as backend:
        backend.sendall(b"?\n")
        if polls:
            waiting = select.poll()
            waiting.register(backend, select.POLLIN)
            waiting.poll()
        backend.recv(10)


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    amount = int(environ.get("QUERY_STRING") or 0)
    match environ["PATH_INFO"]:
        case "/sleep":
            time.sleep(amount / 1000)
        case "/burn":
            end = time.thread_time() + amount / 1000
            while time.thread_time() < end:
                pass
        case "/lock":
            with LOCK:
                time.sleep(amount / 1000)
        case "/read":
            environ["wsgi.input"].read()
        case "/ask" | "/poll" as path:
            ask(polls=path == "/poll")
        case "/pipe":
            subprocess.run(["sleep", "0.4"], stdout=subprocess.PIPE, check=True)
        case "/grow":
            KEPT.append(bytearray(b"x" * (amount << 20)))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
