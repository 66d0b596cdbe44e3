"""The exporter keeps a history on disk: over a restart, over a kill, and with a file that it cannot use."""

import json
import time

import pytest

from tests.documents.test_history import minute_at, opened
from tests.documents.test_openapi import validate
from tests.store.test_database import requests
from tests.support.exporter import exporter
from tests.support.real_uwsgi import uwsgi, wait_until
from tests.test_end_to_end import ask

pytestmark = pytest.mark.integration


def test_charts_go_on_after_a_restart(tmp_path):
    """What an earlier exporter has written is in the charts; SIGTERM writes the minute that has not ended."""
    path = tmp_path / "history.sqlite"
    now = time.time()
    database = opened(path)
    database.write([minute_at(int(now) // 60 - number, 600) for number in range(2 * 1440, 1, -1)], now)
    database.close()
    with uwsgi("--processes", "2") as server:
        with exporter("--stats", f"shop={server.stats}", "--history", str(path)) as running:

            def document(what: str) -> dict[str, object]:
                return dict(json.loads(running.get(f"/api/v2/servers/shop{what}")[1]))

            wait_until(lambda: document("")["kept_history"]["since"], what="the reach of the file")
            whole = document("")
            validate(whole, "ServerDocument")
            assert whole["kept_history"] == {"since": (int(now) // 60 - 2880) * 60, "problem": None}
            hour, day = document("/history?seconds=3600"), document("/history?seconds=86400&points=288")
            validate(day, "HistoryDocument")
            assert hour["step"] == 60
            assert 55 <= len(hour["time"]) <= 60
            assert day["step"] == 300
            assert 284 <= len(day["time"]) <= 288
            assert set(day["throughput"]) == {10.0}
            assert running.get("/api/v2/servers/shop/history?seconds=1e9")[0] == 400
            series = running.scrape()
            assert series["uwsgi_exporter_history_written"] == 1
            assert series["uwsgi_exporter_history_size_bytes"] > 100_000
            ask(server, "/", times=20)
            wait_until(lambda: document("")["flow"] is not None, what="figures")
            time.sleep(1.0)
            running.process.terminate()
            running.process.wait(60)
        with exporter("--stats", f"shop={server.stats}", "--history", str(path)) as running:
            wait_until(lambda: document("")["kept_history"]["since"], what="the reach of the file")
            events = document("/journal?seconds=90000")["events"]
            assert [event["kind"] for event in events].count("exporter_started") == 2
            running.kill()
        assert sum(count for _, count in requests(path, 60)[-2:]) >= 20


def test_a_file_that_cannot_be_used(tmp_path):
    """The exporter samples and serves; the log, the API and a metric say that nothing is kept."""
    path = tmp_path / "history.sqlite"
    path.write_text("not a database " * 1000)
    with uwsgi("--processes", "2") as server, exporter("--stats", str(server.stats), "--history", str(path)) as running:
        wait_until(lambda: running.value("uwsgi_exporter_history_written") == 0, what="the metric")
        assert "is not a history file" in running.log.read_text()
        (name,) = [each["name"] for each in json.loads(running.get("/api/v2/servers")[1])["servers"]]
        kept = json.loads(running.get(f"/api/v2/servers/{name}")[1])["kept_history"]
        assert kept["since"] is None
        assert "is not a history file" in kept["problem"]
        assert running.get(f"/api/v2/servers/{name}/history?seconds=3600&points=60")[0] == 200
        status, body = running.get(f"/api/v2/servers/{name}/history?seconds=86400")
        assert (status, "is not a history file" in body) == (503, True)
        assert running.value("uwsgi_up") == 1


def test_without_a_file(tmp_path):
    """The last hour is all there is, and nothing is written."""
    with uwsgi("--processes", "2") as server, exporter("--stats", f"shop={server.stats}") as running:
        assert json.loads(running.get("/api/v2/servers/shop")[1])["kept_history"] is None
        status, body = running.get("/api/v2/servers/shop/history?seconds=7200")
        assert (status, "3600" in body) == (400, True)
        assert not [name for name in running.scrape() if "history" in name]
    assert list(tmp_path.iterdir()) == []
