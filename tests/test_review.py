"""`uwsgi-headroom review` beside real uWSGI: the lines that it advises are written and tried."""

import json
import os
import subprocess
import time

import pytest

from tests.support.other_namespaces import as_nobody
from tests.support.real_uwsgi import uwsgi, uwsgi_binary, wait_until
from uwsgi_headroom import cli
from uwsgi_headroom.discover import review as review_module

BARE = "[uwsgi]\nmodule = app\nhttp-socket = 127.0.0.1:0\nprocesses = 2\nmax-requests = 1000\nharakiri = 90\n"

SECRETS = """[uwsgi]
env = PASSWORD=hunter2
http-socket = hunter2
http = hunter2
chmod-socket = hunter2
chmod-socket = 66
stats = hunter2:1717
set-placeholder = token=hunter2
harakiri = 90 hunter2
cheaper-algo = hunter2
cheaper-step = 3
"""


def review(capsys, *words):
    """The exit status, and the advice on one subject by rule."""
    status = cli.main(["review", "--json", *words])
    (document,) = json.loads(capsys.readouterr().out)
    return status, {advice["rule"]: advice for advice in document["advice"]}


def test_a_uwsgi_that_takes_all_the_time():
    """A uWSGI whose facts do not come in time is no review, and the reason says so."""
    subject = review_module._subject("process 1", os.getpid(), None, time.monotonic() - 1)
    assert "other processes took all the time" in subject.problem


def test_a_relative_name_with_chdir(tmp_path, monkeypatch, capsys):
    (tmp_path / "shop.ini").write_text(f"{BARE}chdir = /\n")
    monkeypatch.chdir(tmp_path)
    advice = review(capsys, "shop.ini")[1]
    assert "max_requests_delta" in advice
    assert advice.keys() == review(capsys, str(tmp_path / "shop.ini"))[1].keys()


@pytest.mark.integration
def test_the_lines_are_what_uwsgi_takes(tmp_path, capsys):
    """With all advised lines in the file, uWSGI starts in strict mode, and the review has no more advice."""
    (tmp_path / "app.py").write_text("def application(environ, start_response):\n    return []\n")
    file = tmp_path / "shop.ini"
    file.write_text(BARE)
    status, before = review(capsys, str(file))
    assert status == 1
    assert {"max_requests_delta", "worker_reload_mercy", "strict", "buffer_size", "listen"} <= before.keys()
    file.write_text(BARE + "".join(f"{line}\n" for advice in before.values() for line in advice["lines"]))
    status, after = review(capsys, str(file))
    assert (status, after) == (0, {})
    log = tmp_path / "log"
    with log.open("wb") as output:
        server = subprocess.Popen([uwsgi_binary(), "--ini", "shop.ini"], cwd=tmp_path, stdout=output, stderr=output)
        try:
            wait_until(lambda: log.read_bytes().count(b"WSGI app 0") == 2, what="the workers")
            # A master that starts may miss a signal.
            wait_until(lambda: server.terminate() or server.poll() is not None, what="its end")
            assert server.returncode == 0
        finally:
            server.kill()
            server.wait()
    assert b"unknown config directive" not in log.read_bytes()


@pytest.mark.integration
def test_a_lifetime_that_uwsgi_refuses(tmp_path, capsys):
    """uWSGI does not start, and names the default that the review goes by; its `--help` said 60 for years."""
    file = tmp_path / "shop.ini"
    file.write_text("[uwsgi]\nmaster = true\nhttp-socket = 127.0.0.1:0\nmax-worker-lifetime = 10\n")
    refused = subprocess.run(
        [uwsgi_binary(), "--ini", file], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert refused.returncode == 1
    assert "invalid min-worker-lifetime value (10), must be lower than max-worker-lifetime (10)" in refused.stderr
    _, advice = review(capsys, str(file))
    assert advice["max_worker_lifetime"]["lines"] == ["min-worker-lifetime = 5"]


@pytest.mark.integration
def test_a_running_uwsgi(capsys):
    """By the address of its stats and by its PID, the review says the same, with what runs as evidence."""
    with uwsgi("--processes", "2", "--threads", "2", "--harakiri", "30") as server:
        status, by_address = review(capsys, server.stats)
        assert status == 1
        assert by_address["harakiri_with_threads"]["seen"] == (
            "2 workers of 2 threads. `harakiri` is set on the command line."
        )
        assert "single_interpreter" not in by_address, "a worker has one application"
        assert review(capsys, str(server.pid)) == (status, by_address)


def test_what_a_review_does_not_show(tmp_path, capsys):
    """No value that may be a secret, and no option of parts that cannot be followed."""
    file = tmp_path / "shop.ini"
    file.write_text(SECRETS)
    for words in (["--json"], []):
        cli.main(["review", *words, str(file)])
        output = capsys.readouterr().out
        assert "chmod-socket" in output
        assert "hunter2" not in output
    file = tmp_path / "shop.ini"
    file.write_text("[uwsgi]\ninclude = missing.ini\nevil-reload-on-rss = 100\n")
    assert cli.main(["review", str(file)]) == 1
    output = capsys.readouterr().out
    assert "1 setting will cause trouble." in output.splitlines()[0]
    assert "Not every option is known" in output


@pytest.mark.parametrize(
    ("name", "problem"),
    [("missing.ini", "missing.ini"), ("app.py", "only ini files can be read"), ("999999999", "is no uWSGI master")],
)
def test_a_subject_that_cannot_be_read(name, problem, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("")
    assert cli.main(["review", name]) != 0
    assert problem in capsys.readouterr().err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_file_that_this_user_may_not_read(tmp_path):
    file = tmp_path / "shop.ini"
    file.write_text(BARE)
    file.chmod(0o600)
    tmp_path.chmod(0o755)
    assert as_nobody(lambda: cli.main(["review", str(file)])) == 1
