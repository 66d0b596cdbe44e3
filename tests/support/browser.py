"""A real Chromium, with tabs that record every error."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.support.real_uwsgi import wait_until
from tools import prepare
from uwsgi_headroom.web import live_page

# Chromium runs as root in containers, and connects only to the exporter.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Else each tab loads two pages for the browser's own address bar, 1.6 s of CPU. This list replaces Playwright's,
    # which has the others.
    "--disable-features=WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,"
    "LensOverlay,MediaRouter,OptimizationHints,PaintHolding,PreconnectToSearch",
)

# Records violations of the page's policy, and the documents it receives, which tests compare with what it shows.
_WATCH = """
document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective}`));
globalThis.heard = null; // the newest document
globalThis.heardAt = globalThis.drawnAt = null; // when the first one came, and was drawn
globalThis.EventSource = class extends EventSource {
  constructor(url) {
    super(url);
    this.addEventListener("message", (event) => {
      heard = event.data;
      heardAt ??= performance.now();
      requestAnimationFrame(() => setTimeout(() => (drawnAt ??= performance.now())));
    });
  }
};
"""


DRAWN = """((all) => all.length > 0 && all.every((each) => !each.offsetParent || each.querySelector(".uplot")))(
    [...document.querySelectorAll(".lines")])"""
"""Whether every chart over time that can be seen is drawn."""


class Tab(Struct):
    """A tab. problems: errors of the console and of scripts, violations of the policy, requests to other hosts."""

    page: Page
    port: int
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Opens a path, and waits until its panels have figures."""
        self.page.goto(f"http://127.0.0.1:{self.port}{path}")
        self.laid()

    def laid(self) -> None:
        """Waits until every panel is there, with all its rows."""
        self.page.wait_for_selector("main[data-time]:not(:has([aria-busy]))")

    def becomes(self, state: str) -> None:
        """Waits until the page is in this state: up, lost, down, paused. Fails with what it shows instead."""
        try:
            self.page.wait_for_selector(f'main[data-state="{state}"]')
        except PlaywrightTimeoutError as error:
            raise AssertionError(f"not {state}, but: {self.page.content()}\nproblems: {self.problems}") from error

    def until(self, expression: str) -> None:
        """Waits until a JavaScript expression is true. Playwright would evaluate it in the page, which the policy
        forbids. Each poll costs 10 ms of CPU."""
        wait_until(lambda: self.page.evaluate(f"Boolean({expression})"), 60, expression, pause=0.2)

    def drawn(self) -> None:
        """Waits until every chart over time that can be seen is drawn."""
        self.until(DRAWN)

    def text(self, selector: str) -> str:
        """The text of an element."""
        return self.page.inner_text(selector)

    def module(self, name: str) -> str:
        """The address of a module of the page's script, to import it alone: the exporter serves them joined."""
        address = f"http://127.0.0.1:{self.port}/modules/"
        self.page.route(
            f"{address}*", lambda route: route.fulfill(path=live_page.FOLDER / Path(route.request.url).name)
        )
        return address + name

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Runs Chromium during the block. If there is none, fails with a message that says what to install."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=prepare.find_browser(), args=list(ARGUMENTS))
        yield running
        running.close()


@contextlib.contextmanager
def tab(running: Browser, port: int, width: int = 1280, height: int = 800, **options: Any) -> Iterator[Tab]:
    """A tab with a fresh profile, for the exporter on this port. options: options of Playwright's `new_context`."""
    context = running.new_context(viewport={"width": width, "height": height}, **options)
    context.set_default_timeout(30_000)
    context.add_init_script(_WATCH)
    opened = Tab(context.new_page(), port)
    opened.page.on("console", lambda message: opened.problems.extend([message.text] * (message.type == "error")))
    opened.page.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.page.on("dialog", lambda dialog: opened.problems.append(f"dialog: {dialog.message}"))
    opened.page.on(
        "request", lambda request: opened.problems.extend([f"asked {request.url}"] * _elsewhere(request.url))
    )
    try:
        yield opened
    finally:
        opened.page.unroute_all(behavior="ignoreErrors")  # of a request that is answered while the tab closes
        context.close()


@contextlib.contextmanager
def opened(running: Browser, port: int, path: str = "/", **options: Any) -> Iterator[Tab]:
    """A tab with a page that has its figures, and no problem to the end."""
    with tab(running, port, **options) as shown:
        shown.open(path)
        yield shown
        assert shown.problems == []


def _elsewhere(url: str) -> bool:
    return urlsplit(url).hostname not in {"127.0.0.1", None}
