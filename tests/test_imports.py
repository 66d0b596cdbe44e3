"""Imports of the package point one way: no core module imports an interface, kernel facts import no reading, and the
analysis imports nothing that reads a server."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.environments import ROOT
from uwsgi_headroom import analysis

FACES = ("prometheus_client", "starlette", "httptools", "uwsgi_headroom.metrics", "uwsgi_headroom.web")

COLLECTORS = tuple(f"uwsgi_headroom.{name}" for name in ("kernel", "reading", "stats"))

ANALYSIS = Path(analysis.__file__).parent

SETTABLE = tuple(f"uwsgi_headroom.{name}" for name in ("analysis", "documents", "history", "kernel", "stats", "watch"))


def _imported(module: str) -> list[str]:
    """The modules that are loaded after a new Python has imported this one."""
    program = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _named(path: Path) -> list[str]:
    """What a file imports, also inside its functions and for its types."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return [f"{getattr(node, 'module', '')}.{alias.name}".lstrip(".") for node in imports for alias in node.names]


@pytest.mark.parametrize(
    "module",
    [
        "watch.fleet",
        "analysis.findings",
        "documents.build",
        "top.feeds.local",
        "check.watching",
        "check.command",
        "top.start",
    ],
)
def test_no_face_is_imported(module: str) -> None:
    """Modules that read, judge and describe servers work without Prometheus' client and the web server."""
    imported = _imported(f"uwsgi_headroom.{module}")
    assert f"uwsgi_headroom.{module}" in imported
    assert [name for name in imported if name.startswith(FACES)] == []


@pytest.mark.parametrize("module", ["defaults", "parsers", "precedence", "servers", "settings", "slo", "yaml_file"])
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


@pytest.mark.parametrize("module", ["findings", "verdict", "what_if.measured"])
def test_the_analysis_loads_no_collector(module: str) -> None:
    """What judges a server knows it from a record and a window, whoever made them."""
    imported = _imported(f"uwsgi_headroom.analysis.{module}")
    assert "uwsgi_headroom.record" in imported
    assert [name for name in imported if name.startswith(COLLECTORS)] == []


@pytest.mark.parametrize("path", sorted(ANALYSIS.rglob("*.py")), ids=lambda path: str(path.relative_to(ANALYSIS)))
def test_no_module_of_the_analysis_names_a_collector(path: Path) -> None:
    """Nor does it name one for its types, or import one inside a function."""
    assert [name for name in _named(path) if name.startswith(COLLECTORS)] == []


@pytest.mark.parametrize("folder", ["alerts", "app", "dashboards", "deploy", "exporter", "tools"])
def test_nothing_but_tests_imports_tests(folder: str) -> None:
    """What tests share with tools and with the demo is outside `tests/`."""
    modules = list((ROOT / folder).rglob("*.py"))
    assert {path: name for path in modules for name in _named(path) if name.split(".")[0] == "tests"} == {}
    assert [path for path in modules if re.search(r"\btests\.support\b", path.read_text())] == []


def test_a_record_needs_nothing() -> None:
    """Those who fill a record and those who judge it import it, so it imports no other part of the package."""
    own = [name for name in _imported("uwsgi_headroom.record") if name.startswith("uwsgi_headroom.")]
    assert "uwsgi_headroom.record" in own
    assert [name for name in own if not name.startswith("uwsgi_headroom.record")] == []
