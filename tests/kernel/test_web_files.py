"""Lines of the web server's files that lead to a socket of uWSGI are found by its literal address."""

import os

import pytest

from uwsgi_headroom.kernel import web_files
from uwsgi_headroom.kernel.web_files import find_lines

SOCKETS = (("a.sock", "/run/a.sock", "uwsgi"), (":3031", ":3031", "http"), ("10.0.0.5:80", "10.0.0.5:80", "uwsgi"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(web_files, "_FOLDERS", (str(tmp_path), str(tmp_path / "apache2")))
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
        ("proxy_pass http://db; # unix:/run/a.sock;", []),
        ("root:$6$salt$hash:localhost:3031 ;", []),
    ],
)
def test_a_line(folder, line, found):
    """Only a directive with the whole address, outside of a comment."""
    (folder / "site").write_text(f"server {{\n{line}\n}}\n")
    named = find_lines(SOCKETS, ())
    assert [(each.name, each.directive, each.protocol) for each in named] == found
    assert {(each.path, each.line) for each in named} <= {(str(folder / "site"), 2)}


def test_which_files_are_read(folder, monkeypatch):
    line = "uwsgi_pass unix:/run/a.sock;"
    for name in ("sites-available", "sites-enabled", "a/b"):
        (folder / name).mkdir(parents=True)
    (folder / "sites-available" / "on").write_text(line)
    (folder / "sites-available" / "off").write_text(line)
    (folder / "sites-enabled" / "on").symlink_to("../sites-available/on")
    (folder / "a/b/deep.conf").write_text(line)
    os.mkfifo(folder / "fifo")
    (folder / "large").write_text(line + "\n#" * (web_files._MOST_BYTES // 2))
    (folder / "secret").write_text(line)
    (folder / "secret").chmod(0o600)
    if os.geteuid() == 0:
        os.chown(folder / "secret", 65534, 65534)
    (folder / "dangling").symlink_to("nothing")
    expected = [str(folder / "a/b/deep.conf"), str(folder / "sites-enabled/on")]
    assert sorted(each.path for each in find_lines(SOCKETS, (1, os.getpid(), 10**9))) == expected
    (folder / "hostile").write_text("a {" * (web_files._MOST_BYTES // 3))
    find_lines.cache_clear()
    monkeypatch.setattr(web_files, "_MOST_FILES", 1)
    assert len(find_lines(SOCKETS, ())) <= 1


def test_the_file_of_a_command_line():
    given = web_files._GIVEN.match(b"nginx: master process nginx -c /srv/nginx.conf -p /srv")
    assert given
    assert given[1] == b"/srv/nginx.conf"
    assert not web_files._GIVEN.match(b"python -c /srv/x -c /etc/shadow")
