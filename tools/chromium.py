"""The browser that the tests of the page drive. Unlike Prometheus it cannot be unpacked: its libraries are dozens."""

from __future__ import annotations

import shutil

from tools.environments import SetupError

NAMES = ("chromium", "google-chrome", "google-chrome-stable")

ADVICE = (
    "this machine lacks Chromium, for the tests of the page.\n"
    "On Debian, as root: apt-get install --no-install-recommends chromium\n"
    "On Ubuntu its package is a snap, which sees no /tmp: put Google Chrome (google-chrome) on PATH"
)


def find_browser() -> str:
    """Where it is on PATH. Raises `SetupError`, which says what to install, where it is not."""
    browser = next((path for name in NAMES if (path := shutil.which(name))), None)
    if browser is None:
        raise SetupError(ADVICE)
    return browser
