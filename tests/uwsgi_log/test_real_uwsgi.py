"""A real uWSGI writes the known messages, and its processes and counters agree with them."""

import os
import re
import signal
import subprocess
from collections import Counter

import pytest

from tests.support.real_uwsgi import uwsgi_binary, wait_until
from tests.uwsgi_log.capture import APP, get, provoke, seen_in, send, serving
from uwsgi_headroom.uwsgi_log.scan import Found, Scanner

pytestmark = pytest.mark.integration


@pytest.fixture
def app(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(APP)
    return path


PROVOKED = """
head_too_large modifier_unavailable body_too_large bad_packet head_aborted empty_request write_error cache_full
killed_by_signal worker_spawned segmentation_fault harakiri listen_queue_full file_touched chain_reload_ended mercy_kill
reload_began worker_buried master_reloaded paused resumed stop_began ended started application_not_loaded
no_application_loaded no_python_application bind_failed queue_above_somaxconn unknown_option plugin_missing
directory_missing failed_in_worker need_app_ends no_master
"""


def test_what_happens_to_a_real_uwsgi_is_in_its_log(tmp_path):
    """Each with its message; that of a failed import has the exception, and the file and line that raised it."""
    found = Counter[Found]()
    for text in provoke(tmp_path):
        found.update(Scanner().scan(text))
    assert {seen.code for seen in found} >= {*PROVOKED.split()}
    assert Found("head_too_large", limit=4096) in found
    assert any(seen.code == "killed_by_signal" and seen.pid and seen.signal == 9 for seen in found)
    assert any(seen.code == "segmentation_fault" and seen.pid for seen in found)
    places = {seen.place for seen in found if seen.code == "application_not_loaded"}
    assert any(re.fullmatch(r"ModuleNotFoundError at .*broken\.py:2", place) for place in places), places


def test_the_place_of_an_exception(app):
    """A traceback has the type of the exception, and the file and line of the application."""
    with serving(app) as server:
        get(server, "/error")

        def places():
            return {seen.place for seen in Scanner().scan(server.log.read_bytes()) if seen.code == "traceback"}

        wait_until(lambda: any("KeyError at " in each and "shop.py:8" in each for each in places()), what="the place")


def test_sigterm_without_die_on_term_reloads_brutally(app):
    log, stats = app.with_name("log"), str(app.with_name("stats"))
    options = ("--master", "--wsgi-file", str(app), "--http-socket", "127.0.0.1:0", "--stats", stats)
    with log.open("wb") as file:
        process = subprocess.Popen([uwsgi_binary(), *options], stdout=file, stderr=file, start_new_session=True)
    try:
        wait_until(lambda: {"started", "worker_spawned"} <= seen_in(log), what="its start")
        # Until it accepts requests, a worker misses the signal of its master.
        wait_until(lambda: b'"accepting":1' in send(stats, b""))
        process.terminate()
        wait_until(lambda: {"brutal_reload", "master_reloaded"} <= seen_in(log), what="its reload")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
