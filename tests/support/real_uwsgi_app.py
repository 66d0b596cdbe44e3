"""The smallest WSGI application that can be busy in known ways: `/?io_ms=&cpu_ms=`."""

import time
from collections.abc import Callable
from urllib.parse import parse_qs


def application(environ: dict[str, str], start_response: Callable[..., object]) -> list[bytes]:
    query = parse_qs(environ.get("QUERY_STRING", ""))
    end = time.thread_time() + float(query.get("cpu_ms", ["0"])[0]) / 1000
    while time.thread_time() < end:
        pass
    time.sleep(float(query.get("io_ms", ["0"])[0]) / 1000)
    if environ["PATH_INFO"] == "/error":
        raise RuntimeError("asked to fail")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
