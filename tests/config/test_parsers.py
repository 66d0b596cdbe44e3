"""Values of settings: addresses, backends, logs, routes and objectives are parsed, or refused with the reason."""

import pytest

from tests.config.test_settings import refusal, resolved
from tests.support.exporter import exporter, run
from tests.support.real_uwsgi import free_port, wait_until
from uwsgi_headroom.config import yaml_file
from uwsgi_headroom.config.parsers import parse_backends, parse_listen_address, parse_templates
from uwsgi_headroom.config.servers import parse_server_argument
from uwsgi_headroom.config.settings import DEFAULT_SETTINGS
from uwsgi_headroom.config.slo import Slo, parse_objective, parse_slo, parse_threshold
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.routes import MOST_TEMPLATES
from uwsgi_headroom.source import File, Tcp, Unix


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("shop=/run/a.stats", "shop", Unix("/run/a.stats")),
        ("shop=tcp://a:1", "shop", Tcp("a", 1)),
        ("a.b-c_1=:1", "a.b-c_1", Tcp("127.0.0.1", 1)),
        ("/run/shop.stats", "shop", Unix("/run/shop.stats")),
        ("/run/shop.v2.stats", "shop.v2", Unix("/run/shop.v2.stats")),
        ("/run/.stats", ".stats", Unix("/run/.stats")),
        ("/run/stats", "stats", Unix("/run/stats")),
        ("/run/a=b.stats", "a=b", Unix("/run/a=b.stats")),
        ("@shop", "shop", Unix("@shop")),
        ("unix:@shop.stats", "shop", Unix("@shop.stats")),
        ("file:///tmp/shop.json", "shop", File("/tmp/shop.json")),
        ("localhost:1717", "localhost:1717", Tcp("localhost", 1717)),
        ("[::1]:1717", "::1:1717", Tcp("::1", 1717)),
    ],
)
def test_a_server_and_its_name(text, name, address):
    """A server's name comes before an equals sign, or from its socket's file or its host and port."""
    server = parse_server_argument(text, "--stats")
    assert (server.name, server.address) == (name, address)


@pytest.mark.parametrize(
    ("text", "name", "address", "pattern"),
    [
        ("run/shop.stats", "shop", Unix("./run/shop.stats"), ""),
        ("shop.stats", "shop", Unix("./shop.stats"), ""),
        ("blog=run/shop.stats", "blog", Unix("./run/shop.stats"), ""),
        ("run/*.stats", "", None, "./run/*.stats"),
        ("no/*.stats", "", None, "./no/*.stats"),
        ("run/a:1", "a:1", Unix("./run/a:1"), ""),
        ("shop:1", "shop:1", Tcp("shop", 1), ""),
    ],
)
def test_a_relative_path_that_is_there(tmp_path, monkeypatch, text, name, address, pattern):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for path in ("shop.stats", "run/shop.stats", "run/a:1", "shop:1"):
        (tmp_path / path).touch()
    server = parse_server_argument(text, "--stats")
    assert (server.name, server.address, server.pattern) == (name, address, pattern)


@pytest.mark.parametrize("text", ["shop", "run/none.stats", "*", "tpc://a*"])
def test_what_is_neither_an_address_nor_there(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="use unix:///path"):
        parse_server_argument(text, "--stats")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9238", ("127.0.0.1", 9238)),
        (":9238", ("", 9238)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::]:9238", ("::", 9238)),
        ("[::1]:9238", ("::1", 9238)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
        ("localhost:0", ("localhost", 0)),
        (" host.internal:80 ", ("host.internal", 80)),
    ],
)
def test_addresses_to_listen_on(text, address):
    assert parse_listen_address(text, "--web.listen-address") == address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres=10.0.0.5:5432", ("postgres", "10.0.0.5:5432")),
        ("  pg-1.main_2=10.0.0.5:05432 ", ("pg-1.main_2", "10.0.0.5:5432")),
        ("pg=[::1]:5432", ("pg", "[::1]:5432")),
        ("pg=[2001:DB8:0:0::5]:1", ("pg", "[2001:db8::5]:1")),
        ("pg=[::ffff:10.0.0.5]:5432", ("pg", "10.0.0.5:5432")),
        ("pg=*:5432", ("pg", "*:5432")),
        ("pg=*:65535", ("pg", "*:65535")),
        ("pg=/run/postgresql/.s.PGSQL.5432", ("pg", "/run/postgresql/.s.PGSQL.5432")),
        ("pg=/run/a=b:c", ("pg", "/run/a=b:c")),
        ("bus=@bus", ("bus", "@bus")),
    ],
)
def test_accepted(text, expected):
    """A backend has a name and an address, written as the kernel's list of sockets has it."""
    assert parse_backends([(text, "--backends")]) == (expected,)


NO_BACKENDS = """
postgres =10.0.0.5:5432 pg= 10.0.0.5:5432 pg=db.example.com:5432 pg=localhost:5432 pg=10.0.0.5 pg=10.0.0.5:
pg=10.0.0.5:0 pg=10.0.0.5:65536 pg=10.0.0.5:-1 pg=10.0.0.5:٣ pg=10.0.0.5:5432/db pg=10.0.0:5432 pg=::1:5432 pg=[::1]
pg=[::1:5432 pg=[10.0.0.5]:5432 pg=[fe80::1%eth0]:5432 pg=:5432 pg=**:5432 pg=run/pg.sock pg=postgres://10.0.0.5:5432
"""


@pytest.mark.parametrize("text", ["", "p g=10.0.0.5:5432", *NO_BACKENDS.split()])
def test_refused(text):
    with pytest.raises(ConfigError) as caught:
        parse_backends([(text, "--backends")])
    assert str(caught.value).startswith("--backends: ")
    assert text.partition("=")[2] in str(caught.value)
    assert "10.0.0.5:5432" in str(caught.value)


def test_twenty_have_a_name():
    """One more is refused, and so are two of one name or of one address."""
    texts = [f"b{number}=10.0.0.{number}:1" for number in range(21)]
    assert len(parse_backends([(text, "x") for text in texts[:20]])) == 20
    for wrong, words in (
        (texts, "21 backends are too many; 20"),
        (["a=1.1.1.1:1", "a=1.1.1.1:2"], "two backends are called 'a'"),
        (["a=1.1.1.1:1", "b=[::ffff:1.1.1.1]:1"], "the same address"),
    ):
        with pytest.raises(ConfigError, match=words):
            parse_backends([(text, "x") for text in wrong])
    assert len(parse_backends([("a=1.1.1.1:1", "x"), ("b=*:1", "x")])) == 2
    assert parse_backends([]) == ()


def test_flag_over_variable_over_file(write):
    """Each replaces all backends of the one below it; the file's other keys stay."""
    path = write("sampling: {waits: false, read_pollfds: true}\nbackends: {a: '*:1', b: /run/b}\n")
    settings = resolved("--config", str(path)).settings
    assert settings.backends == (("a", "*:1"), ("b", "/run/b"))
    assert (settings.waits, settings.read_pollfds) == (False, True)
    settings = resolved("--config", str(path), BACKENDS="c=*:3 d=*:4", WAITS="true").settings
    assert settings.backends == (("c", "*:3"), ("d", "*:4"))
    assert (settings.waits, settings.read_pollfds) == (True, True)
    arguments = ("--config", str(path), "--backends", "e=*:5", "--backends", "f=*:6", "--read-pollfds", "false")
    settings = resolved(*arguments, BACKENDS="c=*:3", READ_POLLFDS="true").settings
    assert settings.backends == (("e", "*:5"), ("f", "*:6"))
    assert (settings.waits, settings.read_pollfds) == (False, False)


NO_TEMPLATES = (
    """/{tenant}/@{x orders/{id} / //x /a//b /a/{} /a/{1} /a/x{id} /a?b /a/../b /" /café /a/b/c/d/e/f/g/h/i"""
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/orders/{id}", "/orders/{id}"),
        (" /orders/{order_id}/items/ ", "/orders/{order_id}/items"),
        ("/v1/books:export", "/v1/books:export"),
        *((text, None) for text in ["", "/a b", *NO_TEMPLATES.split()]),
    ],
)
def test_a_template_is_a_path(text, expected):
    """A segment is literal, or a name in braces; anything else is refused with its text."""
    if expected is not None:
        assert parse_templates([(text, "--route-template")]) == (expected,)
        return
    with pytest.raises(ConfigError) as caught:
        parse_templates([(text, "--route-template")])
    assert str(caught.value).startswith(f"--route-template: {text!r}")


def test_templates_are_few_and_different():
    """Each may be a time series for each method."""
    texts = [f"/t{number}" for number in range(MOST_TEMPLATES + 1)]
    assert len(parse_templates([(text, "x") for text in texts[:-1]])) == MOST_TEMPLATES
    for wrong, words in ((texts, "51 templates are too many; 50"), (["/a/{b}", "/a/{b}/"], "'/a/{b}' is set twice")):
        with pytest.raises(ConfigError, match=words):
            parse_templates([(text, "x") for text in wrong])


def test_routes_are_off_unless_a_flag_or_a_variable_says_so():
    assert not any((DEFAULT_SETTINGS.routes, resolved().settings.routes, resolved().routes_beyond_loopback))
    assert resolved("--routes").settings.routes
    assert not resolved("--routes", "false", ROUTES="true").settings.routes
    assert resolved(ROUTE_TEMPLATE="/a/{b} /c").settings.route_templates == ("/a/{b}", "/c")
    assert resolved("--routes-beyond-loopback").routes_beyond_loopback
    assert "UWSGI_HEADROOM_ROUTES: 'on'" in refusal(ROUTES="on")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("routes: true", (True, (), False)),
        ("routes: false", (False, (), False)),
        ("routes:", (False, (), False)),
        ("routes: {}", (False, (), False)),
        ("routes:\n  templates:\n    - /orders/{id}\n    - /x", (True, ("/orders/{id}", "/x"), False)),
        ("routes:\n  templates: /orders/{id}\n  beyond_loopback: true", (True, ("/orders/{id}",), True)),
        ("routes: {enabled: false, beyond_loopback: true}", (False, (), True)),
    ],
)
def test_the_file(write, text, expected):
    config = yaml_file.load_file(write(text))
    assert (config.settings.routes, config.settings.route_templates, config.routes_beyond_loopback) == expected


@pytest.mark.integration
def test_beyond_loopback_only_with_the_override():
    """Other machines could read the routes without a login, so the exporter does not start, and says what to do."""
    address = f"0.0.0.0:{free_port()}"
    arguments = ("--stats", "file:///nowhere", "--routes", "--web.listen-address", address)
    refused = run(*arguments)
    assert refused.returncode == 2
    assert f"other machines can reach {address}" in refused.stderr
    assert "--routes-beyond-loopback" in refused.stderr
    with exporter(*arguments, "--routes-beyond-loopback") as running:
        wait_until(lambda: running.lines("anyone who can reach this address"), what="the warning")


@pytest.mark.parametrize(
    ("text", "threshold", "objective"),
    [
        ("1s:99%", 1.0, 0.99),
        ("800ms:0.95", 0.8, 0.95),
        (" 1.5s : 99.5% ", 1.5, 0.995),
        ("1m:50%", 60.0, 0.5),
        ("0.4s:.9", 0.4, 0.9),
    ],
)
def test_an_objective(text, threshold, objective):
    """A response time with its unit, and a share of requests as a percentage or a fraction."""
    assert parse_slo(text, "--slo") == Slo(threshold, objective, "--slo")


@pytest.mark.parametrize(
    ("parse", "texts", "message"),
    [
        (
            parse_threshold,
            [
                "1",
                "s",
                "1h",
                "0s",
                "-1s",
                "1.s",
                "1e3ms",
                "61s",
                "1.1m",
                "nan",
                "\N{ARABIC-INDIC DIGIT ONE}s",
                "",
                "1s2",
            ],
            "here: {!r} is not a response time up to 60s; write it with its unit, such as 800ms",
        ),
        (
            parse_objective,
            ["", "%", "49%", "0.1", "100%", "1", "99", "-99%", "nan", "inf", "99 percent", "nan%"],
            "here: {!r} is not an objective; write the share of good requests, from 50% to 99.5%, such as 99%",
        ),
        (
            parse_objective,  # above 99.5 %, the error of the estimate decides
            ["99.6%", "99.9%", "0.999", "0.99999999"],
            "here: an objective of {} cannot be judged from samples; the highest is 99.5%",
        ),
    ],
)
def test_no_objective(parse, texts, message):
    for text in texts:
        with pytest.raises(ConfigError) as caught:
            parse(text, "here")
        assert str(caught.value) == message.format(text)


def test_flag_and_variable():
    """The flag goes first. The shortest threshold is two times between samples."""
    assert resolved().settings.slo is None
    assert resolved(SLO="2s:95%").settings.slo == Slo(2.0, 0.95, "UWSGI_HEADROOM_SLO")
    assert resolved("--slo", "1s:99%", SLO="2s:95%").settings.slo == Slo(1.0, 0.99, "--slo")
    assert resolved("--slo", "400ms:99%").settings.slo == Slo(0.4, 0.99, "--slo")
    assert resolved("--slo", "667ms:99%", "--samples-per-second", "3").settings.slo


@pytest.mark.parametrize(
    ("arguments", "environment", "start"),
    [
        (("--slo", "1s"), {}, "--slo: '1s' is not an objective; write THRESHOLD:OBJECTIVE, such as 1s:99%"),
        (("--slo", "1:99%"), {}, "--slo: '1' is not a response time"),
        ((), {"SLO": "1s:100%"}, "UWSGI_HEADROOM_SLO: '100%' is not an objective"),
        (("--slo", "1s:99%:5m"), {}, "--slo: '99%:5m' is not an objective"),
    ],
)
def test_the_message_names_the_place(arguments, environment, start):
    assert refusal(*arguments, **environment).startswith(start)


def test_a_servers_own_objective_goes_before_that_of_all(write):
    path = write("servers:\n  - stats: /a\n    slo: {threshold: 800ms, objective: 99%}\n  - stats: /b\n")
    given = resolved("--config", str(path), "--slo", "2s:0.9")
    first, second = (server.slo for server in given.servers)
    assert first == Slo(0.8, 0.99, f"{path}:3")
    assert second is None
    assert given.settings.slo == Slo(2.0, 0.9, "--slo")


@pytest.mark.parametrize(
    ("slo", "message"),
    [
        ("{threshold: 1s}", "an objective needs `threshold`, such as 1s, and `objective`, such as 99%"),
        ("{threshold: 1, objective: 99%}", "'1' is not a response time up to 60s"),
        ("{threshold: 1s, objective: 100%}", "'100%' is not an objective"),
        ("{threshold: 1s, objective: 99%, window: 5m}", "window"),
        ("1s:99%", "3"),
        ("[1s, 99%]", "3"),
        ("{threshold: 100ms, objective: 99%}", "a threshold of 100ms cannot be judged with 5 samples per second"),
    ],
)
def test_mistakes_in_the_file(write, slo, message):
    path = write(f"servers:\n  - stats: /a\n    slo: {slo}\n")
    refused = refusal("--config", str(path))
    assert refused.startswith(f"{path}:3: ")
    assert message in refused


@pytest.mark.parametrize(
    ("threshold", "samples", "least"),
    [("399ms", "5", "400ms"), ("1.9s", "1", "2000ms"), ("50ms", "20", "100ms"), ("600ms", "3", "667ms")],
)
def test_a_threshold_too_short_for_the_samples(threshold, samples, least):
    """Below two times between samples, these do not show how many requests are slower."""
    message = refusal("--slo", f"{threshold}:99%", "--samples-per-second", samples)
    assert message.startswith(f"--slo: a threshold of {threshold.replace('1.9s', '1900ms')} cannot be judged")
    assert f"the least is {least}, two times between samples" in message
