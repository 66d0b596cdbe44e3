"""Valid stats addresses and their types, and the advice in the errors for invalid ones, and for what is no server."""

import errno
import os
import socket
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.source import test_read
from tests.source.test_read import DOCUMENT, PATIENCE, failure, read, reason
from tests.support.other_namespaces import as_nobody, as_root
from tests.support.real_uwsgi import free_port
from uwsgi_headroom.errors import AddressError, SourceError
from uwsgi_headroom.source.address import File, Http, ProcessOfApp, SocketOfApp, Tcp, Unix, parse_address

_nothing_stays_open = test_read._nothing_stays_open


def _without_query(address):
    """The address that the printed form stands for: a query may hold a secret and is printed as `?...`."""
    if isinstance(address, Http) and "?" in address.target:
        return replace(address, target=address.target.partition("?")[0] + "?...")
    return address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:///run/uwsgi/shop.stats", Unix("/run/uwsgi/shop.stats")),
        ("unix:/run/uwsgi/shop.stats", Unix("/run/uwsgi/shop.stats")),
        ("/run/uwsgi/shop.stats", Unix("/run/uwsgi/shop.stats")),
        ("  /run/uwsgi/shop.stats\n", Unix("/run/uwsgi/shop.stats")),
        ("/run/a:b.stats", Unix("/run/a:b.stats")),
        ("./stats", Unix("./stats")),
        ("../" + "x" * 104, Unix("../" + "x" * 104)),
        ("unix:stats", Unix("stats")),
        ("unix:@shop", Unix("@shop")),
        ("pid:1234", ProcessOfApp(1234)),
        ("app:/run/uwsgi/app/shop/socket", SocketOfApp(Unix("/run/uwsgi/app/shop/socket"))),
        ("app:@shop", SocketOfApp(Unix("@shop"))),
        ("app:127.0.0.1:8000", SocketOfApp(Tcp("127.0.0.1", 8000))),
        ("app:[::1]:8000", SocketOfApp(Tcp("::1", 8000))),
        ("unix://@shop", Unix("@shop")),
        ("@shop", Unix("@shop")),
        ("tcp://127.0.0.1:1717", Tcp("127.0.0.1", 1717)),
        ("tcp://shop.internal:1717/", Tcp("shop.internal", 1717)),
        ("127.0.0.1:1717", Tcp("127.0.0.1", 1717)),
        ("localhost:1717", Tcp("localhost", 1717)),
        (":1717", Tcp("127.0.0.1", 1717)),
        ("tcp://:1717", Tcp("127.0.0.1", 1717)),
        ("tcp://[::1]:1717", Tcp("::1", 1717)),
        ("[::1]:1717", Tcp("::1", 1717)),
        ("[2001:db8::7]:1717", Tcp("2001:db8::7", 1717)),
        ("http://127.0.0.1:1717", Http("127.0.0.1", 1717)),
        ("http://[::1]:1717/stats?a=1", Http("::1", 1717, "/stats?a=1")),
        ("http://shop", Http("shop", 80)),
        ("https://shop/uwsgi", Http("shop", 443, "/uwsgi", tls=True)),
        ("https://shop:8443", Http("shop", 8443, tls=True)),
        ("file:///tmp/stats.json", File("/tmp/stats.json")),
        ("file:stats.json", File("stats.json")),
    ],
)
def test_understood(text, address):
    """Each form parses to one address, and the printed address parses to the same one."""
    assert parse_address(text) == address
    assert parse_address(str(address)) == _without_query(address)


PORTS = "shop ftp://shop:21 tcp://shop tcp://shop:0 tcp://shop:1717/stats tcp://shop:99999 shop:99999 tcp://shop:http"
OTHERS = [
    ("http://[::1:80", "tcp://host:port"),
    ("::1:1717", "tcp://host:port"),
    ("1717", "host:port"),
    ("~/stats", "write the path out"),
    ("unix:~/stats", "write the path out"),
    ("file://", "file:///path"),
    ("uwsgi://shop:21", "unknown scheme uwsgi://"),
    ("http://shop/a b", "percent-encode"),
    ("http://shop/ä", "percent-encode"),
    ("http://shöp/", "ASCII"),
    ("http://a b:80/", "ASCII"),
    ("tcp://a\x01b:80", "ASCII"),
    ("tcp://a..b:80", "not a host name"),
    (f"tcp://{'a' * 64}:80", "not a host name"),
    ("/" + "x" * 107, "107 bytes"),
    ("/run/" + "ä" * 55, "107 bytes"),
    ("@" + "x" * 110, "107 bytes"),
    ("/run/a\0b", "NUL"),
    *((text, "unix:///path") for text in ("", "unix://", "unix:", "@")),
    # A host name would have to be resolved, and another address is no socket of workers.
    *((text, "") for text in ("app:shop.example:8000", "app:http://127.0.0.1:8000/", "app:app:/run/x", "pid:x")),
    *((text, "") for text in ("http://ann:hunter2@shop/", "tcp://ann:hunter2@shop:1", "https://hunter2@shop")),
    *((text, "tcp://host:port") for text in PORTS.split()),
]


@pytest.mark.parametrize(("text", "advice"), OTHERS)
def test_refused_with_advice(text, advice):
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    assert advice in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_an_abstract_name_has_two_spellings():
    """An abstract name begins with a NUL byte; uWSGI's own names also end with one and are tried first."""
    assert Unix("@shop").sockaddrs == ("\0shop\0", "\0shop")
    assert Unix("/run/shop").sockaddrs == ("/run/shop",)


@given(st.text(max_size=60) | st.from_regex(r"(unix|tcp|http|https|file):(//)?.{0,20}", fullmatch=True))
def test_any_text(text):
    try:
        address = parse_address(text)
    except AddressError:
        return
    assert parse_address(str(address)) == _without_query(address)


@pytest.mark.parametrize(
    ("place", "why", "words"),
    [
        ("free port", "refused", "nothing listens"),
        ("stale socket", "refused", ""),
        ("@headroom-nobody", "refused", ""),  # an unused abstract name has no file that could be missing
        ("missing socket", "not_found", "stats"),  # the message names the option `stats`
    ],
)
def test_nothing_listens(tmp_path, place, why, words):
    """A port, an abstract name and the socket of a server that has ended are refused; a missing file is not found."""
    path = str(tmp_path / "stats")
    if place == "stale socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
    error = failure(f"127.0.0.1:{free_port()}" if place == "free port" else place if place[0] == "@" else path)
    assert error.reason == why
    assert words in str(error)


@pytest.mark.parametrize(
    ("scheme", "what"),
    [
        *(("unix", what) for what in ("file", "folder", "fifo", "below a file")),
        *(("file", what) for what in ("missing", "folder", "fifo", "socket")),
    ],
)
def test_anything_but_a_socket_or_a_regular_file_is_refused(tmp_path, scheme, what):
    path = tmp_path / "stats"
    with socket.socket(socket.AF_UNIX) as listener:
        if what == "folder":
            path.mkdir()
        elif what == "fifo":
            os.mkfifo(path)
        elif what == "socket":
            listener.bind(str(path))
        elif what != "missing":
            path.write_bytes(DOCUMENT)
        error = failure(f"{scheme}://{path}{'/x' * (what == 'below a file')}", PATIENCE)
    assert error.reason == "not_found"
    is_there = what not in ("below a file", "missing")
    assert ({"unix": "not a socket", "file": "not a regular file"}[scheme] in str(error)) == is_there


def test_a_datagram_socket(tmp_path):
    path = str(tmp_path / "stats")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        error = failure(path)
    assert error.reason == "unreachable"
    assert "takes no connections, so it is not a stats server" in str(error)


def test_a_loop_of_symbolic_links(tmp_path):
    (tmp_path / "stats").symlink_to(tmp_path / "stats")
    for scheme in ("unix", "file"):
        error = failure(f"{scheme}://{tmp_path}/stats")
        assert error.reason == "unreachable"
        assert str(error).startswith("the path's symbolic links form a loop: give")


@pytest.mark.parametrize("number", sorted(set(errno.errorcode) - {errno.ENOENT}))
def test_every_error_of_the_operating_system_comes_with_advice(number, monkeypatch):
    def fail(*_):
        raise OSError(number, os.strerror(number), "/run/stats")

    monkeypatch.setattr(os, "stat", fail)
    message = str(failure("/run/stats"))
    assert "Errno" not in message
    assert ": " in message or "before it answered" in message


@as_root
@pytest.mark.parametrize("scheme", ["unix", "file"])
def test_permission_denied(tmp_path, scheme):
    """If this user lacks the permission, the error says so; for a socket it names the command that finds a way."""
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    path = tmp_path / "stats"
    with socket.socket(socket.AF_UNIX) as listener:
        if scheme == "unix":
            listener.bind(str(path))
            listener.listen()
        else:
            path.write_bytes(DOCUMENT)
        path.chmod(0o600)

        def try_to_read():
            try:
                read(f"{scheme}://{path}", 1)
            except SourceError as error:
                return error.reason, str(error)
            return "", "it was read"

        why, message = as_nobody(try_to_read)
    assert why == "permission"
    assert "permission denied" in message
    assert ("discover --user" in message) == (scheme == "unix")


def test_a_file_is_replayed(tmp_path):
    path = tmp_path / "stats.json"
    path.write_bytes(DOCUMENT)
    assert read(f"file://{path}").body == DOCUMENT
    assert read(f"file://{path}", size_cap=len(DOCUMENT)).body == DOCUMENT
    assert reason(f"file://{path}", size_cap=len(DOCUMENT) - 1) == "too_large"
