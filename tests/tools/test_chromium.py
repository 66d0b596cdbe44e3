"""The browser for the tests of the page is found, or a message says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import chromium
from tools.environments import SetupError


def _program(directory: Path, name: str) -> Path:
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", ["chromium", "google-chrome"])
def test_it_is_found_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Debian's name and Google's are known."""
    path = _program(tmp_path, name)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert chromium.find_browser() == str(path)


def test_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install; nothing is skipped."""
    _program(tmp_path, "firefox")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="apt-get install --no-install-recommends chromium"):
        chromium.find_browser()
