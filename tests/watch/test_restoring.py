"""An exporter that starts takes what was before it, and the deploys that it did not see, from its history file."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from random import Random

import pytest

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.documents.deploys import Deploy
from uwsgi_headroom.store.writer import HistoryWriter
from uwsgi_headroom.watch.kept_history import restore


class Restarted:
    """A server with 12 requests a second, and the exporter of it, which comes and goes."""

    def __init__(self, path: Path) -> None:
        self.path, self.server, self.random = path, Server(4, 8), Random(1)
        self.now = 0.0
        self.watch: ScriptedWatch | None = None

    def start(self) -> Restarted:
        """Starts an exporter: it reads the server, then its file."""
        watch = ScriptedWatch(writer=HistoryWriter(self.path, 10**9, lambda: EPOCH + self.now))
        watch.now = self.now
        watch.read(self.server.read(self.now))
        asyncio.run(restore(watch.watch, watch.clock))
        self.watch = watch
        return self

    def stop(self) -> Restarted:
        assert self.watch
        assert self.watch.watch.writer
        self.watch.watch.finish_minute()
        self.watch.watch.writer.close(10)
        self.watch = None
        return self

    def run(self, seconds: int, each: float = 0.1) -> Restarted:
        """Lets so many seconds pass; requests take `each` seconds on average."""

        def second(_number: int) -> None:
            for worker_id in range(1, len(self.server.slots) + 1):
                for _ in range(3):
                    self.server.serve(worker_id, 1, self.random.expovariate(1 / each), 0.05)

        if self.watch:
            self.watch.seconds(self.server, seconds, second)
        else:
            for number in range(seconds):
                second(number)
        self.now += seconds
        return self

    def reload(self) -> Restarted:
        self.server.reload(self.now + 0.25)
        return self

    @property
    def deploy(self) -> Deploy | None:
        assert self.watch
        return self.watch.document().deploy

    @property
    def events(self) -> list[str]:
        assert self.watch
        return [event.kind for event in self.watch.watch.recorder.journal.since(0)]


@pytest.mark.parametrize(("each", "status"), [(0.15, "worse"), (0.1, "same")])
def test_a_reload_that_nobody_saw(tmp_path: Path, each: float, status: str) -> None:
    """The exporter was stopped, uWSGI reloaded and the exporter started: it is judged by the minutes of the file, and
    the journal has the reload."""
    restarted = Restarted(tmp_path / "history").start().run(1500).stop().run(60)
    restarted.reload().run(90, each).start().run(1500, each)
    deploy = restarted.deploy
    assert deploy
    assert (deploy.status, deploy.reloads, deploy.time) == (status, 1, pytest.approx(EPOCH + 1560, abs=2))
    assert deploy.before.requests > 12_000
    assert deploy.before.throughput == pytest.approx(12, rel=0.1)
    assert restarted.events.count("reload") == restarted.events.count("deploy_judged") == 1
    restarted.stop().start()
    again = restarted.deploy
    assert again
    assert (again.status, again.time, "reload" in restarted.events) == (
        status,
        pytest.approx(deploy.time, abs=2),
        False,
    )


def test_a_restart_in_the_middle_of_a_judgement(tmp_path: Path) -> None:
    """Requests before the restart count for both sides; two reloads with a restart between them are one chain."""
    restarted = Restarted(tmp_path / "history").start().run(1500).reload().run(400, 0.2).stop().run(20, 0.2)
    restarted.start().run(5, 0.2).reload().run(1200)
    deploy = restarted.deploy
    assert deploy
    assert (deploy.status, deploy.reloads) == ("same", 2)
    assert deploy.before.requests > 12_000


def test_what_is_old_is_no_side(tmp_path: Path) -> None:
    """Minutes that ended an hour before the reload are of another load, and a worker that was replaced is no deploy."""
    restarted = Restarted(tmp_path / "history").start().run(1500).stop()
    restarted.server.respawn(1, restarted.now)
    restarted.run(3600).start()
    assert restarted.deploy is None
    restarted.run(60).reload().run(200, 0.2)
    deploy = restarted.deploy
    assert deploy
    assert deploy.status == "unknown"


@pytest.mark.parametrize("fault", ["damaged", "locked", "empty", "gone", "directory"])
def test_a_file_that_cannot_be_read(tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is known of the time before the exporter, and everything after it is."""
    path = tmp_path / "history"
    restarted = Restarted(path).start().run(900).stop().reload()
    monkeypatch.setattr("uwsgi_headroom.store.file._BUSY_SECONDS", 0.05)
    holder = sqlite3.connect(path)
    if fault == "locked":
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
    else:
        holder.close()
        restarted.path = tmp_path / "other"
        if fault == "directory":
            restarted.path.mkdir()
        elif fault != "gone":
            restarted.path.write_bytes(b"" if fault == "empty" else path.read_bytes()[:5000] + bytes(5000))
    restarted.start().run(700).reload().run(200, 0.2)
    holder.close()
    deploy = restarted.deploy
    assert deploy
    assert (deploy.status, deploy.reloads) == ("worse", 1)
