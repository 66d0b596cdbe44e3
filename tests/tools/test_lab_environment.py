"""The lab's environment has the servers that can be installed, and the reasons for the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.test_environments import FAKE_PYTHON
from tools import prepare
from tools.prepare import COMPILED, Package, why_missing


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose pip only notes what it is asked for."""
    python = tmp_path / ".venv-lab" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "fibonacci.py").touch()
    packages = (Package("gevent"), Package("granian"), Package("bjoern", headers=("no-such.h",), advice="install it"))
    monkeypatch.setattr(prepare, "PACKAGES", packages)
    return tmp_path


def test_what_cannot_be_installed_is_left_out(root: Path) -> None:
    """A failing pip and a missing header are reasons; the rest is installed."""
    (root / ".venv-lab" / "bin" / "refused").write_text("granian")
    prepare.prepare_lab(root)
    environment = prepare.lab_environment(root)
    assert why_missing(environment, "gevent") is None
    assert why_missing(environment, "granian") == "it cannot be installed: ERROR: No matching distribution found"
    assert why_missing(environment, "bjoern") == "this machine lacks no-such.h; install it"


def test_a_later_installation_forgets_the_reason(root: Path) -> None:
    """What was missing is tried again each time."""
    refused = root / ".venv-lab" / "bin" / "refused"
    refused.write_text("granian")
    prepare.prepare_lab(root)
    refused.unlink()
    prepare.prepare_lab(root)
    assert why_missing(prepare.lab_environment(root), "granian") is None


def test_without_cython_the_compiled_module_is_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its step is left out of E1, with the reason."""
    monkeypatch.setattr(prepare, "PACKAGES", (Package("cython"),))
    prepare.prepare_lab(root)
    reason = why_missing(prepare.lab_environment(root), COMPILED)
    assert reason
    assert reason.startswith("Cython cannot compile it: ")
