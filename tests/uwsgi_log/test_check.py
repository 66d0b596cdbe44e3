"""`check --log` names causes that only uWSGI's log has, and proves them by uWSGI's counters and processes: no line that
a healthy application prints because its users type it makes a verdict critical."""

import contextlib
import itertools
import json
import os
import re
import signal
import threading
from urllib.parse import quote_plus

import pytest

from tests.support.exporter import exporter, run
from tests.support.real_uwsgi import bare, wait_until
from tests.uwsgi_log.capture import APP, get, packet, send, serving, worker_pids
from uwsgi_headroom.stats import decode
from uwsgi_headroom.uwsgi_log.scan import Scanner

pytestmark = pytest.mark.integration


@pytest.fixture
def app(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(APP)
    return path


@contextlib.contextmanager
def repeated(*acts, pause=0.05):
    stop = threading.Event()

    def work():
        while not stop.wait(pause):
            for act in acts:
                act()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def end_first(server, number):
    with contextlib.suppress(ProcessLookupError, IndexError):
        os.kill(worker_pids(server)[0], number)


@contextlib.contextmanager
def broken(folder, *options):
    """A uWSGI of two workers whose application is `broken.py` in this folder, which cannot be imported."""
    app = ("--wsgi-file", str(folder / "broken.py"), "--socket", "{directory}/app", "--stats", "{directory}/stats")
    with bare("--master", "--processes", "2", *app, *options) as server:
        yield server


def check(server, *options, seconds=8):
    ran = run("check", server.stats, "--seconds", str(seconds), "--format", "json", *options)
    assert not ran.stderr, ran.stderr
    return json.loads(ran.stdout)


def findings(document):
    return {finding["code"]: finding for finding in document["findings"]}


def test_heads_above_buffer_size_are_a_warning(app):
    """uWSGI counts none of these requests, so nothing proves the lines; the option is named."""
    large = f"Cookie: token=secret{'x' * 5000}\r\n"
    with serving(app) as server, repeated(lambda: get(server, "/"), lambda: get(server, "/", large)):
        document = check(server, seconds=16)  # the log is found some time after the first sample
    finding = findings(document)["requests_rejected"]
    assert finding["severity"] == "warning"
    assert finding["title"] == "uWSGI's log says that uWSGI refuses requests with headers larger than `buffer-size`."
    assert finding["change"].startswith("Raise `buffer-size` (4096)")
    assert any(f"{percent} % of all" in finding["evidence"] for percent in range(45, 56)), finding
    assert "secret" not in json.dumps(document)


@pytest.mark.slow
def test_errors_of_uwsgi_itself_are_proven(tmp_path):
    """The line of a request without an application has the number of all requests."""
    (tmp_path / "broken.py").write_text("import missing_module\n")
    get_it = packet(REQUEST_METHOD="GET", PATH_INFO="/", SERVER_PROTOCOL="HTTP/1.1")
    with broken(tmp_path) as server, repeated(lambda: send(server.socket, get_it)):
        document = check(server)
    errors = findings(document)["server_errors"]
    assert (errors["severity"], "many responses" in errors["title"]) == ("critical", True)
    assert "`app: -1`" in errors["change"]


@pytest.mark.slow
def test_the_signal_that_ends_workers_is_named(app):
    with (
        serving(app, "--processes", "4") as server,
        repeated(lambda: get(server, "/")),
        repeated(lambda: end_first(server, signal.SIGSEGV), pause=1.5),
    ):
        document = check(server, seconds=12)
    assert document["status"] != "ok"
    assert "signal 11 (SIGSEGV)" in document["verdict"]
    assert "Native code crashed" in document["findings"][0]["change"]
    events = [event for event in document["events"] if event["kind"] == "log_message"]
    assert any("crashed with signal 11 (SIGSEGV)" in event["title"] for event in events)
    assert any(event["workers"] and event["evidence"].startswith("Process ") for event in events)


def test_the_line_of_an_exception_is_named(app):
    """With the name of its error number, as the first thing to do, and none of its text."""
    app.write_text("def application(environ, start_response):\n    raise OSError(28, 'secret')\n")
    with serving(app) as server, repeated(lambda: get(server, "/")):
        document = check(server)
    (finding,) = (each for each in document["findings"] if each["code"] == "exceptions")
    assert "OSError ENOSPC at " in finding["change"]
    assert "shop.py:2" in finding["change"]
    assert "secret" not in json.dumps(document)


def test_uploads_too_slow_for_socket_timeout_are_no_clients_that_left(app):
    head = b"POST / HTTP/1.0\r\nContent-Length: 100\r\n\r\n"
    app.write_text(
        "def application(environ, start_response):\n    environ['wsgi.input'].read()\n"
        "    start_response('200 OK', [])\n    return [b'ok']\n"
    )
    with (
        serving(app, "--socket-timeout", "1", "--processes", "2") as server,
        repeated(lambda: send(("127.0.0.1", server.http), head)),
    ):
        document = check(server)
    first = document["findings"][0]
    assert (first["code"], first["severity"]) == ("clients_left", "warning")
    assert first["title"].startswith("Clients send their request bodies too slowly")


def test_a_failed_import_is_named(tmp_path):
    (tmp_path / "broken.py").write_text("import os\nimport missing_module\n")
    with broken(tmp_path, "--lazy-apps") as server, repeated(lambda: end_first(server, signal.SIGKILL), pause=2):
        document = check(server)
    finding = findings(document)["no_application"]
    assert "ModuleNotFoundError at " in finding["title"]
    assert "broken.py:2" in finding["title"]


def test_why_uwsgi_does_not_start_is_said(tmp_path):
    """By the log of the last start, whether that was before the look or during it."""
    log = tmp_path / "log"
    old = "*** Starting uWSGI 2.0.31\nchdir(): No such file or directory [core/uwsgi.c line 2637]\n"
    new = "*** Starting uWSGI 2.0.31\nModuleNotFoundError: No module named 'encodings'\n"
    for text, said in ((old + new, "Python does not find its standard library"), (old, "cannot enter the directory")):
        log.write_text(text)
        ran = run("check", str(tmp_path / "stats"), "--log", str(log), "--seconds", "2")
        assert said in " ".join(ran.stdout.split())
        assert "DO Correct `" in " ".join(ran.stdout.split())
    log.write_text("*** Starting uWSGI 2.0.31\nspawned uWSGI worker 1 (pid: 7, cores: 1)\n")
    assert "log" not in run("check", str(tmp_path / "stats"), "--log", str(log), "--seconds", "2").stdout


def test_the_way_to_read_the_log_is_printed(app):
    with serving(app, "--processes", "2") as server, repeated(lambda: end_first(server, signal.SIGKILL), pause=1.0):
        ran = run("check", server.stats, "--seconds", "6", "--all", "--no-log")
        found = run("discover").stdout
    assert f"--uwsgi-log stats={server.directory}/log" in " ".join(ran.stdout.split())
    assert re.search(rf"--uwsgi-log \S+={re.escape(str(server.log))}\b", found)


def test_the_path_of_a_log_may_be_relative(app):
    """Without a name, if it has a slash: a word alone may be a mistaken name."""
    with serving(app) as server:
        ran = run("check", server.stats, "--seconds", "2", "--log", os.path.relpath(server.log), "--format", "json")
    assert "log" not in {each["what"] for each in json.loads(ran.stdout)["unknown"]}


def test_the_exporter_counts_messages(app):
    with serving(app) as server, exporter("--stats", f"shop={server.stats}", "--log", f"shop={server.log}") as web:
        wait_until(lambda: 'uwsgi_log_up{server="shop"} 1' in web.get()[1])
        assert "uwsgi_log_messages_total{" not in web.get()[1]
        get(server, "/", f"Cookie: {'x' * 5000}\r\n")
        wanted = 'uwsgi_log_messages_total{message="head_too_large",server="shop"} 1'
        wait_until(lambda: wanted in web.get()[1])
        assert 'uwsgi_events_total{kind="log_message",server="shop"} 1' in web.get()[1]


def test_without_a_log_nothing_is_read_or_exported(app):
    with serving(app) as server, exporter("--stats", f"shop={server.stats}") as web:
        wait_until(lambda: 'uwsgi_up{server="shop"' in web.get()[1])
        metrics = web.get()[1]
        assert "uwsgi_log_" not in metrics
        assert "log_message" not in metrics


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--log", "other=/tmp/x"), "no server is named 'other'"), (("--log", "shop"), "write NAME=PATH")],
)
def test_a_log_of_no_server_is_refused(app, options, words):
    with serving(app) as server:
        ran = run("check", f"shop={server.stats}", "--seconds", "2", *options)
    assert ran.returncode == 3
    assert words in ran.stderr


def test_a_log_that_cannot_be_read_is_said(app):
    with serving(app) as server:
        server.log.rename(server.log.with_name("moved"))
        document = check(server, "--log", str(server.log), seconds=2)
    (unknown,) = (each for each in document["unknown"] if each["what"] == "log")
    assert "there is no file of that name" in unknown["why"]


PRINTS = """
import sys
from urllib.parse import unquote_plus

def application(environ, start_response):
    text = unquote_plus(environ["QUERY_STRING"])
    if text:
        print(text, file=sys.stderr, flush=True)
    start_response("200 OK", [])
    return [b"ok"]
"""

FORGED = {
    "status_5xx": "[pid: {pid}|app: 0|req: {number}/{number}] 10.0.0.7 () {{1 vars in 1 bytes}} [x] GET / => generated "
    "1 bytes in 1 msecs (HTTP/1.1 500) 1 headers in 1 bytes (1 switches on core 0)",
    "modifier_unavailable": "-- unavailable modifier requested: 14 --",
    "empty_request": "Empty python request. skip.",
    "body_too_large": "Invalid (too big) CONTENT_LENGTH. skip.",
    "head_too_large": "invalid HTTP request size (max 4096)...skip",
    "no_python_application": "--- no python application found, check your startup logs for errors ---",
    "killed_by_signal": "DAMN ! worker 1 (pid: {pid}) died, killed by signal 11 :( trying respawn ...",
    "harakiri": "*** HARAKIRI ON WORKER 1 (pid: {pid}, try: 1, graceful: no) ***",
    "listen_queue_full": '*** uWSGI listen queue of socket "x" (fd: 3) full !!! (100/100) ***',
    "mercy_kill": "worker 1 (pid: {pid}) is taking too much time to die...NO MERCY !!!",
}


@pytest.mark.parametrize("logs_requests", [True, False])
def test_what_users_type_is_not_critical(logs_requests, tmp_path):
    """Lines of uWSGI's as search text, 20 times a second, by one who knows the PIDs and the number of calls."""
    (tmp_path / "shop.py").write_text(PRINTS)
    options = ("--processes", "2", *(() if logs_requests else ("--disable-logging",)))
    with serving(tmp_path / "shop.py", *options) as server:
        pids = itertools.cycle(worker_pids(server))
        for _ in range(60):
            get(server, "/")

        def type_it():
            text = "\n".join(FORGED.values()).format(pid=next(pids), number=calls(server))
            get(server, f"/?{quote_plus(text)}")

        with repeated(type_it):
            document = check(server, seconds=8)
        forged = Scanner().scan(server.log.read_bytes())
        assert {seen.code for seen in forged} >= set(FORGED)
    assert document["status"] != "critical", document["verdict"]
    by_code = findings(document)
    assert by_code.keys() >= {"requests_rejected", "log_failure", "server_errors"}
    for code in ("requests_rejected", "log_failure", "server_errors"):
        assert by_code[code]["title"].startswith("uWSGI's log says that"), by_code[code]
        assert "The only evidence is uWSGI's log" in by_code[code]["evidence"]


def calls(server):
    snapshot = decode(server.document())
    return snapshot.workers[0].apps[0].requests or 0
