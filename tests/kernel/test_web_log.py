"""The error log of a web server says what becomes of uWSGI's responses, by lines of nginx 1.22 and Apache 2.4."""

import os

import pytest

from uwsgi_headroom.kernel import web_log
from uwsgi_headroom.kernel.web_log import find_errors

SOCKETS = (("a.sock", "/run/a.sock", "uwsgi"), (":3031", ":3031", "http"))

NGINX = (
    '2026/11/30 06:53:51 [error] 8#8: *962 {}, client: 10.0.0.1, server: , request: "GET /me HTTP/1.1", '
    'upstream: "{}", host: "a"'
)
APACHE = "[Mon Nov 30 06:55:26 2026] [proxy:error] [pid 67:tid 93] ({}: uwsgi: attempt to connect to {} failed"
OURS = "uwsgi://unix:/run/a.sock:"
DENIED, RESET, PIPE = "Permission denied", "Connection reset by peer", "Broken pipe"
CONNECTS = "while connecting to upstream"
REFUSED = f"connect() failed (111: Connection refused) {CONNECTS}"
HEAD = "while reading response header from upstream"


@pytest.fixture
def log(tmp_path):
    """A file that this process has open, as a web server has its log."""
    with open(tmp_path / "error.log", "w") as file:
        yield file


@pytest.mark.parametrize(
    ("line", "to", "cause", "name", "reason"),
    [
        (f"upstream sent too big header {HEAD}", OURS, "large_head", "a.sock", ""),
        (f'open() "/t/u/01" failed (13: {DENIED}) while reading upstream', OURS, "not_buffered", "a.sock", DENIED),
        ('pwritev() "/t/6" has written only 4096 of 8192 while reading upstream', OURS, "not_buffered", "a.sock", ""),
        (f"readv() failed (104: {RESET}) while reading upstream", OURS, "unread", "a.sock", RESET),
        (f"recv() failed (104: {RESET}) {HEAD}", "uwsgi://127.0.0.1:3031", "unread", ":3031", RESET),
        (f"writev() failed (32: {PIPE}) while sending request to upstream", OURS, "unread", "a.sock", PIPE),
        (f"upstream prematurely closed connection {HEAD}", "http://127.0.0.1:3031/x", "closed", ":3031", ""),
        (f"connect() to unix:/run/a.sock failed (13: {DENIED}) {CONNECTS}", OURS, "refused", "a.sock", DENIED),
        (f"13){DENIED}: AH02454", "Unix domain socket /run/a.sock (shop:0)", "refused", "a.sock", DENIED),
        ("111)Connection refused: AH00957", "127.0.0.1:3031 (*)", "refused", ":3031", "Connection refused"),
        (REFUSED, "uwsgi://10.231.77.2:3031", "refused", "", "Connection refused"),
        (REFUSED, "uwsgi://unix:/old/a.sock:", "refused", "", "Connection refused"),
    ],
)
def test_a_line(line, to, cause, name, reason, monkeypatch):
    """Its cause, the socket that it is about, and the reason of the operating system."""
    line = (APACHE if "AH0" in line else NGINX).format(line, to)
    monkeypatch.setattr(web_log, "_read_logs", lambda *_: [("nginx", "/e", f"x\n{line}\n{line}\n".encode())])
    (found,) = find_errors(SOCKETS, (), 0)
    assert (found.cause, found.name, found.reason, found.number) == (cause, name, reason, 2)
    assert found.name or found.address in ("/old/a.sock", "10.231.77.2:3031")
    assert "/me" not in repr(found)


@pytest.mark.parametrize(
    ("line", "to"),
    [
        ("connect() failed (11: Resource temporarily unavailable) while connecting to upstream", OURS),
        ("upstream sent too big header", "uwsgi://unix:/run/b.sock:"),
        (REFUSED, "uwsgi://10.231.77.2:80"),
        ("an upstream response is buffered to a temporary file /t/01 while reading upstream", OURS),
        ("kevent() reported that client closed connection", OURS),
        ("111)Connection refused: AH00957", "127.0.0.1:80 (*)"),
        ("*1 x, client: " * 100, OURS),
    ],
)
def test_lines_of_others(line, to, monkeypatch):
    """A full queue is counted elsewhere; a warning, and what is about other addresses, say nothing."""
    line = (APACHE if "AH0" in line else NGINX).format(line, to)
    monkeypatch.setattr(web_log, "_read_logs", lambda *_: [("nginx", "/e", f"{line}\n".encode())])
    assert find_errors(SOCKETS, (), 0) == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone starts a web server whose word counts")
def test_what_is_read(log):
    """Lines that are newer than the first look, once each log, also after it was cut; nothing of another's process."""
    line = NGINX.format("upstream sent too big header", OURS) + "\n"

    def look(written: str) -> list[int]:
        log.write(written)
        log.flush()
        return [each.number for each in find_errors(SOCKETS, (os.getpid(), os.getpid()), os.getpid())]

    assert look(line * 3) == []
    assert look(line * 2) == [2]
    log.seek(0)
    log.truncate()
    assert look(line) == [1]
    assert find_errors(SOCKETS, (10**9, 2), os.getpid()) == ()
