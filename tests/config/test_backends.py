"""Names of backends: their addresses, their number, and where they are set."""

import pytest

from tests.config.test_settings import resolved
from uwsgi_headroom.config import yaml_file
from uwsgi_headroom.config.parsers import parse_backends
from uwsgi_headroom.config.settings import DEFAULT_SETTINGS
from uwsgi_headroom.errors import ConfigError


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


@pytest.mark.parametrize(
    "text",
    [
        "",
        "postgres",
        "=10.0.0.5:5432",
        "pg=",
        "p g=10.0.0.5:5432",
        "10.0.0.5:5432",
        "pg=db.example.com:5432",
        "pg=localhost:5432",
        "pg=10.0.0.5",
        "pg=10.0.0.5:",
        "pg=10.0.0.5:0",
        "pg=10.0.0.5:65536",
        "pg=10.0.0.5:-1",
        "pg=10.0.0.5:٣",
        "pg=10.0.0.5:5432/db",
        "pg=10.0.0:5432",
        "pg=::1:5432",
        "pg=[::1]",
        "pg=[::1:5432",
        "pg=[10.0.0.5]:5432",
        "pg=[fe80::1%eth0]:5432",
        "pg=:5432",
        "pg=**:5432",
        "pg=run/pg.sock",
        "pg=postgres://10.0.0.5:5432",
    ],
)
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


@pytest.mark.parametrize("text", ["backends:\n", "backends: {}\n", "backends: null\n"])
def test_no_backends(write, text):
    assert yaml_file.load_file(write(text)).settings == DEFAULT_SETTINGS
