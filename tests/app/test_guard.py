"""A guarded block leaves no process and no file, whatever its processes do."""

from __future__ import annotations

import os
import subprocess
import tempfile

import psutil
import pytest

from app import guard
from app.guard import GuardError, guarded


@pytest.mark.parametrize("survives", [True, False], ids=["with its guard", "without its guard"])
def test_processes_and_files_end_with_the_block(survives):
    """This includes processes of another session that ignore SIGTERM, and files anywhere in the TMPDIR."""
    before = os.environ.get("TMPDIR"), tempfile.gettempdir()
    with guarded() as block:
        assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(block.directory)
        with tempfile.NamedTemporaryFile(delete=False) as left:
            left.write(b"left")
        stubborn = [
            subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 60 & sleep 60"], start_new_session=True, env=variables)
            for variables in (None, {**os.environ, "TMPDIR": f"{block.directory}/pip"})
        ]
        children = [child for process in stubborn for child in psutil.Process(process.pid).children()]
        block.check()
        if not survives:
            block.guard.kill()
            block.guard.wait()
            with pytest.raises(GuardError, match="guard has ended"):
                block.check()
    assert [process.wait(60) for process in stubborn] == [-9, -9]
    assert [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE] == []
    assert not block.directory.exists()
    assert (os.environ.get("TMPDIR"), tempfile.gettempdir()) == before
    assert guard.carriers(block.directory) == []


def test_directory_of_a_similar_name_is_another(tmp_path):
    """Processes whose TMPDIR only begins with the same name are not ended."""
    with subprocess.Popen(["sleep", "60"], env={"TMPDIR": f"{tmp_path}/a1"}) as process:
        assert process.pid in guard.carriers(tmp_path / "a1")
        assert process.pid in guard.carriers(tmp_path)
        assert process.pid not in guard.carriers(tmp_path / "a")
        process.kill()
