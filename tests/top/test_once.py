"""One snapshot, and its exit status for scripts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support.captured_documents import path
from tests.support.web_server import serving
from tests.test_cli import ended
from uwsgi_headroom.documents.schema import Server, State
from uwsgi_headroom.extras import REQUIREMENTS
from uwsgi_headroom.top.start import exit_status, write_json_file

FIXTURE = path("2.0.31_threads")
NOWHERE = "unix:///nowhere/stats"


@pytest.mark.parametrize(
    ("states", "status"), [(["up"], 0), (["up", "up"], 0), (["down"], 3), (["up", "down"], 3), (["stale"], 3), ([], 3)]
)
def test_the_status_is_3_if_a_server_could_not_be_read(states: list[State], status: int) -> None:
    """As for `check`, one server that is down or stale is enough, and so is an empty list."""
    assert exit_status(states) == status


@pytest.mark.parametrize("how", ["--once", "--json"])
def test_a_server_that_is_down(capsys: pytest.CaptureFixture[str], how: str) -> None:
    """The snapshot says why the server could not be read, and the status is 3."""
    status, out, _ = ended(capsys, "top", how, "--seconds", "2", NOWHERE)
    assert status == 3
    assert "down" in out


@pytest.mark.parametrize("how", ["--once", "--json"])
def test_one_of_two_is_down(capsys: pytest.CaptureFixture[str], how: str) -> None:
    status, out, _ = ended(capsys, "top", how, "--seconds", "2", f"file://{FIXTURE}", NOWHERE)
    assert status == 3
    assert FIXTURE.stem in out


def test_servers_that_were_read(capsys: pytest.CaptureFixture[str]) -> None:
    """The exporter answers, so there is a snapshot; if its server could not be read, the status is 3."""
    status, out, _ = ended(capsys, "top", "--json", "--seconds", "2", f"file://{FIXTURE}")
    assert (status, json.loads(out)["state"]) == (0, "up")
    with serving(f"shop={NOWHERE}") as port:
        status, out, _ = ended(capsys, "top", "--once", f"http://127.0.0.1:{port}")
    assert (status, "down" in out) == (3, True)


def test_a_width_that_is_no_terminals(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """COLUMNS may be any number; the lines stay short."""
    monkeypatch.setenv("COLUMNS", "99999999999")
    status, out, _ = ended(capsys, "top", "--once", "--seconds", "2", f"file://{FIXTURE}")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 500


def test_a_document_in_a_directory_that_was_deleted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notice says why it is not written."""
    _, out, _ = ended(capsys, "top", "--json", "--seconds", "2", f"file://{FIXTURE}")
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    notice = write_json_file(msgspec.json.decode(out, type=Server))
    assert notice.startswith("not written to uwsgi-headroom-")
    assert notice.endswith(": No such file or directory")


def test_without_rich_it_names_the_command_that_installs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command installs into the running environment what setup.cfg requires; no index has the package."""
    import uwsgi_headroom.top as package  # noqa: PLC0415

    for name in [name for name in sys.modules if name.split(".")[0] == "rich"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("uwsgi_headroom.top.")]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(package, name.rpartition(".")[2], raising=False)
    python = "/opt/my tools/bin/python"
    monkeypatch.setattr(sys, "executable", python)
    status, _, err = ended(capsys, "top", "--once", NOWHERE)
    assert status == 1
    assert f"uwsgi-headroom: top needs rich: '{python}' -m pip install '{REQUIREMENTS['rich']}' " in err
