"""Watches real uWSGIs for hours while everything around them changes: `make soak HOURS=1.5`. Prints a line each minute.

A uWSGI is loaded, and reloaded every four minutes; bursts, scrapes, pages and terminals come and go; vassals appear and
end; the exporter gets SIGHUP; logs are rotated, its certificate is renewed, and the disk of its history is full for a
while. At the end: memory against that at half of the time, descriptors, tasks, and each counter against the load.
Everything listens on loopback. A clock that jumps would jump for the whole machine, so that is left out.
"""

import argparse
import contextlib
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.request import Request, urlopen

import psutil

from tests.support import real_uwsgi
from tests.support.driven_top import driven
from tests.support.exporter import Exporter, configured_exporter
from tests.web.security.secure_server import authority, write_pair

MINUTE = 60.0
LOADERS, PAUSE_SECONDS, BURST, SCRAPES = 4, 0.02, 40, 12
MOST_GROWTH = 1.02
REQUESTS = 'uwsgi_worker_requests_total{server="shop"'
"""The series of the counter that is compared with the load."""


Minute = namedtuple("Minute", "resident descriptors threads children counted sent gap")
"""What the exporter has at the end of a minute. counted: requests by its counters; sent: by the load."""


class Load:
    """Requests to one uWSGI from several threads, which can pause. `sent` were answered with 200."""

    def __init__(self, server: real_uwsgi.Uwsgi) -> None:
        self._server = server
        self.sent = self.failed = 0
        self.ends, self.runs = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._busy = 0
        self.runs.set()
        for place in range(LOADERS):
            threading.Thread(target=self._run, args=(place,), daemon=True).start()

    def _run(self, place: int) -> None:
        while not self.ends.is_set():
            self.runs.wait()
            self.request(f"/?io_ms={5 * place}&cpu_ms=1")
            time.sleep(PAUSE_SECONDS)

    def request(self, path: str) -> None:
        with self._lock:
            self._busy += 1
        is_answered = False
        with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{self._server.http}{path}", timeout=60) as answer:
            is_answered = answer.read() == b"ok\n"
        with self._lock:
            self._busy -= 1
            self.sent += is_answered
            self.failed += not is_answered

    def burst(self) -> None:
        for _ in range(BURST):
            threading.Thread(target=self.request, args=("/?io_ms=100",), daemon=True).start()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """No request is in service in the block."""
        self.runs.clear()
        real_uwsgi.wait_until(lambda: not self._busy, what="the last request")
        yield
        self.runs.set()


class Soak:
    def __init__(self, exporter: Exporter, server: real_uwsgi.Uwsgi, folder: Path, is_limited: bool) -> None:
        self.exporter, self.server, self.folder, self.is_limited = exporter, server, folder, is_limited
        self.load = Load(server)
        self.counted, self.before = 0, dict[str, float]()
        self.scrapes = self.lost = self.reloads = 0
        self.vassal = contextlib.ExitStack()
        self.context = ssl.create_default_context()
        authority("soak").configure_trust(self.context)

    def get(self, path: str, seconds: float = 0.0) -> str:
        """The answer over TLS; with seconds, what has come of an endless one by then."""
        headers = {"Accept": "text/event-stream" if seconds else "*/*"}
        request = Request(f"https://127.0.0.1:{self.exporter.port}{path}", headers=headers)
        with urlopen(request, timeout=30, context=self.context) as response:
            end, parts = time.monotonic() + seconds, [response.read1(65536)]
            while parts[-1] and (not seconds or time.monotonic() < end):
                parts.append(response.read1(65536))
            return b"".join(parts).decode()

    def scrape(self) -> dict[str, float]:
        """Scrape, and count the requests since the last scrape: a counter begins anew when uWSGI is reloaded."""
        try:
            text = self.get("/metrics")
        except OSError:
            self.lost += 1
            return {}
        self.scrapes += 1
        series = dict(line.rsplit(" ", 1) for line in text.split("\n") if line and not line.startswith("#"))
        now = {name: float(value) for name, value in series.items()}
        for name in [name for name in now if name.startswith(REQUESTS)]:
            earlier = self.before.get(name, 0.0)
            self.counted += int(now[name] - (earlier if now[name] >= earlier else 0.0))
            self.before[name] = now[name]
        return now

    def settle(self) -> None:
        """Wait until a sample has seen the last request."""
        time.sleep(2.0)
        self.scrape()

    def reload(self) -> None:
        with self.load.paused():
            self.settle()
            before = {worker.pid for worker in psutil.Process(self.server.pid).children()}
            os.kill(self.server.pid, signal.SIGHUP)
            has_ended = lambda: not any(map(psutil.pid_exists, before)) and real_uwsgi.accepts(self.server.stats)  # noqa: E731
            real_uwsgi.wait_until(has_ended, what="the reload")
            real_uwsgi.wait_for_workers(self.server)
            self.reloads += 1
            self.settle()

    def begin_vassal(self) -> None:
        """A further uWSGI, whose stats socket appears in the directory of a pattern."""
        place = self.folder / "vassals" / f"{time.monotonic_ns()}.stats"
        self.vassal.enter_context(real_uwsgi.uwsgi("--stats", str(place), stats=False))
        self.vassal.callback(place.unlink, missing_ok=True)

    def rotate(self) -> None:
        """As logrotate does with `copytruncate`."""
        log = self.server.log
        log.with_suffix(".1").write_bytes(log.read_bytes()[-10_000:])
        os.truncate(log, 0)

    def renew(self) -> None:
        write_pair(self.folder, "server", authority("soak").issue_cert("127.0.0.1"))

    def fill(self) -> None:
        """The disk of the history is full until the next minute."""
        with contextlib.suppress(OSError), (self.folder / "history" / "full").open("wb") as file:
            while self.is_limited:
                file.write(bytes(65536))
                file.flush()

    def look(self) -> None:
        """Open the page and its events, and a terminal, for a few seconds."""
        self.get("/")
        self.get("/api/v2/servers/shop", seconds=5.0)
        with driven(f"unix://{self.server.stats}") as top:
            top.wait(lambda text: "shop" in text or "stats" in text, 30)
            top.press("q")
            top.ended(30)

    def minute(self, number: int) -> Minute:
        """What happens in a minute depends on its number."""
        end = time.monotonic() + MINUTE
        hang_up = partial(os.kill, self.exporter.pid, signal.SIGHUP)
        acts = [self.load.burst, hang_up, self.rotate, self.look, self.renew]
        acts += [(self.reload, self.begin_vassal, self.fill, self.vassal.close)[number % 4]]
        for act in acts:
            act()
            self.scrape()
        if number % 4 == 3:
            (self.folder / "history" / "full").unlink(missing_ok=True)
        while time.monotonic() < end:
            time.sleep(MINUTE / SCRAPES)
            self.scrape()
        process = psutil.Process(self.exporter.pid)
        with self.load.paused():
            self.settle()
            now = self.scrape()
            gap = sum(value for name, value in now.items() if name.startswith("uwsgi_exporter_sample_gap_seconds_to"))
            children = len(process.children(recursive=True))
            figures = (process.memory_info().rss, process.num_fds(), process.num_threads(), children)
            return Minute(*figures, self.counted, self.load.sent, gap)


@contextlib.contextmanager
def limited(folder: Path) -> Iterator[bool]:
    """A file system of 2 MB at `history`, where this user may mount one."""
    place = folder / "history"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        print("skipped: a full disk, as this user may not mount a file system")
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--hours", type=float, default=1.5)
    minutes = max(2, round(parser.parse_args().hours * 60))
    print("skipped: a clock that jumps, which would jump for the whole machine")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        (folder / "vassals").mkdir()
        is_limited = stack.enter_context(limited(folder))
        server = stack.enter_context(real_uwsgi.uwsgi("--processes", "2", "--threads", "4"))
        real_uwsgi.wait_for_workers(server)
        write_pair(folder, "server", authority("soak").issue_cert("127.0.0.1"))
        (folder / "web.yml").write_text("tls_server_config: {cert_file: server.pem, key_file: server.key}\n")
        servers = [
            {"name": "shop", "stats": f"unix://{server.stats}", "log": str(server.log)},
            {"stats": f"unix://{folder}/vassals/*.stats"},
        ]
        web = ("--web.config.file", str(folder / "web.yml"), "--history", str(folder / "history/history"))
        soak = Soak(stack.enter_context(configured_exporter(servers, *web)), server, folder, is_limited)
        stack.enter_context(soak.vassal)
        soak.settle()
        print(f"{'minute':>6} {'MB':>6} {'fds':>4} {'threads':>7} {'children':>8} {'counted':>8} {'sent':>8} gap")
        found = []
        for number in range(minutes):
            found.append(now := soak.minute(number))
            print(
                f"{number + 1:6} {now.resident / 1e6:6.1f} {now.descriptors:4} {now.threads:7} {now.children:8} "
                f"{now.counted:8} {now.sent:8} {now.gap:.1f}",
                flush=True,
            )
        soak.load.ends.set()
        problems, full = soak.exporter.lines("level=error"), len(soak.exporter.lines("no space is left"))
    half, last = found[len(found) // 2 - 1], found[-1]
    growth = last.resident / half.resident
    print(f"memory at the end: {growth:.3f} of that at half of the time; at most {MOST_GROWTH}")
    print(f"requests: {last.counted} counted, {last.sent} answered with 200, {soak.load.failed} failed")
    print(
        f"{soak.scrapes} scrapes, {soak.lost} lost; {soak.reloads} reloads; {full} full disks; {len(problems)} errors"
    )
    print(*problems[:5], sep="\n")
    is_flat = last.descriptors <= half.descriptors + 2 and last.threads <= half.threads + 1
    return not (growth <= MOST_GROWTH and is_flat and last.counted == last.sent and not problems)


if __name__ == "__main__":
    sys.exit(main())
