"""app/uwsgi.ini starts the uWSGI that its comments describe."""

import http.client
import os
import stat
import subprocess

import pytest

from tests.support import real_uwsgi
from tools.environments import ROOT

pytestmark = pytest.mark.integration


def test_four_workers_of_eight_threads_with_stats_for_the_group(served):
    assert [len(worker["cores"]) for worker in served.workers()] == [8, 8, 8, 8]
    assert stat.S_IMODE(served.stats.stat().st_mode) == 0o660


@pytest.mark.parametrize("path", ["/", "/9000", "/pong", "/fib/5", "/mixed?cpu_ms=1&io_ms=1", "/slow?s=0"])
def test_routes_answer(served, path):
    assert served.get(path).status == 200


def test_error_is_counted_as_one_exception(served):
    """The client gets no response, uWSGI counts one exception, and the worker survives."""
    before, workers = served.exceptions(), [worker["pid"] for worker in served.workers()]
    with pytest.raises(http.client.RemoteDisconnected):
        served.get("/error")
    real_uwsgi.wait_until(lambda: served.exceptions() == before + 1, what="the exception to be counted")
    assert [worker["pid"] for worker in served.workers()] == workers


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("listen = 100", "lisen = 100"), "unknown config directive: lisen"),
        (("RUN_DIR", "NOT_SET"), "the-environment-variable-NOT_SET-is-not-set"),
    ],
)
def test_mistakes_are_refused(tmp_path, change, complaint):
    changed = tmp_path / "uwsgi.ini"
    changed.write_text((ROOT / "app" / "uwsgi.ini").read_text().replace(*change))
    ended = subprocess.run(
        [real_uwsgi.uwsgi_binary(), "--ini", changed],
        env={**os.environ, "RUN_DIR": str(tmp_path), "HTTP": f"127.0.0.1:{real_uwsgi.free_port()}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert complaint in ended.stdout + ended.stderr
