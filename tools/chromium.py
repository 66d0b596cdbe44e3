"""Finds the browser for the tests of the page. Unlike Prometheus, it cannot be unpacked: it needs many libraries."""

from __future__ import annotations

import shutil

from tools.environments import SetupError

NAMES = ("chromium", "google-chrome", "google-chrome-stable")

ADVICE = (
    "this machine lacks Chromium, which the tests of the page need.\n"
    "On Debian, as root: apt-get install --no-install-recommends chromium\n"
    "On Ubuntu the package is a snap, which cannot access /tmp: put Google Chrome (google-chrome) on PATH"
)


def find_browser() -> str:
    """Returns the path of the browser. Raises `SetupError`, which says what to install, if none is on PATH."""
    browser = next((path for name in NAMES if (path := shutil.which(name))), None)
    if browser is None:
        raise SetupError(ADVICE)
    return browser
