"""What to type for a missing package fits the way in which the program was installed."""

import configparser
import sys
from pathlib import Path

import pytest

from tools.environments import ROOT
from uwsgi_headroom import extras


def test_requirements_are_those_of_the_extras():
    """Each package with its range, and none is forgotten."""
    setup = configparser.RawConfigParser()
    setup.read(ROOT / "setup.cfg")
    ranges = {
        line.replace(" ", "")
        for extra in ("login", "top")
        for line in setup["options.extras_require"][extra].splitlines()
        if line
    }
    assert set(extras.REQUIREMENTS.values()) == ranges


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """An environment of its own, whose name holds a space."""
    environment = tmp_path / "my tools"
    environment.mkdir()
    monkeypatch.setattr(sys, "prefix", str(environment))
    monkeypatch.setattr(sys, "executable", f"{environment}/bin/python")
    return environment


def test_in_an_environment_of_pip_or_pipx(prefix):
    """The pip of the Python that runs, with every package that is missing."""
    said = extras.describe_missing(["bcrypt", "rich"])
    assert said == f"bcrypt, rich: '{prefix}/bin/python' -m pip install 'bcrypt>=3.2,<6' 'rich>=13.7,<16'"
    (prefix / "pipx_metadata.json").write_text("{}")
    assert extras.describe_missing(["rich"]) == "rich: pipx inject 'my tools' 'rich>=13.7,<16'"


def test_in_a_package_an_image_and_one_file(prefix, monkeypatch):
    """Debian's modules run in an environment beside it; an image takes none."""
    launcher = (ROOT / "deploy/debian/debian/launcher").read_text()
    assert f'"{extras.DEBIAN}"' in launcher
    assert f" {extras.CONTAINER}\n" in (ROOT / "deploy/container/Containerfile").read_text()
    home = Path(extras.__file__).parents[1]
    monkeypatch.setattr(extras, "DEBIAN", home)
    said = extras.describe_missing(["rich"])
    assert "python3 -m venv ~/headroom && ~/headroom/bin/pip install 'rich>=13.7,<16'" in said
    assert f"PYTHONPATH={home} ~/headroom/bin/python -m uwsgi_headroom" in said
    monkeypatch.setattr(extras, "CONTAINER", prefix / "healthcheck.py")
    assert "this image" not in extras.describe_missing(["rich"])
    (prefix / "healthcheck.py").touch()
    assert "cannot be added to this image" in extras.describe_missing(["rich"])
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert "cannot be added to this one-file program" in extras.describe_missing(["rich"])
