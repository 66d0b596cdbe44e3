"""Measures what the page costs: bytes, time to first paint, time to draw, and CPU of the exporter while it is open.

`python3 -m tools.bench.page` takes about four minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urljoin

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
NETWORKS = ((80, 1_000_000, "1000 ms"), (150, 200_000, "2000 ms"))
"""Latency of a request in milliseconds, bytes a second in either direction, and the budget of the first figures."""

_TASK = "ThreadControllerImpl::RunTask"
"""The name of a task in a trace."""

_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


def main() -> int:
    """Measures and prints the table."""
    began = os.getloadavg()[0]
    rows = []
    with browser() as running:
        with _server(8, 8, 24) as observed:
            rows += [_bytes(observed), *_paints(running, observed)]
            rows += [_slow(running, observed, *network) for network in NETWORKS]
            rows += [_stale(running, observed), _cpu(running, observed)]
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
            shown.until("drawnAt")
            heard.append(shown.page.evaluate("drawnAt"))
            shown.until(_PAINTED)
            painted.append(shown.page.evaluate(_PAINTED))
    return [
        (f"first paint (the verdict), empty cache, median of {PAINTS}", _spread(painted, "ms"), "300 ms"),
        ("first figures", _spread(heard, "ms"), ""),
    ]


def _slow(running: Browser, observed: Exporter, latency: int, rate: int, budget: str) -> tuple[str, str, str]:
    """Measures the time to the first figures over a slow network, which Chromium emulates, with an empty cache."""
    drawn = []
    for _ in range(PAINTS):
        with tab(running, observed.port) as shown:
            network = shown.page.context.new_cdp_session(shown.page)
            speed = {"latency": latency, "downloadThroughput": rate, "uploadThroughput": rate}
            network.send("Network.enable")
            network.send("Network.emulateNetworkConditions", {"offline": False, **speed})
            shown.page.goto(f"http://127.0.0.1:{observed.port}/", wait_until="commit")
            shown.until("globalThis.drawnAt")
            drawn.append(shown.page.evaluate("drawnAt"))
    return f"first figures, {latency} ms latency, {rate // 1000} kB/s, empty cache", _spread(drawn, "ms"), budget


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
    """Measures the cost of drawing a 64x16 server: while the page opens, once it is open, at its table of workers."""
    rows = []
    with tab(running, observed.port, width=1440, height=900) as shown:

        def watch() -> None:
            time.sleep(DRAWING_SECONDS)

        def open_page() -> None:
            shown.open("/")
            watch()

        rows += _describe("while it opens", _tasks(running, shown.page, open_page))
        for where, seen in (("once it is open", "body"), ("at its table", "table[aria-label=Workers]")):
            shown.page.evaluate(f"document.querySelector('{seen}').scrollIntoView()")
            time.sleep(5)
            rows += _describe(where, _tasks(running, shown.page, watch))
    return rows


def _describe(where: str, took: list[float]) -> list[tuple[str, str, str]]:
    over = sum(milliseconds > FRAME_MS for milliseconds in took)
    return [
        (f"64x16, {where}: CPU of the longest task of {len(took)}", f"{max(took):.0f} ms", f"{FRAME_MS} ms"),
        (f"64x16, {where}: tasks over {FRAME_MS} ms; median", f"{over}; {statistics.median(took):.1f} ms", ""),
    ]


def _tasks(running: Browser, page: Page, act: Callable[[], None]) -> list[float]:
    """Returns the CPU milliseconds of each task of at least 1 ms on the page's main thread: script, layout, paint."""
    running.start_tracing(page=page, categories=["toplevel", "devtools.timeline", "__metadata"])
    act()
    events = json.loads(running.stop_tracing())["traceEvents"]
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    # Chromium's own panels have a process and such a thread, too: one of them took 63 ms to open.
    here = {event["pid"] for event in events if event["name"] == "FunctionCall" and _is_of(event, page)}
    tasks = [event for event in events if event["name"] == _TASK and event.get("tdur", 0) >= 1000]
    main = [task for task in tasks if names.get((task["pid"], task["tid"])) == "CrRendererMain"]
    took = [task["tdur"] / 1000 for task in main if task["pid"] in here]
    assert took, "the trace has no task"
    return took


def _is_of(event: dict[str, Any], page: Page) -> bool:
    """Whether a function of the page was called."""
    return bool(event["args"].get("data", {}).get("url", "").startswith(urljoin(page.url, "/")))


def _spread(values: list[float], unit: str) -> str:
    digits = 0 if unit == "ms" else 1
    median, least, most = statistics.median(values), min(values), max(values)
    return f"{median:.{digits}f} {unit} ({least:.{digits}f} to {most:.{digits}f})"


if __name__ == "__main__":
    sys.exit(main())
