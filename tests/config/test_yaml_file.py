"""The configuration file: its keys, and the messages for mistakes."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from uwsgi_headroom.config import yaml_file
from uwsgi_headroom.config.defaults import SIZE_CAP, TIMEOUT_SECONDS
from uwsgi_headroom.config.settings import Config
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.source import Http, Unix


@pytest.fixture
def path(tmp_path):
    return tmp_path / "headroom.yml"


def loaded(path: Path, text: str | bytes) -> Config:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return yaml_file.load_file(path)


def refusal(path: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(path, text)
    return str(caught.value)


def test_everything_there_is(path):
    read = loaded(
        path,
        """
servers:
  - name: shop
    stats: unix:///run/uwsgi/shop.stats
    timeout: 2.5
    size_cap: 1048576
    stuck: 5m
  - stats: /run/uwsgi/*.stats
    timeout: 1
  - api=http://[::1]:1717
web:
  listen_address: [127.0.0.1:9238, "[::1]:9238", ":9239"]
log:
  level: debug
  format: json
sampling: {samples_per_second: 2}
""",
    )
    shop, globbed, api = read.servers
    assert (shop.name, shop.address) == ("shop", Unix("/run/uwsgi/shop.stats"))
    assert (shop.timeout, shop.size_cap, shop.stuck_seconds) == (2.5, 1048576, 300.0)
    assert (globbed.address, globbed.pattern, globbed.timeout) == (None, "/run/uwsgi/*.stats", 1.0)
    assert (api.name, api.address, api.timeout, api.size_cap) == ("api", Http("::1", 1717), TIMEOUT_SECONDS, SIZE_CAP)
    assert read.listen == (("127.0.0.1", 9238), ("::1", 9238), ("", 9239))
    assert (read.log_level, read.log_format, read.settings.samples_per_second) == ("debug", "json", 2)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing\n", "---\n", "null\n", "{}\n", "servers:\nweb:\nlog:\n", "\ufeff"]
)
def test_a_file_that_says_nothing(path, text):
    read = loaded(path, text)
    assert read == Config()
    assert read.listen == (("127.0.0.1", 9238),)


@pytest.mark.parametrize(
    ("text", "line", "advice"),
    [
        ("server:\n", 1, "did you mean 'servers'?"),
        ("web:\n  listen_adress: ':1'\n", 2, "did you mean 'listen_address'?"),
        ("zebra: 1\n", 1, "known keys: servers, "),
        ("servers:\n  - name: a\n    stat: /a\n", 3, "did you mean 'stats'?"),
        ("log: {}\nlog: {}\n", 2, "duplicate key"),
        ("servers:\n  - name: a\n    name: b\n    stats: /a\n", 3, "duplicate key"),
        ("servers:\n  - name: a\n", 2, "needs `stats`"),
        ("servers:\n  - name: a\n    stats: shop\n", 3, "unix:///path"),
        ("servers:\n  - stats: ~\n", 2, "write the path out"),
        ("servers:\n  - stats:\n", 2, "expected text"),
        ("servers:\n  - /a\n  - a=b\n", 3, "tcp://host:port"),
        ("servers:\n  - name: a\n    stats: /run/*.stats\n", 3, "is a glob"),
        ("slo: 99%\n", 1, "unknown key 'slo'; write it in an entry of `servers`"),
        ("windows: [1m]\n", 1, "unknown key 'windows'; write it in the section `sampling`"),
        ("servers:\n\t- /a\n", 2, "indent with spaces"),
        ("servers: /a\n", 1, "expected a list, each entry after a dash"),
        ("servers:\n  name: a\n", 2, "expected a list"),
        ("servers:\n  - [/a]\n", 2, "expected keys and values"),
        ("servers:\n  - stats: [/a]\n", 2, "expected text"),
        ("servers:\n  - stats: ''\n", 2, "expected text"),
        ("servers:\n  - name: ' '\n    stats: /a\n", 2, "expected text"),
        ("servers:\n  - name:\n    stats: /a\n", 2, "expected text"),
        ("servers:\n  - stats: /a\n    timeout: 5s\n", 3, "a number from 0.1 to 60"),
        ("servers:\n  - stats: /a\n    timeout: 0\n", 3, "a number from 0.1 to 60"),
        ("servers:\n  - stats: /a\n    timeout: .nan\n", 3, "a number from 0.1 to 60"),
        ("servers:\n  - stats: /a\n    timeout: -1\n", 3, "a number from 0.1 to 60"),
        ("servers:\n  - stats: /a\n    size_cap: 16M\n", 3, "a number from 4096"),
        ("servers:\n  - stats: /a\n    stuck: 25h\n", 3, "'25h' is not an age from 1s to 24h"),
        ("servers:\n  - stats: /a\n    stuck: 30\n", 3, "'30' is not an age"),
        ("web:\n  listen_address: 9238\n", 2, "host:port"),
        ("web:\n  listen_address:\n    - :1\n    - :70000\n", 4, "host:port"),
        ("web: 127.0.0.1:9238\n", 1, "expected keys and values: listen_address"),
        ("log:\n  level: verbose\n", 2, "debug, info, warning, error"),
        ("log:\n  format: xml\n", 2, "logfmt, json"),
        ("- /a\n", 1, "expected keys and values: servers, "),
        ("servers\n", 1, "expected keys and values"),
        ("web: &a\n  <<: *a\n", 2, "unknown key"),
        ("? [a, b]\n: 1\n", 1, "unknown key"),
        ('servers:\n  - name: "\\ud800"\n    stats: /a\n', 2, "half of a surrogate pair"),
        ('servers:\n  - stats: "/tmp/\\ud800"\n', 2, "half of a surrogate pair"),
        ('servers:\n  - "/tmp/\\0*"\n', 2, "a NUL"),
        ('history:\n  file: "/tmp/\\0"\n', 2, "a NUL"),
        ("log: {}\nhistory: false\n", 2, "the path of a file"),
        ("history:\n  file: null\n", 2, "the path of a file"),
        ("sampling:\n  windows:\n    - 1m\n    - 5 min\n", 4, "a length from 10s to 1h"),
        (f"sampling:\n  windows: {'9' * 5000}s\n", 2, "a length from 10s to 1h"),
        ("backends:\n  a: 10.0.0.1:1\n  b: db:1\n", 3, "no host name"),
        ("backends:\n  a: 10.0.0.1:1\n  a: 10.0.0.2:1\n  c: 10.0.0.3:1\n", 3, "two backends are called 'a'"),
        ("routes:\n  templates:\n    - /a\n    - /b\n    - /a\n", 5, "is set twice"),
        ("probe:\n  target: x", 2, "unknown key 'target'; did you mean 'targets'?"),
        ("probe:\n  targets:\n    - 10.0.3.*:1717\n    - '*:1717'", 4, "'*:1717' is not a pattern"),
        ("probe: 1", 1, "neither true nor false"),
        ("probe: [10.0.3.7:1717]", 1, "expected keys and values: targets"),
        ("probe:\n  targets: {a: b}", 2, "expected a list"),
        ("routes: 7", 1, "'7' is neither true nor false"),
        ("routes: [x]", 1, "expected keys and values: enabled, templates, beyond_loopback"),
        ("routes:\n  template: /x", 2, "unknown key 'template'; did you mean 'templates'?"),
        ("routes:\n  templates:\n    - /x\n    - y", 4, "'y' is not the template of a route"),
        ("routes:\n  templates: [/x, /x]", 2, "the template '/x' is set twice"),
        ("backends: [pg=*:1]\n", 1, "expected a name and an address"),
        ("backends: pg\n", 1, "expected a name and an address"),
        ("\nbackends:\n  pg: db:5432\n", 3, "is not the address of a backend"),
        ("backends:\n  pg: [1]\n", 2, ""),
        ("sampling:\n  waits: perhaps\n", 2, ""),
        ("sampling:\n  read_pollfds: 1\n", 2, ""),
        ("sampling:\n  backends: {}\n", 2, ""),
        ("sampling:\n  samples_per_second: 21\n", 2, "expected a number from 0.25 to 20"),
        ("history: [a]", 1, ""),
        ("history: {files: x}", 1, ""),
        ("history: {file: }", 1, ""),
        ("history: {file: [a]}", 1, ""),
        ("history: {max_size: 5}", 1, ""),
        ("history: yes", 1, ""),
        ("history: .nan", 1, ""),
        ("history: 5", 1, ""),
        ("history: {file: 2026-11-23}", 1, ""),
    ],
)
def test_a_mistake_is_reported_with_its_line(path, text, line, advice):
    message = refusal(path, text)
    assert message.startswith(f"{path}:{line}: ")
    assert advice in message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("servers:\n\t- /a\n", 2),
        ("servers: [\n", 2),
        ("servers: {a\n", 2),
        ("web: 'x\n", 2),
        ("a: b: c\n", 1),
        ("servers: *nobody\n", 1),
        ("{}\n---\n{}\n", 2),
        ("@\n", 1),
        ("%YAML 9\n", 1),
        (b"servers:\r\n  - /a\r\n# caf\xe9\r\nlog: {}\r\n", 3),
        ("# caf\u00e9\nlog:\n  level: \x1b[31m\n", 3),
        ("log:\n  level: \0\n".encode("utf-16"), 2),
        (b"#" * 5000 + b"\nlog: \xff\n", 2),
    ],
)
def test_invalid_yaml_is_reported_with_its_line(path, text, line):
    message = refusal(path, text)
    assert message.startswith(f"{path}:{line}: not valid YAML: ")
    assert "\n" not in message


@pytest.mark.parametrize("body", [b"\xff\xfe\x00", b"servers: \xff\n", b"a\0b", b"\x1b[31m", b"[" * 5000, b"- " * 5000])
def test_bytes_that_are_no_text(path, body):
    assert refusal(path, body).startswith(str(path))


def test_a_file_that_cannot_be_read(tmp_path):
    endless = Path("/dev/zero"), "larger than a megabyte"
    for path, why in ((tmp_path / "no.yml", "No such file"), (tmp_path, "Is a directory"), endless):
        with pytest.raises(ConfigError) as caught:
            yaml_file.load_file(path)
        assert str(caught.value).startswith(f"{path}: {why}")


def test_relative_paths(path, monkeypatch, tmp_path_factory):
    """They lie beside the file that names them, wherever the program runs."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    here = path.parent
    (here / "bare.stats").touch()
    text = """
servers: [./shop.stats, bare.stats, "run/*.sock", a=unix:x/y, file:z.json, "@name", /run/abs, ":1717"]
history: h.sqlite
web: {config_file: tls/web.yml}
"""
    read = loaded(path, text)
    paths = [str(getattr(server.address, "path", server.pattern or "")) for server in read.servers]
    beside = [str(here / name) for name in ("shop.stats", "bare.stats", "run/*.sock", "x/y", "z.json")]
    assert paths == [*beside, "@name", "/run/abs", ""]
    assert (read.history, read.web_config_file) == (str(here / "h.sqlite"), str(here / "tls/web.yml"))
    servers = loaded(path, "servers: [{stats: /a, log: a.log}, {stats: /b, log: journal:b}]").servers
    assert [server.log for server in servers] == [str(here / "a.log"), "journal:b.service"]
    reading, writing = os.pipe()
    os.write(writing, b"history: h.sqlite")
    os.close(writing)
    with open(reading):
        assert yaml_file.load_file(Path(f"/dev/fd/{reading}")).history == "h.sqlite"


def test_values_are_texts_as_they_stand(path):
    """Whatever YAML would make of them; a tag builds no object."""
    read = loaded(
        path, "servers:\n  - {name: 007, stats: /a}\n  - {name: yes, stats: /b}\n  - {name: 1e3, stats: /c}\n"
    )
    assert [server.name for server in read.servers] == ["007", "yes", "1e3"]
    read = loaded(path, "servers:\n  - name: 店 shop\n    stats: /run/my shop.stats\n")
    assert (read.servers[0].name, read.servers[0].address) == ("店 shop", Unix("/run/my shop.stats"))
    read = loaded(path, f"servers: !!python/object/apply:os.mkdir ['{path}.made']\n")
    assert [str(server.address) for server in read.servers] == [f"unix://{path}.made"]
    assert not os.path.exists(f"{path}.made")


_WORDS = ["servers", "stats", "name", "/a", "web", "x", "1", "~", "''", "*a", "&a b", "!!python/name:os.system"]
_YAML = st.recursive(
    st.sampled_from(_WORDS),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda texts: f"[{', '.join(texts)}]")
        | st.lists(st.tuples(inner, inner).map(": ".join), max_size=3).map(lambda pairs: f"{{{', '.join(pairs)}}}")
    ),
    max_leaves=8,
)


@given(_YAML | st.text(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_anything(path, text):
    with contextlib.suppress(ConfigError):
        loaded(path, text.encode("utf-8", "surrogatepass"))
