"""The application of the scenarios: computes, waits, fails, leaks memory or ends its worker, as its URL says.

`/?cpu_ms=&io_ms=` computes, then waits; `/lock` does so one request at a time, `/hold` waits without releasing the
interpreter lock, `/hash` computes without it; `/error` raises; `/exit` ends the worker; `/leak?kb=` leaks memory. A
file `broken` in the working directory makes the import fail; with `dies` it ends the worker, with `slow` it takes 3 s.
"""

import contextlib
import ctypes
import hashlib
import os
import threading
import time
from urllib.parse import parse_qs

if os.path.exists("broken"):
    raise ImportError("asked to fail")
if os.path.exists("dies"):
    os._exit(1)
if os.path.exists("slow"):
    time.sleep(3)

LEAKED: list[bytes] = []
LOCK = threading.Lock()
HOLDING = ctypes.PyDLL(None)  # unlike CDLL, it keeps the interpreter lock during a call


def application(environ, start_response):  # type: ignore[no-untyped-def]
    query = parse_qs(environ.get("QUERY_STRING", ""))
    path = environ["PATH_INFO"]
    wait = float(query.get("io_ms", ["0"])[0]) / 1000
    with LOCK if path == "/lock" else contextlib.nullcontext():
        end = time.thread_time() + float(query.get("cpu_ms", ["0"])[0]) / 1000
        while time.thread_time() < end:
            if path == "/hash":
                hashlib.pbkdf2_hmac("sha256", b"", b"", 40000)
        if path == "/hold":
            HOLDING.usleep(round(wait * 1e6))
        else:
            time.sleep(wait)
    match path:
        case "/error":
            raise RuntimeError("asked to fail")
        case "/exit":
            os._exit(1)
        case "/leak":
            LEAKED.append(b"x" * (1024 * int(query["kb"][0])))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
