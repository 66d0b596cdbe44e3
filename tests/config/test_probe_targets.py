"""The patterns of `probe.targets`, and which targets they allow."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom.config import yaml_file
from uwsgi_headroom.config.servers import find_allowed, parse_pattern, parse_target
from uwsgi_headroom.config.settings import ProbeConfig
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.source import Address, Http, Tcp, Unix

NUMBERS, NAMES, SOCKETS = "10.0.3.*:1717", "*.uwsgi.internal:1717", "/run/uwsgi/*.stats"
EVERY = tuple(
    parse_pattern(text, "test") for text in (NUMBERS, NAMES, SOCKETS, "[fd00::5]:1717", "http://web-*.internal:80")
)


def find(target: str, *patterns: str) -> Address | None:
    return find_allowed(target, [parse_pattern(pattern, "test") for pattern in patterns] or EVERY)


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("10.0.3.7:1717", Tcp("10.0.3.7", 1717)),
        ("tcp://10.0.3.7:1717", Tcp("10.0.3.7", 1717)),
        ("shop.uwsgi.internal:1717", Tcp("shop.uwsgi.internal", 1717, is_guarded=True)),
        ("SHOP.uwsgi.Internal:1717", Tcp("shop.uwsgi.internal", 1717, is_guarded=True)),
        ("[fd00:0:0::5]:1717", Tcp("fd00::5", 1717)),
        ("http://web-3.internal:80", Http("web-3.internal", 80, is_guarded=True)),
        ("/run/uwsgi/shop.stats", Unix("/run/uwsgi/shop.stats")),
        ("unix:///run/uwsgi/shop.stats", Unix("/run/uwsgi/shop.stats")),
        ("/run/uwsgi/größe.stats", Unix("/run/uwsgi/größe.stats")),
    ],
)
def test_allowed(target, address):
    assert find(target) == address


NOT_ALLOWED = {
    "no port, for which there is no default": "10.0.3.7 10.0.3.7: http://web-3.internal",
    "another port": "10.0.3.7:0 10.0.3.7:01717 10.0.3.7:1718 10.0.3.7:17170 10.0.3.7:1717:1717 :1717",
    "more behind the port": "10.0.3.7:1717/ 10.0.3.7:1717/x 10.0.3.7:1717?x 10.0.3.7:1717#x http://web-3.internal:80/ "
    r"http://web-3.internal:80/x http://web-3.internal:80\@evil.example.com",
    "digits of another script": "10.0.3.7:\u0661\u0667\u0661\u0667 \uff11\uff10.0.3.7:1717",
    "the pattern itself": "10.0.3.*:1717 *",
    "no address": "10.0.3.07:1717 10.0.3.0x7:1717 10.0.3.256:1717 10.0.3.7.8:1717 10.0.3:1717 10.0.3.:1717 "
    "10.0.3.7.:1717",
    "numbers that mean 10.0.3.7 to a resolver": "10.0.775:1717 167773959:1717 0xa000307:1717 012.0.3.7:1717",
    "another address": "10.1.3.7:1717 110.0.3.7:1717 127.0.0.1:1717 localhost:1717 [fd00::6]:1717",
    "IPv6 in another form": "[::ffff:10.0.3.7]:1717 [::10.0.3.7]:1717 [64:ff9b::10.0.3.7]:1717 [fd00::5%eth0]:1717 "
    "fd00::5:1717 [10.0.3.7]:1717",
    "another scheme than the pattern's": "http://10.0.3.7:1717 https://10.0.3.7:1717 file:///etc/passwd "
    "file:///run/uwsgi/shop.stats FILE:///run/uwsgi/shop.stats",
    "a user": "user@10.0.3.7:1717 user:password@10.0.3.7:1717 tcp://user@10.0.3.7:1717 "
    "10.0.3.7:1717@169.254.169.254:80 169.254.169.254:80@10.0.3.7:1717",
    "escapes": "10.0.3.7%3A1717 %31%30.0.3.7:1717",
    "no dot matches": "uwsgi.internal:1717 a.b.uwsgi.internal:1717 .uwsgi.internal:1717 10.0.3.7.uwsgi.internal:1717",
    "another name": "shop.uwsgi.internal.:1717 shop.uwsgi.internal.example.com:1717 "
    "shop.uwsgi.internal:1717.example.com shop-uwsgi.internal:1717 shopXuwsgi.internal:1717 -.uwsgi.internal:1717 "
    f"{'a' * 64}.uwsgi.internal:1717",
    "another path": "/etc/passwd /var/run/uwsgi/a.stats run/uwsgi/a.stats ~/a.stats @uwsgi /",
    "no slash or hidden file matches": "/run/uwsgi/../docker.stats /run/uwsgi/..stats /run/uwsgi/.hidden.stats "
    "/run/uwsgi/.stats /run/uwsgi/a/b.stats /run/uwsgi/./a.stats /run/uwsgi//a.stats //run/uwsgi/a.stats "
    "/run/uwsgi/a.stats/",
    "another form, length": f"unix:/run/uwsgi/a.stats unix://localhost/run/uwsgi/a.stats /run/uwsgi/{'a' * 200}.stats",
}
ODD = ["", "\ud800", "10.0.3.7:1717 ", " 10.0.3.7:1717", "10.0.3.7:1717\n"]
ODD += ["/run/uwsgi/a.stats\0", "/run/uwsgi/a\n.stats"]


@pytest.mark.parametrize("target", [*ODD, *" ".join(NOT_ALLOWED.values()).split()])
def test_refused(target):
    assert find(target) is None


NO_PATTERNS = """
* *:1717 *.*.*.*:1717 *.0.3.7:1717 10.0.3.* 10.0.3.*:* 10.0.3.*:1-99 10.0.3.1*:1717 10.0.3.256:1717 10.0.3.0/24:1717
10.*:1717 [fd00::*]:1717 [::ffff:10.0.3.7]:1717 shop.*:1717 shop.internal 2130706433:1717 a.0x7f:1717
a*b*c*d.internal:1717 /run/uwsgi/a*b*c*.stats /run/../etc/*.stats run/*.stats @uwsgi-* file:///run/uwsgi/*.stats
unix:@x user@10.0.3.7:1717 http://10.0.3.7:1717/path /
"""


@pytest.mark.parametrize("pattern", ["", "/" + "a" * 200, *NO_PATTERNS.split()])
def test_patterns_that_are_refused(pattern):
    with pytest.raises(ConfigError, match=r"^headroom.yml:3: .* is not a pattern .*10\.0\.3\.\*:1717") as caught:
        parse_pattern(pattern, "headroom.yml:3")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "target", "allowed"),
    [
        ("10.*.*.5:1717", "10.1.2.5:1717", True),
        ("10.*.*.5:1717", "10.1.2.3.5:1717", False),
        ("web*-x*.a.internal:1", "web1-x2.a.internal:1", True),
        ("web*-x*.a.internal:1", "web-x.a.internal:1", True),
        ("web*-x*.a.internal:1", "web.y-x.a.internal:1", False),
        ("node:1717", "node:1717", True),
        ("node-*:1717", "node-a:1717", True),
        ("node-*:1717", "node-a.example.com:1717", False),
        ("/srv/*/run/stats", "/srv/shop/run/stats", True),
        ("/srv/*/run/stats", "/srv/a/b/run/stats", False),
        ("/srv/*/run/stats", "/srv//run/stats", False),
        ("/srv/a[b]c?/*", "/srv/a[b]c?/x", True),  # only `*` has a meaning
        ("/srv/a[b]c?/*", "/srv/abcd/x", False),
        ("/srv/*", "/srv/.x", False),
        ("https://a.internal:443", "https://a.internal:443", True),
        ("https://a.internal:443", "a.internal:443", False),
    ],
)
def test_wildcards(pattern, target, allowed):
    assert bool(find(target, pattern)) == allowed


@given(st.integers(0, 2**32 - 1))
def test_numbers_mean_to_the_resolver_what_they_mean_to_the_pattern(number):
    text = socket.inet_ntoa(number.to_bytes(4, "big"))
    assert parse_target(f"{text}:1717") == Tcp(text, 1717)
    (info,) = socket.getaddrinfo(text, 1717, type=socket.SOCK_STREAM)
    assert info[4] == (text, 1717)


@given(st.text(alphabet="0123456789abcfxX.:-_*%@[]/\\ \0é", max_size=30))
def test_no_text_is_a_number_to_the_resolver_alone(host):
    """A target whose host the resolver takes for an IP address is one of four decimal numbers, or has brackets."""
    address = parse_target(f"{host}:1717")
    if isinstance(address, Tcp) and address.is_guarded:
        with pytest.raises(OSError, match=r"not known|No address|not supported|Name or service"):
            socket.getaddrinfo(address.host, 1717, flags=socket.AI_NUMERICHOST)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("probe:", None),
        ("probe: false", None),
        ("probe: true", ProbeConfig()),
        ("probe: {}", ProbeConfig()),
        ("probe: {targets: []}", ProbeConfig()),
        ("probe: {targets: '10.0.3.*:1717'}", ProbeConfig((parse_pattern(NUMBERS, ""),))),
        (f"probe:\n  targets:\n    - {NUMBERS}\n    - {SOCKETS}", ProbeConfig((EVERY[0], EVERY[2]))),
        ("log:", None),
    ],
)
def test_the_key_of_the_file(write, text, expected):
    """Off without the key; `true` is for configured servers alone."""
    assert yaml_file.load_file(write(text)).probe == expected
