"""The demo application under real uWSGI, started as `make demo` starts it."""

import contextlib
import http.client
import json
import socket
import tempfile
from pathlib import Path

import flask
import pytest
from msgspec import Struct

from app.demo_programs import Stage, uwsgi_program
from app.programs import running
from app.scenes import find_scene
from tests.support import real_uwsgi


class Served(Struct, frozen=True):
    """An application that listens on `port` of 127.0.0.1, and the stats socket of its uWSGI."""

    port: int
    stats: Path

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse()

    def workers(self):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.stats))
            return json.loads(b"".join(iter(lambda: client.recv(1 << 18), b"")))["workers"]

    def exceptions(self):
        return sum(worker["exceptions"] for worker in self.workers())

    def count(self, key):
        """The sum of a figure over all threads of all workers, which is exact, unlike the worker's own figure."""
        return sum(core[key] for worker in self.workers() for core in worker["cores"])


@pytest.fixture(scope="module")
def served():
    """Runs uWSGI with app/uwsgi.ini on a free port, with the Flask of the tests, however uWSGI was built."""
    with tempfile.TemporaryDirectory(prefix="headroom-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(flask.__file__).parent.parent))
        stage = Stage(find_scene("calm"), Path(name))
        uwsgi = uwsgi_program(stage, Path(real_uwsgi.uwsgi_binary()))
        with running([uwsgi], stage.directory, cwd=Path("/")):
            yield Served(stage.web, stage.stats["demo"])
