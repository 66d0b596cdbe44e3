"""What of an ini file is measured, what is left out, and which setting it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.tune.application.ini import TUNED, Ini, describe, find_group, read_ini
from uwsgi_headroom.tune.application.variant import Variant

EVERYTHING = """\
# a comment
[other]
cron = 1 1 1 1 1 /bin/false

[uwsgi]
module = shop.wsgi:application
chdir = %d
master = true
workers = 4
threads = 8
thunder-lock = true
listen = 512
harakiri = 30
max-requests = 1000
buffer-size = 32768
cpu-affinity = 2
env = KEY=value
http-socket = 0.0.0.0:80
stats = :1717
cron = -1 -1 -1 -1 -1 /usr/bin/clean
unique-cron2 = minute=5 /usr/bin/mail
attach-daemon = redis-server
smart-attach-daemon = /run/celery.pid celery
mule = shop.mule
mules = 2
spooler = /var/spool/shop
emperor = /etc/vassals
logto = /var/log/shop.log
daemonize = /var/log/shop.log
pidfile = /run/shop.pid
safe-pidfile = /run/shop2.pid
touch-reload = /srv/reload
py-autoreload = 1
hook-post-app = exec:/usr/bin/notify
exec-as-root = /bin/mount
uid = www-data
subscribe-to = 10.0.0.1:9000
legion = web 10.0.0.1:1 1 bf:x
cache2 = name=a,items=100,store=/var/cache/a,blocksize=64
"""


def write(directory: Path, text: str, name: str = "shop.ini") -> Path:
    path = directory / name
    path.write_bytes(text.encode())
    return path


def read(directory: Path, text: str, **environment: str) -> Ini:
    return read_ini(write(directory, text), cpus=2, environment=environment)


def test_what_decides_performance_is_kept(tmp_path: Path) -> None:
    """And nothing that reaches beyond the server: sockets, programs, files, other servers."""
    ini = read(tmp_path, EVERYTHING)
    assert ini.render().splitlines() == [
        "[uwsgi]",
        "module = shop.wsgi:application",
        f"chdir = {tmp_path}/",
        "master = true",
        "harakiri = 30",
        "max-requests = 1000",
        "buffer-size = 32768",
        "cpu-affinity = 2",
        "env = KEY=value",
        "cache2 = name=a,items=100,blocksize=64",
    ]
    assert ini.present == Variant(Setting(4, 8), thunder_lock=True, listen=512)


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    """By what it is for; the values are not repeated."""
    said = describe(read(tmp_path, EVERYTHING).off)
    assert said[0] == "sockets and routers (http-socket, subscribe-to)"
    assert "crons (cron, unique-cron2)" in said
    assert "daemons (attach-daemon, smart-attach-daemon)" in said
    assert "mules (mule, mules)" in said
    assert said[-1] == "caches beyond this server (cache2)"
    assert len(said) == 14


BEYOND = """
legion-cron legion-attach-daemon smart-attach-daemon2 attach-control-daemon farm spooler-processes vassals-dir
http https http-to fastrouter uwsgi-socket shared-socket stats-push carbon log-syslog req-logger logfile-chown
pidfile2 daemonize2 touch-chain-reload fs-reload hook-as-user exec-asap chroot setns zerg-server alarm
http11-socket protocol enable-proxy-protocol fallback-config file-write worker-exec re-fork rbtimer signal-timer
listen-queue-alarm metric-dir wait-iface no-server upload-progress signal eval
subscribe2 snmp master-fifo idle cheap reuse-port %(name)-socket
"""
KEPT = """
module wsgi-file mount callable pythonpath virtualenv home plugins plugin-dir env chdir enable-threads harakiri
lazy-apps single-interpreter need-app post-buffering socket-timeout max-worker-lifetime reload-on-rss static-map
offload-threads route disable-logging log-format log-slow logdate cpu-affinity cache2 queue so-keepalive reload-mercy
socket-sndbuf log-x-forwarded-for import if-env set-placeholder auto-procname threads-stacksize umask never-swap
enable-metrics reload-on-exception die-on-term vacuum static-gzip-all
"""


@pytest.mark.parametrize("option", BEYOND.split())
def test_options_that_reach_beyond_the_server(option: str) -> None:
    """They are left out."""
    assert find_group(option) is not None


@pytest.mark.parametrize("option", KEPT.split())
def test_options_that_decide_performance(option: str) -> None:
    """They are kept."""
    assert find_group(option) is None


NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True).filter(
    lambda name: (
        name not in TUNED
        and name
        not in ("ini", "include", "inherit", "set", "cache2", "map-socket", "async", "gevent", "asyncio", "ugreen")
        and name not in ("xml", "yaml", "yml", "json", "js", "config", "tornado", "greenlet", "coroae", "loop")
    )
)
VALUES = st.text(st.characters(exclude_characters="\n\r%\0", exclude_categories=["Cs", "Cc", "Zs"]), max_size=30)


@settings(max_examples=40)
@given(st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=12))
def test_kept_lines_are_unchanged(tmp_path_factory: pytest.TempPathFactory, options: list[tuple[str, str]]) -> None:
    """Each option is either kept as it is, in its order, or left out and named."""
    text = "[uwsgi]\n" + "".join(f"{name} = {value}\n" for name, value in options)
    ini = read_ini(write(tmp_path_factory.getbasetemp(), text), cpus=2, environment={})
    assert [(line.key, line.value) for line in ini.kept] == [
        (name, value.strip()) for name, value in options if not find_group(name)
    ]
    assert ini.off == tuple(name for name, _ in options if find_group(name))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", Variant(Setting(1, 1))),
        ("processes = 3\nworkers = 5", Variant(Setting(5, 1))),
        ("processes = %k", Variant(Setting(2, 1))),
        ("processes = $(WORKERS)\nthreads = 2", Variant(Setting(6, 2))),
        ("number = 3\nprocesses = %(number)", Variant(Setting(3, 1))),
        ("set = processes=7", Variant(Setting(7, 1))),
        ("processes = 4\ncheaper = 2", Variant(Setting(4, 1), cheaper=2)),
        ("thunder-lock", Variant(Setting(1, 1), thunder_lock=True)),
        ("thunder-lock = off", Variant(Setting(1, 1))),
        ("listen = 100", Variant(Setting(1, 1))),
        ("if-env = A\nharakiri = 3\nend =\nprocesses = 4", Variant(Setting(4, 1))),
        ("if-env = A\nif-env = B\nharakiri = 3\nendif =\nprocesses = 4", Variant(Setting(4, 1))),
        ("processes = 4\nif-exists = missing.ini\nini = missing.ini\nendif =", Variant(Setting(4, 1))),
    ],
)
def test_the_present_setting(tmp_path: Path, options: str, expected: Variant) -> None:
    """As uWSGI counts: the last value, its defaults, and placeholders."""
    assert read(tmp_path, f"[uwsgi]\nmodule = a\n{options}\n", WORKERS="6").present == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "shop.ini has no options in a section [uwsgi]"),
        ("module = a\n", "has no options in a section"),
        ("[uwsgi]\nmodule = a\0\n", "is not an ini file: it is binary"),
        ("[uwsgi]\nprocesses = many\n", "line 2: tune needs the number of processes, and this is 'many'"),
        ("[uwsgi]\nprocesses = %(x)\n", "this is '%(x)': write the number"),
        ("[uwsgi]\nif-env = A\nthreads = 2\nendif =\n", "line 3: tune needs the number of threads, and this is within"),
        ("[uwsgi]\nprocesses = 0\n", "0x1: processes can be 1 to 1024"),
        ("[uwsgi]\ngevent = 100\n", "gevent serves many requests with one thread"),
        ("[uwsgi]\nmap-socket = 0:1\n", "map-socket gives processes sockets of their own"),
        ("[uwsgi]\nyaml = a.yml\n", "line 2: tune reads ini files only, and yaml loads another"),
        ("[uwsgi]\nemperor = /etc/vassals\n", "is an emperor's, without an application"),
        ("[uwsgi]\nini = missing.ini\n", "missing.ini cannot be read: No such file"),
        ("[uwsgi]\nini = http://a/b.ini\n", "tune cannot follow http://a/b.ini"),
        ("[uwsgi]\nini = :uwsgi\n", "includes more than 20 files"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says where and why."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)


def test_included_files(tmp_path: Path) -> None:
    """Their options stand where the file is included, and inherited ones at the end; paths are those of each file."""
    (tmp_path / "base").mkdir()
    base = write(
        tmp_path / "base", "[uwsgi]\nthreads = 2\nmount = %d\nfirst = %D\n[more]\nbuffer-size = 1\n", "base.ini"
    )
    last = write(tmp_path, "[uwsgi]\nprocesses = 9\n", "last.ini")
    ini = read(tmp_path, f"[uwsgi]\ninherit = {last}\nini = {base}\nini = {base}:more\nprocesses = 4\nchdir = %p\n")
    assert ini.present == Variant(Setting(9, 2))
    assert [(line.key, line.value) for line in ini.kept] == [
        ("mount", f"{tmp_path}/base/"),
        ("first", f"{tmp_path}/"),
        ("buffer-size", "1"),
        ("chdir", f"{tmp_path}/shop.ini"),
    ]


def test_a_file_that_includes_another(tmp_path: Path) -> None:
    """What it inherits comes after all other options, and `:section` is of the file that was read last."""
    write(tmp_path, "[uwsgi]\nprocesses = 3\n", "last.ini")
    write(tmp_path, f"[uwsgi]\ninherit = {tmp_path}/last.ini\n[more]\nthreads = 2\n", "base.ini")
    text = f"[uwsgi]\ninclude = {tmp_path}/base.ini\nprocesses = 2\nini = :more\n[more]\nthreads = 7\n"
    assert read(tmp_path, text).present == Variant(Setting(3, 2))


def test_values_that_other_lines_refer_to(tmp_path: Path) -> None:
    """They are filled in: uWSGI knows only the options that its file has."""
    ini = read(tmp_path, "[uwsgi]\npidfile = /run/a\nworkers = 3\nenv = A=%(pidfile) %(workers) %(other)\n")
    assert [(line.key, line.value) for line in ini.kept] == [("env", "A=/run/a 3 %(other)")]


def test_a_file_that_is_included_within_a_condition(tmp_path: Path) -> None:
    """Its options are within the condition too."""
    more = write(tmp_path, "[uwsgi]\nthreads = 8\n", "more.ini")
    with pytest.raises(ConfigError, match=r"more\.ini, line 2: tune needs the number of threads, and this is within a"):
        read(tmp_path, f"[uwsgi]\nif-env = A\nini = {more}\nendif =\n")


def test_variables_of_the_file(tmp_path: Path) -> None:
    """Digits are parts of its directory; `%%` is a percent sign, whatever follows."""
    ini = read(tmp_path, "[uwsgi]\nenv = A=%0/%1/%9\nlog-date = %%d/%%m\n")
    assert [line.value for line in ini.kept] == [f"A={tmp_path.parts[1]}/{tmp_path.parts[2]}/", "%%d/%%m"]


def test_a_condition_without_an_end(tmp_path: Path) -> None:
    """It ends with the file: the options that tune adds are not within it."""
    assert read(tmp_path, "[uwsgi]\nif-env = A\nharakiri = 3\n").render().endswith("\nharakiri = 3\nendif = \n")
    assert read(tmp_path, "[uwsgi]\nif-env = A\nharakiri = 3\nendif =\n").render().count("endif") == 1
