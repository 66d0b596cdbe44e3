"""Imports of the package point one way: no core module imports an interface, and kernel facts import no reading."""

from __future__ import annotations

import subprocess
import sys

import pytest

FACES = ("prometheus_client", "starlette", "uvicorn", "uwsgi_headroom.metrics", "uwsgi_headroom.web")

SETTABLE = tuple(f"uwsgi_headroom.{name}" for name in ("analysis", "documents", "history", "kernel", "stats", "watch"))


def _imported(module: str) -> list[str]:
    """The modules that are loaded after a new Python has imported this one."""
    program = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "module",
    [
        "watch.fleet",
        "analysis.findings",
        "documents.build",
        "top.feeds.local",
        "check.judge",
        "check.command",
        "top.start",
    ],
)
def test_no_face_is_imported(module: str) -> None:
    """Modules that read, judge and describe servers work without Prometheus' client and the web server."""
    imported = _imported(f"uwsgi_headroom.{module}")
    assert f"uwsgi_headroom.{module}" in imported
    assert [name for name in imported if name.startswith(FACES)] == []


@pytest.mark.parametrize("module", ["defaults", "flags", "model", "names", "precedence", "values", "yaml_file"])
def test_settings_know_nothing_that_is_set(module: str) -> None:
    """Modules that watch and describe servers import defaults from the settings, not the other way round."""
    imported = _imported(f"uwsgi_headroom.config.{module}")
    assert f"uwsgi_headroom.config.{module}" in imported
    assert [name for name in imported if name.startswith(SETTABLE)] == []


def test_without_a_history_file_nothing_loads_its_library() -> None:
    """The exporter keeps its history in memory by default, and loads no database."""
    imported = _imported("uwsgi_headroom.serve")
    assert "uwsgi_headroom.watch.fleet" in imported
    assert "sqlite3" not in imported


def test_the_kernels_facts_need_no_reading() -> None:
    """A reading is built from kernel facts, not the other way round."""
    imported = _imported("uwsgi_headroom.kernel.host")
    assert "uwsgi_headroom.kernel.facts" in imported
    assert "uwsgi_headroom.reading" not in imported
