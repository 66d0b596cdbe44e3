"""The application of the scenarios: computes, waits, fails, leaks memory or ends its worker, as its URL says.

`/?cpu_ms=&io_ms=` computes, then waits; `/error` raises; `/exit` ends the worker; `/leak?kb=` leaks memory. A file
`broken` in the working directory makes the import fail; with a file `dies` the import ends the worker.
"""

import os
import time
from urllib.parse import parse_qs

if os.path.exists("broken"):
    raise ImportError("asked to fail")
if os.path.exists("dies"):
    os._exit(1)

LEAKED: list[bytes] = []


def application(environ, start_response):  # type: ignore[no-untyped-def]
    query = parse_qs(environ.get("QUERY_STRING", ""))
    end = time.thread_time() + float(query.get("cpu_ms", ["0"])[0]) / 1000
    while time.thread_time() < end:
        pass
    time.sleep(float(query.get("io_ms", ["0"])[0]) / 1000)
    match environ["PATH_INFO"]:
        case "/error":
            raise RuntimeError("asked to fail")
        case "/exit":
            os._exit(1)
        case "/leak":
            LEAKED.append(b"x" * (1024 * int(query["kb"][0])))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
