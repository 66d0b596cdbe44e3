"""The demo application under real uWSGI, started as `make demo` starts it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import flask
import pytest

from app import demo
from app.loopback import free_port
from app.programs import running
from tests.app.served import Served
from tests.support import real_uwsgi


@pytest.fixture(scope="package")
def served() -> Iterator[Served]:
    """uWSGI with app/uwsgi.ini, on a free port; it sees the Flask of the tests, however it was built."""
    with tempfile.TemporaryDirectory(prefix="headroom-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(flask.__file__).parent.parent))
        directory, port = Path(name), free_port()
        uwsgi = demo.programs(0, port, Path(real_uwsgi.uwsgi_binary()), Path(), directory)[:1]
        with running(uwsgi, directory, cwd=Path("/")):
            yield Served(port, directory / "stats")
