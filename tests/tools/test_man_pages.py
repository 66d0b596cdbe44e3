"""The manual pages are correct, and formatters accept them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.environments import ROOT
from tools.man_pages import EXAMPLES, pages
from uwsgi_headroom.arguments.commands import make_command_line

PAGES = {path.name: text for path, text in pages()}


def test_each_command_has_a_page_with_its_options() -> None:
    """A new option is in the manual."""
    line = make_command_line()
    for name, parser in line.commands.items():
        text = PAGES[f"uwsgi-headroom-{name}.1"].replace("\\-", "-")
        assert all(option in text for option in parser.options)
        assert f"uwsgi-headroom-{name}" in PAGES["uwsgi-headroom.1"].replace("\\-", "-")


def test_a_build_writes_the_pages_and_needs_no_other_package(tmp_path: Path) -> None:
    """pip builds where there is nothing but setuptools, and an image where there are few folders."""
    (tmp_path / "tools").mkdir()
    copy = shutil.copy(ROOT / "tools" / "man_pages.py", tmp_path / "tools")
    subprocess.run([sys.executable, "-S", copy], check=True, env={"PYTHONPATH": str(ROOT / "exporter")})
    assert {path.name: path.read_text() for path in (tmp_path / "deploy" / "man").iterdir()} == PAGES


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_understood(name: str) -> None:
    """The examples in the manual are valid command lines."""
    for arguments, _ in EXAMPLES[name]:
        words = shlex.split(arguments.partition(">")[0])
        assert make_command_line().parse([name, *words]).command == name


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff: apt-get install groff")
@pytest.mark.parametrize("name", PAGES)
def test_groff_has_no_warning(name: str) -> None:
    """groff formats the page without a warning, and its output has the essential sections."""
    ran = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-z"], input=PAGES[name], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("mandoc"), reason="needs mandoc: apt-get install mandoc")
@pytest.mark.parametrize("name", PAGES)
def test_mandoc_has_no_complaint(name: str) -> None:
    """mandoc has no complaint except about the missing date, which would change every day."""
    ran = subprocess.run(["mandoc", "-T", "lint"], input=PAGES[name], capture_output=True, text=True, check=False)
    complaints = [line for line in ran.stdout.splitlines() if "missing date" not in line]
    assert complaints == []
