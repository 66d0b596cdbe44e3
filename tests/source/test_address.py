"""Valid stats addresses and their types, and the advice in the errors for invalid ones."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom.errors import AddressError
from uwsgi_headroom.source.address import File, Http, ProcessOfApp, SocketOfApp, Tcp, Unix, parse_address


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
        ("../stats", Unix("../stats")),
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
    ("/run/" + "x" * 110, "107 bytes"),
    ("/run/" + "ä" * 55, "107 bytes"),
    ("@" + "x" * 110, "107 bytes"),
    ("/run/a\0b", "NUL"),
    *((text, "unix:///path") for text in ("", "unix://", "unix:", "@")),
    *((text, "tcp://host:port") for text in PORTS.split()),
]


@pytest.mark.parametrize(("text", "advice"), OTHERS)
def test_refused_with_advice(text, advice):
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    assert advice in str(caught.value)


@pytest.mark.parametrize("text", ["app:shop.example:8000", "app:http://127.0.0.1:8000/", "app:app:/run/x", "pid:x"])
def test_an_application_socket_is_a_path_or_a_number(text):
    """A host name would have to be resolved, and another address is no socket of workers."""
    with pytest.raises(AddressError):
        parse_address(text)


@pytest.mark.parametrize("text", ["http://ann:hunter2@shop/", "tcp://ann:hunter2@shop:1", "https://hunter2@shop"])
def test_a_password_is_refused_and_not_repeated(text):
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    assert "hunter2" not in str(caught.value)


def test_an_abstract_name_has_two_spellings():
    """An abstract name begins with a NUL byte; uWSGI's own names also end with one and are tried first."""
    assert Unix("@shop").sockaddrs == ("\0shop\0", "\0shop")
    assert Unix("/run/shop").sockaddrs == ("/run/shop",)


@given(st.text(max_size=60) | st.from_regex(r"(unix|tcp|http|https|file):(//)?.{0,20}", fullmatch=True))
def test_any_text(text):
    """Any text is either parsed or refused with AddressError; a parsed address prints as a text that parses to it."""
    try:
        address = parse_address(text)
    except AddressError:
        return
    assert parse_address(str(address)) == _without_query(address)
