"""The application under load: uses CPU, waits, and reports its worker and the times of entry and exit.

`/?io_ms=&cpu_ms=`; the response has the headers X-Worker, and X-Enter and X-Leave in nanoseconds of CLOCK_MONOTONIC,
the clock that all processes share.
"""

import time
from urllib.parse import parse_qs

import uwsgi  # type: ignore[import-untyped]  # uWSGI provides this module in its workers


def application(environ, start_response):  # type: ignore[no-untyped-def]
    enter = time.monotonic_ns()
    query = parse_qs(environ.get("QUERY_STRING", ""))
    end = time.thread_time() + float(query.get("cpu_ms", ["0"])[0]) / 1000
    while time.thread_time() < end:
        pass
    time.sleep(float(query.get("io_ms", ["0"])[0]) / 1000)
    headers = [("Content-Type", "text/plain"), ("Content-Length", "3"), ("X-Worker", str(uwsgi.worker_id()))]
    headers += [("X-Enter", str(enter)), ("X-Leave", str(time.monotonic_ns()))]
    start_response("200 OK", headers)
    return [b"ok\n"]
