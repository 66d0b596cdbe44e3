"""What of an ini file and of an access log is measured, what is left out, and how the file is edited."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.tune.command import MOST_PATHS, find_paths, is_path, read_access_log
from uwsgi_headroom.tune.ini import Ini, edit_ini, is_kept, make_diff, read_ini

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
attach-daemon = redis-server
mule = shop.mule
spooler = /var/spool/shop
logto = /var/log/shop.log
hook-post-app = exec:/usr/bin/notify
uid = www-data
cache2 = name=a,items=100,store=/var/cache/a,blocksize=64
"""


LEFT = "http-socket stats cron attach-daemon mule spooler logto hook-post-app uid"


def write(directory: Path, text: str, name: str = "shop.ini") -> Path:
    path = directory / name
    path.write_bytes(text.encode())
    return path


def read(directory: Path, text: str) -> Ini:
    return read_ini(str(write(directory, text)))


def test_what_decides_performance_is_kept(tmp_path):
    """And nothing that reaches beyond the server: sockets, programs, files, other servers."""
    ini = read(tmp_path, EVERYTHING)
    kept = EVERYTHING.partition("[uwsgi]\n")[2].replace("%d", f"{tmp_path}/").replace("store=/var/cache/a,", "")
    lines = [line for line in kept.splitlines() if line.split(" = ")[0] not in (*LEFT.split(), "workers", "threads")]
    assert ini.render().splitlines() == ["[uwsgi]", *lines, "endif = "]
    assert (ini.present, ini.cheaper) == (Setting(4, 8), 0)
    assert ini.left_out == tuple(LEFT.split())


BEYOND = """
cron legion-cron attach-daemon smart-attach-daemon2 attach-control-daemon mule mules farm spooler spooler-processes
http https http-to fastrouter socket uwsgi-socket shared-socket stats stats-push carbon logto logto2 log-syslog logger
req-logger daemonize daemonize2 pidfile touch-reload fs-reload hook-post-app hook-as-user exec-asap call-asap chroot
setns zerg-server alarm emperor vassals-dir eval worker-exec re-fork timer rbtimer metric-dir snmp master-fifo idle
cheap reuse-port uid gid log-route log-req-route log-drain listen-queue-alarm an-option-of-another-plugin %(x)-socket
"""
KEPT = """
module wsgi-file mount callable pythonpath virtualenv home plugins plugin-dir env chdir enable-threads harakiri
lazy-apps single-interpreter need-app post-buffering socket-timeout max-worker-lifetime reload-on-rss static-map
offload-threads route disable-logging log-format log-slow logdate cpu-affinity cache2 queue so-keepalive reload-mercy
log-x-forwarded-for import if-env endif set-placeholder threads-stacksize umask thunder-lock listen max-requests
"""


@pytest.mark.parametrize("option", [*BEYOND.split(), *KEPT.split()])
def test_options_that_decide_performance_are_kept(option):
    """Those that reach beyond the server, or are unknown, are left out."""
    assert is_kept(option) == (option in KEPT.split())


@pytest.mark.parametrize(
    ("options", "expected", "cheaper"),
    [
        ("", Setting(1, 1), 0),
        ("processes = 3\nworkers = 5", Setting(5, 1), 0),
        ("set = processes=7", Setting(7, 1), 0),
        ("processes = 4\ncheaper = 2", Setting(4, 1), 2),
        ("if-env = A\nharakiri = 3\nend =\nprocesses = 4", Setting(4, 1), 0),
        ("if-env = A\nif-env = B\nharakiri = 3\nendif =\nprocesses = 4", Setting(4, 1), 0),
        ("processes = 4\nif-exists = missing.ini\nini = missing.ini\nendif =", Setting(4, 1), 0),
    ],
)
def test_the_present_setting(tmp_path, options, expected, cheaper):
    """As uWSGI counts: the last value, and its defaults."""
    ini = read(tmp_path, f"[uwsgi]\nmodule = a\n{options}\n")
    assert (ini.present, ini.cheaper) == (expected, cheaper)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "shop.ini has no options in a section [uwsgi]"),
        ("module = a\n", "has no options in a section"),
        ("[uwsgi]\nmodule = a\0\n", "is not an ini file: it is too large, or binary"),
        ("[uwsgi]\nmodule = a\nprocesses = many\n", "tune needs the number of processes, not 'many'"),
        ("[uwsgi]\nmodule = a\nprocesses = %k\n", "tune needs the number of processes, not '%k'"),
        ("[uwsgi]\nmodule = a\nif-env = A\nthreads = 2\nendif =\n", "the number of threads, not '2' or a cond"),
        ("[uwsgi]\nmodule = a\nprocesses = 0\n", "tune needs the number of processes, not '0'"),
        ("[uwsgi]\ngevent = 100\n", "share their requests, not for gevent"),
        ("[uwsgi]\nmap-socket = 0:1\n", "share their requests, not for map-socket"),
        ("[uwsgi]\nyaml = a.yml\n", "line 2: tune reads ini files only, and yaml loads another"),
        ("[uwsgi]\nemperor = /etc/vassals\n", "names no application; for an emperor"),
        ("[uwsgi]\nini = missing.ini\n", "missing.ini cannot be read: No such file"),
        ("[uwsgi]\nini = http://a/b.ini\n", "tune cannot follow http://a/b.ini"),
        ("[uwsgi]\nini = %(base).ini\n", "tune cannot follow %(base).ini"),
        ("[uwsgi]\nini = :uwsgi\n", "includes more than 20 files"),
    ],
)
def test_the_message_says_where_and_why_a_file_cannot_be_used(tmp_path, text, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)


def test_included_files(tmp_path):
    """Their options stand where the file is included, and inherited ones at the end; paths are those of each file."""
    (tmp_path / "base").mkdir()
    text = "[uwsgi]\nthreads = 2\nmodule = %d\nchdir = %D\n[more]\nbuffer-size = 1\n"
    base = write(tmp_path / "base", text, "base.ini")
    last = write(tmp_path, "[uwsgi]\nprocesses = 9\n", "last.ini")
    ini = read(tmp_path, f"[uwsgi]\ninherit = {last}\nini = {base}\nini = :more\nprocesses = 4\nhome = %p\n")
    assert ini.present == Setting(9, 2)
    module, chdir, home = f"{tmp_path}/base/", f"{tmp_path}/", f"{tmp_path}/shop.ini"
    assert ini.kept == (("module", module), ("chdir", chdir), ("buffer-size", "1"), ("home", home))


def test_only_the_given_section_is_measured_and_edited(tmp_path):
    path = write(tmp_path, "[uwsgi]\nmodule = a\n[staging]\nmodule = b\nthreads = 2\n")
    ini = read_ini(f"{path}:staging")
    assert (ini.kept, ini.present) == ((("module", "b"),), Setting(1, 2))
    assert edit_ini(ini, Setting(1, 4)) == "[uwsgi]\nmodule = a\n[staging]\nmodule = b\nthreads = 4\n"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        # Values that other lines refer to are filled in: uWSGI knows only the options that its file has.
        ("pidfile = /run/a\nworkers = 3\nenv = A=%(pidfile) %(workers) %(other)", ["A=/run/a 3 %(other)"]),
        # Digits are parts of the file's directory; `%%` is a percent sign, whatever follows.
        ("home = %0/%1/%9\nlog-format = %%d/%%m", ["{0}/{1}/", "%%d/%%m"]),
    ],
)
def test_variables(tmp_path, text, kept):
    ini = read(tmp_path, f"[uwsgi]\nmodule = a\n{text}\n")
    assert [value for _, value in ini.kept] == ["a", *(value.format(*tmp_path.parts[1:3]) for value in kept)]


SHOP = """\
[uwsgi]
; how many
workers=4
  threads  =  8
module = a
[other]
processes = 1
"""


def edit(directory: Path, text: str, chosen: Setting) -> str:
    return edit_ini(read(directory, text), chosen)


def test_values_are_replaced_where_they_are(tmp_path):
    after = edit(tmp_path, SHOP, Setting(8, 2))
    assert after == SHOP.replace("workers=4", "workers=8").replace("threads  =  8", "threads  =  2")
    # A missing option is added beside the other, in the section that uWSGI reads; an included file stays.
    base = write(tmp_path, "[uwsgi]\nmodule = a\n", "base.ini")
    text = f"[uwsgi]\nprocesses = 2\nini = {base}\n[other]\nthreads = 5\n"
    assert edit(tmp_path, text, Setting(2, 4)) == text.replace("processes = 2\n", "processes = 2\nthreads = 4\n")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "module = b"])
def test_the_diff_can_be_applied(tmp_path, ending, last):
    before = ending.join(["[uwsgi]", "module = a", "processes = 4", last])
    after = edit(tmp_path, before, Setting(8, 2))
    diff = make_diff(before, after, tmp_path / "shop.ini")
    command = ["git", "apply", "--whitespace=nowarn"]
    done = subprocess.run(command, cwd=tmp_path, input=diff.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "shop.ini").read_bytes() == after.encode()


NAMES = st.sampled_from(["harakiri", "cron", "env", "my-option", "processes", "workers", "threads"])
VALUES = st.text(st.characters(exclude_characters="\n\r%\0", exclude_categories=["Cs", "Cc", "Zs"]), max_size=30)
SETTINGS = st.builds(Setting, st.integers(1, 64), st.integers(1, 64))


@settings(max_examples=60)
@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), SETTINGS)
def test_only_the_setting_changes(tmp_path_factory, options, chosen):
    """The edited file has the chosen setting, and all its other lines, in their order."""
    tuned = ("processes", "workers", "threads")
    lines = [f"{name} = {'3' if name in tuned else value}" for name, value in options]
    text = "\n".join(["; before", "[uwsgi]", "module = a", *lines, "[other]", "threads = 5", ""])
    directory = tmp_path_factory.getbasetemp()
    after = edit(directory, text, chosen)
    assert read(directory, after).present == chosen
    others = [line for line in text.split("\n") if line.split(" = ")[0] not in tuned]
    assert [line for line in after.split("\n") if line.split(" = ")[0] not in tuned] == others


COMMON = b'192.0.2.7 - ann [23/Nov/2026:04:00:00 +0000] "%s HTTP/1.1" 200 512\n'
COMBINED = COMMON.rstrip() + b' "https://shop.example/cart?token=secret" "Mozilla/5.0 (X11) \\"odd\\""\n'


def log(directory: Path, *requests: bytes, form: bytes = COMMON) -> Path:
    path = directory / "access.log"
    path.write_bytes(b"".join(form % request for request in requests))
    return path


@pytest.mark.parametrize("form", [COMMON, COMBINED])
def test_only_get_is_repeated(tmp_path, form):
    """In the order of the log; other methods may change data."""
    path = log(tmp_path, b"GET /a?b=c", b"POST /pay", b"HEAD /a", b"GET /", form=form)
    assert find_paths((), str(path)) == (("/a?b=c", "/"), "2 paths of access.log")


@pytest.mark.parametrize(
    ("request_line", "path"),
    [
        (b"GET http://shop.example/a?b", "/a?b"),
        (b"GET /caf\\xC3\\xA9", "/caf%C3%A9"),
        (b"GET *", None),
        (b"GET //evil.example/", None),
        (b"GET http://shop.example", None),
        (b"GET /" + b"a" * 3000, None),
        (b"GET /caf\xc3\xa9", None),
    ],
)
def test_odd_targets(tmp_path, request_line, path):
    """A proxy's log has whole URLs, and logs escape bytes; what is no path is left out."""
    assert read_access_log(log(tmp_path, request_line, b"GET /z")) == ((path, "/z") if path else ("/z",))


def test_the_latest_requests_of_a_long_log_count(tmp_path):
    paths = read_access_log(log(tmp_path, *(b"GET /%d" % number for number in range(2 * MOST_PATHS))))
    assert paths == tuple(f"/{number}" for number in range(MOST_PATHS, 2 * MOST_PATHS))


@pytest.mark.parametrize("content", [b"", b"nonsense\n", COMMON % b"POST /a", b'1 - - [x] "GET /a HTTP/1.1" - 5\n'])
def test_a_log_without_usable_lines(tmp_path, content):
    """The message says what is expected; without a file, it is the kernel's."""
    with pytest.raises(ConfigError, match=r"access\.log cannot be read: No such file or directory"):
        find_paths((), str(tmp_path / "access.log"))
    (tmp_path / "access.log").write_bytes(content)
    with pytest.raises(ConfigError, match="has no GET request in the common or combined log format"):
        read_access_log(tmp_path / "access.log")


@pytest.mark.parametrize("text", ["items", "//host/a", "/a b", "/a\n", "http://host/", "", "/ü"])
def test_what_is_no_path(text):
    assert not is_path(text)
    with pytest.raises(ConfigError, match="tune loads only its own server"):
        find_paths((text,), None)


def test_given_paths_are_named_without_their_queries():
    """A query may hold a token."""
    assert find_paths(("/a?token=7", "/b"), None) == (("/a?token=7", "/b"), "/a /b")
