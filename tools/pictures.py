"""Takes the pictures that documents show: of the page, and of the dashboards.

    make scenarios NAME="psycopg2 and a slow query" && .venv/bin/python3 -m tools.pictures page     # five minutes
    .venv/bin/python3 -m tools.pictures dashboards http://127.0.0.1:3000

`page` writes `app/pictures/page.png`, of a uWSGI that asks a slow PostgreSQL. `dashboards` writes
`dashboards/pictures/*.png` from a Grafana on this machine that needs no login.
"""

import sys
import time
from dataclasses import replace
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import FloatRect

from tests.support.browser import browser, tab
from tests.support.exporter import exporter
from tools.environments import ROOT
from tools.scenarios.rows import find_rows
from tools.scenarios.scenario import Load
from tools.scenarios.servers import loaded, started

PAGE_PICTURE = ROOT / "app" / "pictures" / "page.png"
DASHBOARD_PICTURES = ROOT / "dashboards" / "pictures"
SCALE = 0.75  # a README is displayed narrower than the page

WIDE, TALL = 1440, 1145  # pixels of the page: the first screen, and the workers beside where the time goes

LOADS = (Load(rate=25, io_ms=60), Load(clients=40, io_ms=900, think_ms=100, start=120))
"""Short queries; and after two minutes, long ones that hold every thread."""
SECONDS = 270

WIDTH, TALLEST = 1600, 4000  # pixels of a dashboard: Grafana draws only the visible panels
UP_TO = {"fleet": "How did it change", "server": "How full is it", "affinity": "", "capacity": "Did requests keep"}
"""By dashboard: the row before which its picture ends; empty for the whole page."""

_BOTTOM = """row => {
  const boxes = [...document.querySelectorAll(".react-grid-item")].map(item => [item, item.getBoundingClientRect()]);
  const next = boxes.find(([item]) => row && item.textContent.includes(row));
  return Math.max(...boxes.map(([_, box]) => box.bottom).filter(bottom => !next || bottom <= next[1].top));
}"""

_DRAWN = """() => {
  const panels = [...document.querySelectorAll('[data-testid="data-testid panel content"]')];
  const loading = document.querySelector('[aria-label="Panel loading bar"]');
  return panels.length > 0 && !loading && panels.every(panel => panel.textContent || panel.querySelector("canvas"));
}"""
_PATIENCE = 120_000  # milliseconds
_UNDOCK = "localStorage.setItem('grafana.navigation.docked', 'false')"


def take_page() -> list[str]:
    """Writes the picture; returns a sentence for each error in the browser."""
    (row,) = find_rows(["psycopg2 and a slow query"])
    with (
        started(replace(row.server, processes=4, threads=8)) as place,
        loaded([(load, place.address_for(load)) for load in LOADS]),
        exporter("--stats", f"shop={place.stats}", "--slo", "1s:99%") as watching,
        browser() as running,
        tab(running, watching.port, WIDE, TALL, device_scale_factor=SCALE) as shown,
    ):
        time.sleep(SECONDS)
        shown.open("/?range=300")
        shown.drawn()
        shown.page.screenshot(path=PAGE_PICTURE)
    return shown.problems


def take_dashboards(address: str) -> list[str]:
    """Writes the pictures of the dashboards, of the last minutes; returns a sentence for each error in the browser."""
    with (
        browser() as running,
        tab(running, urlsplit(address).port or 80, width=WIDTH, height=TALLEST, device_scale_factor=SCALE) as shown,
    ):
        shown.page.add_init_script(_UNDOCK)
        for name, row in UP_TO.items():
            begin = "now-90d" if name == "capacity" else "now-15m"
            one = {"var-server": "shop"} if name in ("server", "affinity") else {}
            query = urlencode({"from": begin, "to": "now", **one, "theme": "dark", "kiosk": "1"})
            shown.page.goto(f"{address}/d/uwsgi-headroom-{name}?{query}", timeout=_PATIENCE)
            shown.page.wait_for_function(_DRAWN, timeout=_PATIENCE)
            bottom = shown.page.evaluate(_BOTTOM, row)
            clip: FloatRect = {"x": 0, "y": 0, "width": WIDTH, "height": bottom + 8}
            shown.page.screenshot(path=DASHBOARD_PICTURES / f"{name}.png", clip=clip)
        return shown.problems


def main(kind: str, where: str = "") -> str | None:
    problems = take_page() if kind == "page" else take_dashboards(where)
    return "\n".join(problems) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
