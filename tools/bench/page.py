"""Measures what the page costs: bytes, time to first paint, time to draw, and CPU of the exporter while it is open.

`python3 -m tools.bench.page` takes about three minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator

from playwright.sync_api import Browser, Page

from tools.bench import load
from tools.bench.exporters import cpu_seconds
from tools.bench.table import machine
from tools.support import real_uwsgi
from tools.support.browser import browser, tab
from tools.support.exporter import Exporter, exporter
from tools.support.web_server import get
from uwsgi_headroom.web import live_page

BROWSERS = 3
ROUNDS = 3
ROUND_SECONDS = 10.0
PAINTS = 9
STOPS = 5
DRAWING_SECONDS = 10.0
FRAME_MS = 16

_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
_FIGURES = "document.querySelector('main[data-time]') !== null"


def main() -> int:
    """Measures and prints the table."""
    began = os.getloadavg()[0]
    rows = []
    with browser() as running:
        with _server(8, 8, 24) as observed:
            rows += [_bytes(observed), *_paints(running, observed), _stale(running, observed), _cpu(running, observed)]
        with _server(64, 16, 100) as observed:
            rows += _frames(running, observed)
    print("| what | measured | budget |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(f"\n{machine()} Load average {began:.1f} at the start.")
    return 0


@contextlib.contextmanager
def _server(processes: int, threads: int, requests: int) -> Iterator[Exporter]:
    """Runs a uWSGI of this shape with `requests` in flight; yields its exporter."""
    shape = ("--processes", str(processes), "--threads", str(threads))
    with (
        real_uwsgi.uwsgi(*shape) as server,
        load.in_flight(server, requests),
        exporter("--stats", server.stats) as observed,
    ):
        yield observed


def _bytes(observed: Exporter) -> tuple[str, str, str]:
    """Returns the size of the page and all its files, as a browser loads them the first time."""
    files = sum(len(asset.compressed) for asset in live_page.load_assets().values())
    page = len(get(observed.port, "/")[2])
    return "page and its files, compressed", f"{(files + page) / 1000:.0f} kB", "150 kB"


def _paints(running: Browser, observed: Exporter) -> list[tuple[str, str, str]]:
    """Measures the time from the request to the first paint, and to the first figures, with an empty cache."""
    painted, heard = [], []
    for _ in range(PAINTS):
        with tab(running, observed.port) as shown:
            shown.page.goto(f"http://127.0.0.1:{observed.port}/")
            shown.until(_FIGURES)
            heard.append(shown.page.evaluate("heardAt"))
            shown.until(_PAINTED)
            painted.append(shown.page.evaluate(_PAINTED))
    return [
        (f"first paint (the verdict), empty cache, median of {PAINTS}", _spread(painted, "ms"), "300 ms"),
        ("all figures", _spread(heard, "ms"), ""),
    ]


def _stale(running: Browser, observed: Exporter) -> tuple[str, str, str]:
    """Measures the time from stopping the exporter until the page shows that its figures are stale."""
    took = []
    with tab(running, observed.port) as shown:
        shown.open("/")
        for _ in range(STOPS):
            shown.becomes("up")
            observed.process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            shown.becomes("lost")
            took.append(time.monotonic() - began)
            observed.process.send_signal(signal.SIGCONT)
    return f"exporter stopped until the page is stale, worst of {STOPS}", f"{max(took):.1f} s", "5 s"


def _cpu(running: Browser, observed: Exporter) -> tuple[str, str, str]:
    """Measures how much more CPU the exporter uses with open pages than without, in turns."""
    more = []
    for _ in range(ROUNDS):
        alone = _used(observed)
        with contextlib.ExitStack() as stack:
            for _ in range(BROWSERS):
                stack.enter_context(tab(running, observed.port)).open("/")
            time.sleep(3)  # every page requests its own history when it opens
            more.append(100 * (_used(observed) - alone))
        time.sleep(1)
    return f"additional CPU of the exporter with {BROWSERS} pages open, 8x8", _spread(more, "% of a core"), "1 %"


def _used(observed: Exporter) -> float:
    pid = observed.process.pid
    began, used = time.monotonic(), cpu_seconds(pid)
    time.sleep(ROUND_SECONDS)
    return (cpu_seconds(pid) - used) / (time.monotonic() - began)


def _frames(running: Browser, observed: Exporter) -> list[tuple[str, str, str]]:
    """Measures the cost of drawing a 64x16 server, as the page opens and with its table of workers visible."""
    rows = []
    with tab(running, observed.port, width=1440, height=900) as shown:
        shown.open("/")
        shown.drawn()
        for where, seen in (("as it opens", "body"), ("at its table", "table[aria-label=Workers]")):
            shown.page.evaluate(f"document.querySelector('{seen}').scrollIntoView()")
            time.sleep(5)
            took = _tasks(running, shown.page)
            over = sum(milliseconds > FRAME_MS for milliseconds in took)
            middle = statistics.median(took)
            rows += [
                (f"64x16, {where}: CPU of the longest task of {len(took)}", f"{max(took):.0f} ms", f"{FRAME_MS} ms"),
                (f"64x16, {where}: tasks over {FRAME_MS} ms; median", f"{over}; {middle:.1f} ms", ""),
            ]
    return rows


def _tasks(running: Browser, page: Page) -> list[float]:
    """Returns the CPU milliseconds of each task of at least 1 ms on the page's main thread: script, layout, paint."""
    running.start_tracing(page=page, categories=["toplevel", "devtools.timeline", "__metadata"])
    time.sleep(DRAWING_SECONDS)
    events = json.loads(running.stop_tracing())["traceEvents"]
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    tasks = [event for event in events if event["name"].endswith("RunTask") and event.get("tdur", 0) >= 1000]
    took = [task["tdur"] / 1000 for task in tasks if names.get((task["pid"], task["tid"])) == "CrRendererMain"]
    assert took, "the trace has no task"
    return took


def _spread(values: list[float], unit: str) -> str:
    digits = 0 if unit == "ms" else 1
    median, least, most = statistics.median(values), min(values), max(values)
    return f"{median:.{digits}f} {unit} ({least:.{digits}f} to {most:.{digits}f})"


if __name__ == "__main__":
    sys.exit(main())
