"""Generated texts: manual pages, tables, the example of a report, the list of commands."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys

import pytest

from tests.support import real_uwsgi
from tools import commands
from tools.environments import ROOT
from tools.generate import EXAMPLE
from tools.man_pages import EXAMPLES, pages
from tools.tables import findings_page, list_rows, show
from uwsgi_headroom.analysis.findings import RUNBOOKS
from uwsgi_headroom.arguments.commands import make_command_line

PAGES = {path.name: text for path, text in pages()}


def test_generated_texts_are_complete():
    line = make_command_line()
    for name, parser in line.commands.items():
        text = PAGES[f"uwsgi-headroom-{name}.1"].replace("\\-", "-").replace("[no-]", "")
        assert all(option in text for flag in parser.flags for option in flag.names)
        assert f"uwsgi-headroom-{name}" in PAGES["uwsgi-headroom.1"].replace("\\-", "-")
    assert {row.code for row in list_rows()} >= RUNBOOKS.keys()
    page = "\n".join(findings_page())
    assert all(f"### {row.code}\n" in page for row in list_rows())
    template = "{n:Worker} {n:is|are} [info? slow][critical? down][why? , because of {why}]."
    assert show(template, "critical") == "Workers … are down[, because of …]."
    text = EXAMPLE.read_text()
    assert len(text) < 30_000
    assert "> SYNTHETIC EXAMPLE: these services do not exist" in text
    assert re.search(r"\*\*checkout needs a plan\.\*\*", text)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_understood(name):
    for arguments, _ in EXAMPLES[name]:
        words = shlex.split(arguments.partition(">")[0])
        assert make_command_line().parse([name, *words]).command == name


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff: apt-get install groff")
@pytest.mark.parametrize("name", PAGES)
def test_groff_has_no_warning(name):
    """groff formats the page without a warning, and its output has the essential sections."""
    ran = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-z"], input=PAGES[name], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("mandoc"), reason="needs mandoc: apt-get install mandoc")
@pytest.mark.parametrize("name", PAGES)
def test_mandoc_has_no_complaint(name):
    """mandoc has no complaint except about the missing date, which would change every day."""
    ran = subprocess.run(["mandoc", "-T", "lint"], input=PAGES[name], capture_output=True, text=True, check=False)
    complaints = [line for line in ran.stdout.splitlines() if "missing date" not in line]
    assert complaints == []


def test_a_command_says_only_why_it_failed(capfd):
    commands.run_command(["sh", "-c", "echo chatter; echo more >&2"])
    assert capfd.readouterr() == ("", "")
    with pytest.raises(commands.CommandError) as failure:
        commands.run_command(["sh", "-c", "seq 100; echo no such thing >&2; exit 3"])
    assert failure.value.last_line == "no such thing"
    lines = str(failure.value).splitlines()
    assert lines[0].startswith("this command failed: sh -c")
    assert len(lines) == 1 + commands.TAIL


def test_interrupt_ends_what_the_command_started(tmp_path, monkeypatch):
    """Ctrl-C during an installation ends the compilers that pip has started, too, and removes their files."""
    pid, temporary = tmp_path / "pid", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))

    def interrupt(*_):
        if pid.exists() and pid.read_text():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            commands.run_command(["sh", "-c", f"echo > $TMPDIR/left; sleep 60 & echo $! > {pid}; wait"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    real_uwsgi.wait_until(lambda: not _runs(int(pid.read_text())), 30, "the grandchild to end")
    assert list(temporary.iterdir()) == []


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as text:
            return text.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_build_writes_the_manual_pages_and_needs_no_other_package(tmp_path):
    """pip builds where there is nothing but setuptools, and an image where there are few folders."""
    (tmp_path / "tools").mkdir()
    copy = shutil.copy(ROOT / "tools" / "man_pages.py", tmp_path / "tools")
    subprocess.run([sys.executable, "-S", copy], check=True, env={"PYTHONPATH": str(ROOT / "exporter")})
    assert {path.name: path.read_text() for path in (tmp_path / "deploy" / "man").iterdir()} == PAGES
    for name in ("tools/release", "build/lib/removed_module", "path/setuptools"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "path" / "setuptools" / "build_meta.py").touch()  # an environment of Python 3.12 has none
    backend = shutil.copy(ROOT / "tools" / "release" / "backend.py", tmp_path / "tools" / "release")
    subprocess.run([sys.executable, backend], check=True, env={"PYTHONPATH": f"{ROOT / 'exporter'}:{tmp_path}/path"})
    assert not (tmp_path / "build" / "lib").exists()
