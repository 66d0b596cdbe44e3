"""The demo application under real uWSGI, started as `make demo` starts it."""

import tempfile
from pathlib import Path

import flask
import pytest

from app.demo_programs import Stage, uwsgi_program
from app.programs import running
from app.scenes import find_scene
from tests.app.served import Served
from tests.support import real_uwsgi


@pytest.fixture(scope="module")
def served():
    """Runs uWSGI with app/uwsgi.ini on a free port, with the Flask of the tests, however uWSGI was built."""
    with tempfile.TemporaryDirectory(prefix="headroom-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(flask.__file__).parent.parent))
        stage = Stage(find_scene("calm"), Path(name))
        uwsgi = uwsgi_program(stage, Path(real_uwsgi.uwsgi_binary()))
        with running([uwsgi], stage.directory, cwd=Path("/")):
            yield Served(stage.web, stage.stats["demo"])
