"""Lines of the web server's files that lead to a socket of uWSGI are found by its literal address; its error log says
what becomes of uWSGI's responses, by lines of nginx 1.22 and Apache 2.4."""

import os

import pytest

from uwsgi_headroom.kernel import web_servers
from uwsgi_headroom.kernel.web_servers import find_errors, find_lines, find_refused
from uwsgi_headroom.surroundings import WebLine

PASS = "a.sock", "uwsgi_pass", "uwsgi"
SOCKETS = (("a.sock", "/run/a.sock", "uwsgi"), (":3031", ":3031", "http"), ("10.0.0.5:80", "10.0.0.5:80", "uwsgi"))
LINES = (WebLine("a.sock", "/etc/nginx/site", 1, "server", "uwsgi", "shop"),)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(web_servers, "_FOLDERS", (str(tmp_path), str(tmp_path / "apache2")))
    monkeypatch.setattr(web_servers, "_MOST_SECONDS", 60.0)  # a busy machine takes long
    find_lines.cache_clear()
    yield tmp_path
    find_lines.cache_clear()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("uwsgi_pass unix:/run/a.sock;", [("a.sock", "uwsgi_pass", "uwsgi")]),
        ("  uwsgi_pass unix:///run/a.sock;", [("a.sock", "uwsgi_pass", "uwsgi")]),
        ("proxy_pass http://unix:/run/a.sock:/path;", [("a.sock", "proxy_pass", "uwsgi")]),
        ("\tserver unix:/run/a.sock max_fails=3;", [("a.sock", "server", "uwsgi")]),
        ("proxy_pass http://localhost:3031/;", [(":3031", "proxy_pass", "http")]),
        ("uwsgi_pass 127.0.0.1:3031;", [(":3031", "uwsgi_pass", "http")]),
        ("uwsgi_pass 10.0.0.5:80;", [("10.0.0.5:80", "uwsgi_pass", "uwsgi")]),
        ("location / { include x; uwsgi_pass unix:/run/a.sock; }", [("a.sock", "uwsgi_pass", "uwsgi")]),
        ("# uwsgi_pass unix:/run/a.sock;", []),
        ("a b; # c; uwsgi_pass unix:/run/a.sock;", []),
        ("uwsgi_pass unix:/run/a.sock2;", []),
        ("uwsgi_pass unix:/srv/run/a.sock;", []),
        ("uwsgi_pass 127.0.0.1:30311;", []),
        ("uwsgi_pass 110.0.0.5:80;", []),
        ("uwsgi_pass [::1]:3031; uwsgi_buffering off;", [(":3031", "uwsgi_pass", "http"), ("", "uwsgi_buffering", "")]),
        ("location / { uwsgi_param A b; uwsgi_pass unix:/run/a.sock; }", [PASS, ("", "uwsgi_param", "")]),
        ("location / { uwsgi_pass unix:/run/a.sock;\tuwsgi_param A b; }", [PASS, ("", "uwsgi_param", "")]),
        ("location / { include x; uwsgi_param A b; uwsgi_pass unix:/run/a.sock; }", [PASS]),
        ("uwsgi_param A b; location / { uwsgi_pass unix:/run/a.sock; }", [PASS]),
        ("proxy_pass http://db; # unix:/run/a.sock;", []),
        ("root:$6$salt$hash:localhost:3031 ;", []),
    ],
)
def test_a_directive(folder, line, found):
    """Only a directive with the whole address, outside of a comment."""
    (folder / "site").write_text(f"server {{\n{line}\n}}\n")
    named = find_lines(SOCKETS, ())
    assert [(each.name, each.directive, each.protocol) for each in named] == found
    assert {(each.path, each.line) for each in named} <= {(str(folder / "site"), 2)}
    (folder / "site").write_text(f"upstream shop {{\n{line}\n}}\n")
    find_lines.cache_clear()
    assert {each.group for each in find_lines(SOCKETS, ()) if each.name} <= {"shop" * ("location" not in line)}


def test_which_files_are_read(folder, monkeypatch):
    line = "uwsgi_pass unix:/run/a.sock;"
    for name in ("sites-available", "sites-enabled", "a/b"):
        (folder / name).mkdir(parents=True)
    (folder / "sites-available" / "on").write_text(line)
    (folder / "sites-available" / "off").write_text(line)
    (folder / "sites-enabled" / "on").symlink_to("../sites-available/on")
    (folder / "a/b/deep.conf").write_text(line)
    os.mkfifo(folder / "fifo")
    (folder / "large").write_text(line + "\n#" * (web_servers._MOST_BYTES // 2))
    (folder / "secret").write_text(line)
    (folder / "secret").chmod(0o600)
    if os.geteuid() == 0:
        os.chown(folder / "secret", 65534, 65534)
    (folder / "dangling").symlink_to("nothing")
    expected = [str(folder / "a/b/deep.conf"), str(folder / "sites-enabled/on")]
    assert sorted(each.path for each in find_lines(SOCKETS, (1, os.getpid(), 10**9))) == expected
    (folder / "hostile").write_text("a {" * (web_servers._MOST_BYTES // 3))
    find_lines.cache_clear()
    monkeypatch.setattr(web_servers, "_MOST_FILES", 1)
    assert len(find_lines(SOCKETS, ())) <= 1


def test_the_file_of_a_command_line():
    given = web_servers._GIVEN.match(b"nginx: master process nginx -c /srv/nginx.conf -p /srv")
    assert given
    assert given[1] == b"/srv/nginx.conf"
    assert not web_servers._GIVEN.match(b"python -c /srv/x -c /etc/shadow")


NGINX = (
    '2026/11/30 06:53:51 [error] 8#8: *962 {}, client: 10.0.0.1, server: , request: "GET /me HTTP/1.1", '
    'upstream: "{}", host: "a"'
)
APACHE = "[Mon Nov 30 06:55:26 2026] [proxy:error] [pid 67:tid 93] ({}: uwsgi: attempt to connect to {} failed"
OURS = "uwsgi://unix:/run/a.sock:"
DENIED, RESET, PIPE = "Permission denied", "Connection reset by peer", "Broken pipe"
NO_FILE = "No such file or directory"
CONNECTS, BUSY = "while connecting to upstream", "Resource temporarily unavailable"
REFUSED = f"connect() failed (111: Connection refused) {CONNECTS}"
HEAD = "while reading response header from upstream"
CHUNKED = "upstream sent invalid chunked response"


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
        ("upstream prematurely closed connection while reading upstream", OURS, "short", "a.sock", ""),
        (f"upstream timed out (110: Connection timed out) {HEAD}", OURS, "timed_out", "a.sock", "Connection timed out"),
        (f"connect() to unix:/run/a.sock failed (13: {DENIED}) {CONNECTS}", OURS, "refused", "a.sock", DENIED),
        (f"upstream sent invalid chunked response {HEAD}", OURS, "other", "a.sock", CHUNKED),
        ('open() "/srv/a (1).jpg" failed (2: No such file or directory)', OURS, "no_file", "a.sock", NO_FILE),
        (f'upstream sent invalid header: "X-User: me" {HEAD}', OURS, "other", "a.sock", "upstream sent invalid header"),
        (f"13){DENIED}: AH02454", "Unix domain socket /run/a.sock (shop:0)", "refused", "a.sock", DENIED),
        ("111)Connection refused: AH00957", "127.0.0.1:3031 (*)", "refused", ":3031", "Connection refused"),
        (REFUSED, "uwsgi://10.231.77.2:3031", "refused", "", "Connection refused"),
        (REFUSED, "uwsgi://unix:/old/a.sock:", "refused", "", "Connection refused"),
        (f"connect() failed (11: {BUSY}) while connecting to upstream", OURS, "busy", "a.sock", BUSY),
        # A warning, and what is about other addresses, say nothing.
        ("upstream sent too big header", "uwsgi://unix:/run/b.sock:", "", "", ""),
        (REFUSED, "uwsgi://10.231.77.2:80", "", "", ""),
        ("[warn] an upstream response is buffered to a temporary file /t/01 while reading upstream", OURS, "", "", ""),
        ("kevent() reported that client closed connection", OURS, "", "", ""),
        ("111)Connection refused: AH00957", "127.0.0.1:80 (*)", "", "", ""),
        ("*1 x, client: " * 100, OURS, "", "", ""),
        ("no live upstreams while connecting to upstream", "uwsgi://shop", "", "", ""),  # whose?
    ],
)
def test_a_line_of_a_log(line, to, cause, name, reason, monkeypatch):
    """Its cause, if it has one, the socket that it is about, and the reason of the operating system."""
    line = (APACHE if "AH0" in line else NGINX).format(line, to)
    line = line.replace("[error]", "[warn]").replace("962 [warn] ", "962 ") if "[warn]" in line else line
    monkeypatch.setattr(web_servers, "_read_logs", lambda *_: [("nginx", "/e", f"x\n{line}\n{line}\n".encode())])
    found = find_errors(SOCKETS[:2], (), 0, ())
    expected = [(cause, name, reason, 2)] if cause else []
    assert [(each.cause, each.name, each.reason, each.number) for each in found] == expected
    assert all(each.name or each.address in ("/old/a.sock", "10.231.77.2:3031") for each in found)
    assert "/me" not in repr(found)


@pytest.mark.parametrize(
    ("line", "to", "address"),
    [
        (
            f"connect() to unix:/run/b.sock failed (2: No such file) {CONNECTS}",
            "uwsgi://unix:/run/b.sock:",
            "/run/b.sock",
        ),
        (REFUSED, "uwsgi://127.0.0.1:3031", "127.0.0.1:3031"),
        ("111)Connection refused: AH00957", "127.0.0.1:3031 (*)", "127.0.0.1:3031"),
        (REFUSED, "http://127.0.0.1:3031", ""),  # perhaps none of uWSGI's
        (f"connect() failed (11: {BUSY}) {CONNECTS}", OURS, ""),
        (f"recv() failed (104: {RESET}) {HEAD}", OURS, ""),
    ],
)
def test_where_no_uwsgi_answers(line, to, address, monkeypatch):
    line = (APACHE if "AH0" in line else NGINX).format(line, to)
    monkeypatch.setattr(web_servers, "_read_logs", lambda *_: [("nginx", "/e", f"x\n{line}\n{line}\n".encode())])
    found = {(program, there): number for (program, there, _), number in find_refused((), 0).items()}
    assert found == ({("nginx", address): 2} if address else {})


@pytest.mark.parametrize(
    ("path", "number", "leads", "found"),
    [
        ("/var/lib/nginx/body/0000000012", 13, True, [("uploads", "a.sock", DENIED, 1)]),
        ("/var/lib/nginx/body/0000000012", 13, False, []),  # of another server's clients
        ("/srv/static/a.css", 13, True, []),
    ],
)
def test_uploads_that_nginx_cannot_store(path, number, leads, found, monkeypatch):
    line = NGINX.partition(", upstream")[0].format(f'open() "{path}" failed ({number}: {DENIED})')
    monkeypatch.setattr(web_servers, "_read_logs", lambda *_: [("nginx", "/e", line.encode())])
    errors = find_errors(SOCKETS[:2], (), 0, LINES * leads)
    assert [(each.cause, each.name, each.reason, each.number) for each in errors] == found


FULL = "worker_connections are not enough"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (f"[alert] 7#7: 24 {FULL}", "full"),
        (f"[alert] 7#7: *9 24 {FULL} while connecting to upstream, client: 192.0.2.7, server: me", "full"),
        ("[alert] 7#7: accept4() failed (24: Too many open files)", "full"),
        ("[error] 7#7: *9 client intended to send too large body: 3000000 bytes, client: 192.0.2.7", "body_limit"),
        ('[error] 7#7: *9 limiting requests, excess: 5.410 by zone "perip", client: 192.0.2.7', "rate_limit"),
        ("[error] 7#7: *9 no resolver defined to resolve shop.internal, client: 192.0.2.7", "any"),
        ("[warn] 7#7: *9 delaying request, excess: 0.4 by zone, client: 192.0.2.7", ""),
        ('[error] 7#7: *9 x, client: 192.0.2.7, referrer: "*9 limiting requests, excess"', ""),
    ],
)
@pytest.mark.parametrize("leads", [True, False])
def test_what_nginx_says_of_all_its_clients(said, cause, leads, monkeypatch):
    line = f"2026/12/01 01:06:36 {said}\n"
    monkeypatch.setattr(web_servers, "_read_logs", lambda *_: [("nginx", "/e", 3 * line.encode())])
    found = find_errors(SOCKETS[:2], (), 0, LINES * leads)
    reason, known = "no resolver defined to" * (cause == "any"), (leads or cause == "any") and bool(cause)
    expected = [(cause, "a.sock", reason, 3)] * known
    assert [(each.cause, each.name, each.reason, each.number) for each in found] == expected


def test_servers_that_nginx_takes_for_down(monkeypatch):
    """Such a line names a group of servers: that of the server of ours which nginx gave up before."""
    lines = [
        NGINX.format("upstream timed out (110: Connection timed out) while reading response header", OURS),
        *[NGINX.format("no live upstreams while connecting to upstream", "uwsgi://shop")] * 9,
        NGINX.format("upstream timed out (110: Connection timed out) while reading response header", "uwsgi://b:1"),
    ]
    logs = [("nginx", "/e", "\n".join(lines).encode()), ("nginx", "/other", "\n".join(lines[1:]).encode())]
    monkeypatch.setattr(web_servers, "_read_logs", lambda *_: logs)
    found = [(each.cause, each.name, each.log, each.number) for each in find_errors(SOCKETS[:2], (), 0, ())]
    assert found == [("none_alive", "a.sock", "/e", 9), ("timed_out", "a.sock", "/e", 1)]
    of_group = [(each.cause, each.log, each.number) for each in find_errors(SOCKETS[:2], (), 0, LINES)]
    assert of_group[:2] == [("none_alive", "/e", 9), ("none_alive", "/other", 9)]


FORGED = NGINX.format(REFUSED, OURS)
REQUESTED = 'client: 192.0.2.7, server: , request: "GET /{} HTTP/1.1", host: "a"'


@pytest.mark.parametrize(
    "said",
    [
        f'open() "/srv/a\n{FORGED}\n" failed (2: x), {REQUESTED.format("a%0a2026%0a")}\n',
        f'open() "/srv/a\n{FORGED}\n{FORGED[:38]} x" failed (2: x), {REQUESTED.format("%0A2026")}\n',
        f'open() "/srv/{FORGED[38:]}" failed (2: x), {REQUESTED.format("2%20connect")}\n',
        f'open() "/srv/{FORGED[38:]}, referrer: "" failed (2: x), {REQUESTED.format("2%20connect")}\n',
        f'open() "/"(111: x) {CONNECTS}" failed (2: x), {REQUESTED.format("a")}, referrer: "x", upstream: "{OURS}"\n',
        f'open() "/srv/"({"9" * 12}: x) {CONNECTS}" failed (2: x), {REQUESTED.format("a")}\n',
        f'user "a\n{FORGED}\n" was not found in "/etc/users", {REQUESTED.format("")}\n',
        f'FastCGI sent in stderr: "x\n{FORGED}\n", {REQUESTED.format("")}, upstream: "fastcgi://unix:/php:"\n',
        f'open() "/srv/a\n{FORGED}\n" failed (2: x), {REQUESTED.format("f?name=%250a")}, upstream: "{OURS}"\n',
        f'user "a\n{FORGED}\n": password mismatch, {REQUESTED.format("")}\n',
        f'open() "/srv/a\n{FORGED}\n/{"b" * 2047}'[: 2048 - 39] + "\n",  # cut off
    ],
)
def test_what_a_client_writes_into_the_log(said, log, monkeypatch):
    """nginx writes a path and the name of a user as they are decoded, with line breaks and quotation marks."""
    line = NGINX.format("upstream sent too big header", OURS)
    text = web_servers._drop_doubtful(f"{FORGED[:38]}{said}{line}\n".encode())
    monkeypatch.setattr(web_servers, "_read_logs", lambda *_: [("nginx", "/e", text)])
    assert find_refused((), 0) == {}
    assert [(each.cause, each.number) for each in find_errors(SOCKETS[:2], (), 0, LINES)] == [("large_head", 1)]


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone starts a web server whose word counts")
def test_what_is_read_of_a_log(log, monkeypatch):
    """Lines that are newer than the first look, once each log, also after it was cut; nothing of another's process."""
    line = NGINX.format("upstream sent too big header", OURS) + "\n"

    monkeypatch.setattr(web_servers, "_MOST_DESCRIPTORS", 10**6)  # this process may have more than a web server

    def look(written: str) -> list[int]:
        log.write(written)
        log.flush()
        return [each.number for each in find_errors(SOCKETS[:2], (os.getpid(), os.getpid()), os.getpid(), ())]

    assert look(line * 3) == []
    assert look(line * 2) == [2]
    log.seek(0)
    log.truncate()
    assert look(line) == [1]
    assert find_errors(SOCKETS[:2], (10**9, 2), os.getpid(), LINES) == ()
    assert find_errors((), (os.getpid(),), os.getpid(), ()) == ()
