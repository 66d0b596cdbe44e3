"""`make try-standalone`: runs the one-file program in dist/ beside a real uWSGI, checks its figures, prints its cost.

PROGRAM measures another program, such as an ordinary installation. The exit status is 0 if everything is right, 1 if
not, and 75 if there is no program.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

import psutil

from app.loopback import free_port, get
from tests.support.real_uwsgi import APP, bare, wait_until
from tools.debian_root import UNAVAILABLE, FailedError, expect
from tools.environments import ROOT, uwsgi_for_tests
from tools.release.source import version_of
from tools.release.standalone import file_name

REQUESTS = 40
READY_SECONDS = 60.0
COUNTED = "uwsgi_worker_requests_total"
ONE = ("uwsgi_up", "uwsgi_socket_queue_measurable", "uwsgi_host_facts_available")


def main(argv: list[str]) -> int:
    version = version_of((ROOT / "exporter/uwsgi_headroom/__init__.py").read_text())
    program = argv[0] if argv else str(ROOT / "dist" / file_name(version))
    if not Path(program).is_file():
        print(f"try-standalone: cannot run here: there is no {program}: make standalone", file=sys.stderr)
        return UNAVAILABLE
    try:
        _try(program)
    except (AssertionError, FailedError) as error:
        print(f"try-standalone: {error}", file=sys.stderr)
        return 1
    return 0


def _try(program: str) -> None:
    http, port = free_port(), free_port()
    options = ["--master", "--processes", "2", "--wsgi-file", str(APP), "--stats", "{directory}/stats"]
    where = ["--http-socket", f"127.0.0.1:{http}"]
    with bare(*options, *where, binary=str(uwsgi_for_tests())) as uwsgi:
        serve = [program, "serve", "--stats", uwsgi.stats, "--web.listen-address", f"127.0.0.1:{port}"]
        exporter = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            print(f"--version: {_seconds([program, '--version']):.2f} s")
            wait_until(lambda: _read(port, "uwsgi_up"), what="a reading of uWSGI")
            before = _read(port, COUNTED)
            for _ in range(REQUESTS):
                get(http, "/")
            wait_until(lambda: _read(port, COUNTED) >= before + REQUESTS, what="the count of the requests")
            wrong = [name for name in ONE if _read(port, name) != 1]
            expect(not wrong, f"not 1: {', '.join(wrong)}")
            print(f"resident memory of serve: {_resident(exporter.pid) / 2**20:.1f} MB")
            check = _seconds([program, "check", "--seconds", "2", uwsgi.stats])
            print(f"check: {check:.2f} s, of which 2 s of watching")
            print(f"top --once: {_seconds([program, 'top', '--once', uwsgi.stats]):.2f} s")
        finally:
            exporter.terminate()
            exporter.wait(READY_SECONDS)


def total(metrics: str, name: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.MULTILINE))


def _read(port: int, name: str) -> float:
    """The sum of a metric's samples; 0 while nothing answers."""
    return total(get(port, "/metrics") or "", name)


def _seconds(command: list[str]) -> float:
    began = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(not ran.returncode, f"{' '.join(command)}: status {ran.returncode}: {ran.stderr}{ran.stdout}")
    return time.monotonic() - began


def _resident(pid: int) -> int:
    """The resident bytes of a process and its children: the one file runs as a child of its loader."""
    process = psutil.Process(pid)
    return sum(int(each.memory_info().rss) for each in (process, *process.children(recursive=True)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
