"""The application under load: waits, uses CPU, and says which worker it was and when, by the clock all processes share.

`/?io_ms=&cpu_ms=`; the answer's headers are X-Worker, and X-Enter and X-Leave in nanoseconds of CLOCK_MONOTONIC.
"""

import time
from urllib.parse import parse_qs

import uwsgi  # type: ignore[import-untyped]  # made by uWSGI itself, in its workers


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
