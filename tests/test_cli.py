"""The command line: help, mistakes, exit status, logs."""

import contextlib
import json
import logging
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys

import pytest

from tests.support.captured_documents import path
from tests.support.exporter import COMMAND, clean_environment, run
from tests.web.security.secure_server import write_certificates
from uwsgi_headroom import __version__, cli, logs
from uwsgi_headroom.errors import LONGEST_MESSAGE, HeadroomError
from uwsgi_headroom.service import serve
from uwsgi_headroom.store.file import VERSION, open_to_write
from uwsgi_headroom.web import listeners
from uwsgi_headroom.web.listeners import is_exposed

FIXTURE = path("2.0.31_threads")
LIBRARIES = {"asyncio", "msgspec", "prometheus_client", "psutil", "rich", "starlette", "yaml"}


def ended(capsys, *arguments):
    """The exit status, output and error output of a command line."""
    try:
        status = cli.main(arguments)
    except SystemExit as ending:
        status = int(ending.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("arguments", [("--version",), ("-V",), ("serve", "--version")])
def test_version(capsys, arguments):
    assert ended(capsys, *arguments) == (0, f"uwsgi-headroom {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--stat", "/a"), 2),
        (("serve", "--log.lev", "debug"), 2),
        (("check", "--form", "json", "/a"), 3),
        (("top", "--onc"), 2),
        (("report", "--hist=/a"), 2),
    ],
)
def test_abbreviated_flags_are_refused(capsys, arguments, status):
    """A flag has one name: an abbreviation would change its meaning, or become ambiguous, with the next flag."""
    ending, out, err = ended(capsys, *arguments)
    assert (ending, out) == (status, "")
    flag = next(word for word in arguments if word.startswith("--")).partition("=")[0]
    assert f"unknown option {flag}; did you mean {flag}" in err


def test_help(capsys):
    assert "discover" in ended(capsys, "--help")[1]
    text = ended(capsys, "serve", "--help")[1]
    for word in ("--stats", "--config", "--web.listen-address", "--log.level", "--log.format", "UWSGI_HEADROOM_STATS"):
        assert word in text
    text = " ".join(ended(capsys, "check", "--help")[1].split())
    assert re.search(r"0 OK\s+1 warning\s+2 critical\s+3 unknown", text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--nonsense",),
        ("nonsense",),
        ("serve", "nonsense"),
        ("discover", "nonsense"),
        ("top", "--interval", "0"),
        ("--stats",),
        ("--stats", "shop"),
        ("serve", "--stats", "shop"),
        ("--stats", "/a/stats", "--stats", "/b/stats"),
        ("--config", "/nowhere.yml"),
        ("--stats", "/a", "--log.level", "loud"),
        ("--stats", "/a", "--web.listen-address", "here"),
        ("--stats", "/a", "--web.listen-address", "a..b:9238"),
        ("--stats", "/a", "--web.listen-address", "no-such-host.invalid:1"),
        ("--stats", "/a", "--web.listen-address", "192.0.2.1:1"),
    ],
)
def test_wrongly_called(capsys, arguments):
    """A wrong call ends with status 2 and a line on standard error that repeats the wrong argument."""
    status, out, err = ended(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err
    assert "Traceback" not in err


MISTAKES = [
    (("--nonsense", "/a"), "unknown option --nonsense"),
    (("/a", "--seconds", "1"), "expected 2 to 3600 seconds, not 1"),
    (("tpc://a:1",), "unknown scheme tpc://"),
    (("shop",), "'shop' is not a stats address"),
    (("/a", "/a"), "another server is already named 'a'"),
]


@pytest.mark.parametrize(("arguments", "reason"), [*MISTAKES, (("/a", "--format", "xml"), "invalid choice: 'xml'")])
def test_a_check_that_is_wrongly_called_is_unknown(capsys, arguments, reason):
    """Only a verdict ends with 0, 1 or 2, because a monitoring system takes these for the server's state."""
    status, out, err = ended(capsys, "check", *arguments)
    assert (status, out) == (3, "")
    assert err.startswith("UNKNOWN  ")
    assert reason in err.splitlines()[0]


def unknown(capsys, *arguments):
    """The document and the line for a monitoring system of a check without a verdict."""
    status, out, err = ended(capsys, "check", "--format=json", *arguments)
    document = json.loads(out)
    assert (status, err, document["status"]) == (3, "", "unknown")
    status, out, err = ended(capsys, "check", *arguments, "--format", "nagios")
    assert (status, err, out.count("\n")) == (3, "", 1)
    assert out.startswith("UNKNOWN - ")
    return document, out


@pytest.mark.parametrize(("arguments", "reason"), MISTAKES)
def test_a_wrong_call_has_the_format_that_was_asked_for(capsys, arguments, reason):
    document, line = unknown(capsys, *arguments)
    assert document["error"]["reason"] == "usage"
    assert reason in document["verdict"]
    assert reason in line


@pytest.mark.parametrize(
    "arguments", [("/nowhere/stats",), ("/nowhere/*.stats",), ("/nowhere/stats", "/nowhere/other")]
)
def test_what_is_not_there_has_the_format_that_was_asked_for(capsys, arguments):
    """A server that is down is a verdict like any other, printed on standard output in every format."""
    status, out, err = ended(capsys, "check", *arguments)
    assert (status, err) == (3, "")
    assert "UNKNOWN" in out
    assert "|" not in unknown(capsys, *arguments)[1]


def test_a_check_that_cannot_be_is_unknown(capsys):
    """Before the server is watched: a monitoring system would take status 2 for a server that is critical."""
    status, out, err = ended(capsys, "check", "/nowhere.stats", "--max-p95", "30ms:2s", "--format", "nagios")
    assert (status, err) == (3, "")
    assert out.startswith("UNKNOWN - --max-p95: 30ms cannot be judged with 40 samples per second; the least is 50ms")


def test_a_wrong_call_takes_two_lines(capsys):
    """What is wrong and where help is. A misspelt command is no verdict, so its status is not that of one."""
    meant = "uwsgi-headroom: unknown command chekc; did you mean check?\nSee `uwsgi-headroom --help`.\n"
    assert ended(capsys, "chekc", "/a", "--format", "nagios") == (2, "", meant)
    meant = "UNKNOWN  unknown option --fromat; did you mean --format?\nSee `uwsgi-headroom check --help`.\n"
    assert ended(capsys, "check", "/a", "--fromat", "json") == (3, "", meant)


@pytest.mark.parametrize(("arguments", "same"), [(("help",), ("--help",)), (("help", "check"), ("check", "--help"))])
def test_help_is_a_command_too(capsys, arguments, same):
    assert ended(capsys, *arguments) == ended(capsys, *same)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (KeyError("x"), "a bug in uwsgi-headroom (KeyError in test_cli.py, line "),
        (KeyboardInterrupt(), "interrupted"),
        (BrokenPipeError(), ""),
    ],
)
def test_a_check_that_fails_is_unknown(capfd, monkeypatch, failure, reason):
    """A fault of the program itself, and Ctrl-C, print one line; nothing is printed after the reader has left."""

    def fail(_line, _options):
        raise failure

    monkeypatch.setitem(cli._COMMANDS, "check", fail)
    monkeypatch.setattr(cli, "_discard_output", lambda: None)
    assert cli.main(["check", "/a"]) == 3
    err = capfd.readouterr().err
    assert reason in err
    assert err.count("\n") == bool(reason)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("check", f"file://{FIXTURE}", "--seconds", "2"), 3),
        (("check", "/nowhere", "--format", "json"), 3),
        (("check", "/nowhere", "--format", "nagios"), 3),
        (("top", "--once", "--seconds", "2", f"file://{FIXTURE}"), 1),
        (("completion", "bash"), 1),
    ],
)
def test_output_for_which_there_is_no_room(arguments, status):
    """The message says why, if there is room for that, and never is the status that of a verdict nobody has read."""
    for errors in (subprocess.PIPE, None):
        with open("/dev/full", "w") as full:
            kept = {"stdout": full, "stderr": errors or full, "env": clean_environment()}
            ran = subprocess.run([*COMMAND, *arguments], text=True, check=False, **kept)
        assert ran.returncode == status
        assert errors is None or ran.stderr.endswith("No space left on device\n")
        assert "Traceback" not in (ran.stderr or "")


def test_a_standard_stream_that_is_closed():
    """Nothing else gets its descriptor, to which the log would be written."""
    reading, writing = os.pipe()
    program = f"""
import os, sys
from uwsgi_headroom.__main__ import open_closed_streams
for descriptor in range(3):
    os.close(descriptor)
sys.stdin = sys.stdout = sys.stderr = None
open_closed_streams()
print(sys.stdin.read(), file=sys.stdout, flush=True)
print("lost", file=sys.stderr, flush=True)
os.write({writing}, "".join(os.readlink(f"/proc/self/fd/{{each}}") for each in range(3)).encode())
"""
    subprocess.run([sys.executable, "-c", program], pass_fds=[writing], check=True)
    os.close(writing)
    with os.fdopen(reading) as answer:
        assert answer.read() == 3 * os.devnull
    command = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *COMMAND, "completion", "bash"]
    assert subprocess.run(command, check=False, env=clean_environment()).returncode == 0


def test_mistakes_end_it(capsys, tmp_path, monkeypatch):
    """In the file, in an argument, in a variable."""
    path = tmp_path / "headroom.yml"
    path.write_text("servers:\n  - stat: /a\n")
    status, _, err = ended(capsys, "--config", str(path))
    assert status == 2
    assert err == f"uwsgi-headroom: {path}:2: unknown key 'stat'; did you mean 'stats'?\n"
    assert ended(capsys, "discover", "\x1b]0;x\x07\n")[2].startswith(
        "uwsgi-headroom: unexpected argument: \\x1b]0;x\\x07\\n\n"
    )
    assert ended(capsys, "check", "\u202e")[2].count("\\u202e") == 1
    monkeypatch.setenv("UWSGI_HEADROOM_STAT", "/a")
    status, _, err = ended(capsys, "serve")
    assert (status, err) == (
        2,
        "uwsgi-headroom: unknown environment variable UWSGI_HEADROOM_STAT; did you mean UWSGI_HEADROOM_STATS?\n",
    )


def test_a_port_that_is_taken(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, _, err = ended(capsys, "--stats", "/a", "--web.listen-address", address)
    assert status == 2
    assert f"{address} is in use by another program" in err
    assert "--web.listen-address" in err


def test_a_mistake_prints_no_traceback():
    """A message keeps its first and its last words."""
    ran = run("--stats", "shop")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("uwsgi-headroom: --stats: ")
    assert "Traceback" not in ran.stderr
    message = str(HeadroomError(f"config.yml: {'x' * 1_000_000}: give a name"))
    assert len(message) < LONGEST_MESSAGE + 100
    assert message.startswith("config.yml: ")
    assert message.endswith(": give a name")
    assert f"[{1_000_000 + 25 - LONGEST_MESSAGE:,} characters]" in message


@pytest.mark.parametrize("command", [("retire", "shop"), ("report",)])
def test_a_file_that_cannot_be_looked_for(capsys, tmp_path, command):
    """As in a directory of another user; of a name that is too long, root cannot either."""
    status, _, err = ended(capsys, *command, "--history", f"{tmp_path}/{'x' * 256}")
    assert (status, err.startswith(f"uwsgi-headroom: {tmp_path}/xxx")) == (1, True)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("cli", ()),
        ("service.serve", ()),
        ("check.command", ("check", "/nowhere")),
        ("top.feeds", ("top", "/nowhere")),
        ("discover", ("discover",)),
    ],
)
def test_ctrl_c_while_it_loads(module, arguments):
    program = f"""
import signal, sys
from uwsgi_headroom.__main__ import main

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "uwsgi_headroom.{module}":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
main()
"""
    ran = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("command", ["serve", "check", "top", "discover", "completion", ""])
def test_help_imports_no_command(command):
    words = [sys.executable, "-X", "importtime", *COMMAND[1:], *command.split(), "--help"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, env=clean_environment())
    assert f"usage: uwsgi-headroom {command}".strip() in ran.stdout
    imported = [line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()]
    assert "uwsgi_headroom.cli" in imported
    assert LIBRARIES.intersection(name.partition(".")[0] for name in imported) == set()


def _line(style, capfd, **fields):
    logs.configure("info", style)
    logging.getLogger("uwsgi_headroom.test").warning("it is so", extra={"fields": fields})
    logging.getLogger().handlers[0].flush()
    return capfd.readouterr().err


VALUES = ('x "y"\nlevel=info', "", "=", "\x1b[31m", "caf\udce9", "🦄", None, "\x9b2J \u202e\u200b")
HOSTILE = dict(zip("abcdefgh", VALUES, strict=True))


def test_a_line_of_the_log_is_one_line(capfd):
    line = _line("logfmt", capfd, **{key: value for key, value in HOSTILE.items() if key != "e"})
    assert line.count("\n") == 1
    assert not {"\x1b", "\x9b", "\u202e", "\u200b"} & set(line)
    assert 'h="\\x9b2J \\u202e\\u200b"' in line
    assert line.count(" level=") == 1
    assert 'msg="it is so" a="x \\"y\\"\\nlevel=info" b="" c="="' in line
    line = _line("json", capfd, **HOSTILE)
    assert line.count("\n") == 1
    assert line.isascii()
    document = json.loads(line)
    assert (document["level"], document["msg"]) == ("warning", "it is so")
    assert {key: document[key] for key in HOSTILE} == HOSTILE
    assert document["ts"].endswith("Z")


def test_variables_of_orchestration_are_one_line_of_the_log():
    names = ["UWSGI_HEADROOM_PORT", "UWSGI_HEADROOM_SERVICE_HOST"]
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that the exporter ends once it has tried to listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*COMMAND, "--stats", "/a", "--web.listen-address", address]
        environment = {**clean_environment(), **dict.fromkeys(names, "tcp://10.0.0.1:9238")}
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    (line,) = [line for line in ran.stderr.splitlines() if "ignored" in line]
    assert 'level=warning msg="unknown environment variables are ignored"' in line
    assert line.endswith(f'names="{" ".join(names)}"')
    assert f"{address} is in use" in ran.stderr


@pytest.mark.parametrize(
    ("host", "exposed"),
    [("127.0.0.1", False), ("127.1.2.3", False), ("::1", False), ("0.0.0.0", True), ("::", True), ("fe80::1%lo", True)],
)
def test_a_listener_beyond_loopback_is_exposed(host, exposed):
    """The log warns about such listeners, because there is neither login nor TLS."""
    assert is_exposed(host) == exposed


def test_a_listener_on_loopback_is_no_warning(capfd, monkeypatch):
    monkeypatch.setattr(serve, "serve_until_signal", lambda *_: None)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        for exposed in (False, True):
            monkeypatch.setattr(listeners, "is_exposed", lambda _host, exposed=exposed: exposed)
            status = cli.main(["--stats", "/a", "--web.listen-address", "127.0.0.1:0"])
            logging.getLogger().handlers[0].flush()
            lines = [line for line in capfd.readouterr().err.splitlines() if "no login and no TLS" in line]
            assert (status, len(lines)) == (0, int(exposed))
    finally:
        signal.signal(signal.SIGINT, interrupt)
    assert "level=warning" in lines[0]
    assert "url=http://127.0.0.1:" in lines[0]


CONFIGURATION = """
servers:
  - {name: shop, stats: ./shop.stats, log: LOG}
  - {stats: "./vassals/*.sock", expect: [blog, wiki]}
history: history.sqlite
web: {listen_address: ":9238", config_file: tls/web.yml}
routes: true
"""
WEB = "tls_server_config: {cert_file: server.pem, key_file: server.key}\nbasic_auth_users: {me: $2b$04$HASH}\n"
HASH = "abcdefghijklmnopqrstuu5Lh1CBKVWJFL1eFNpWSJlGsPyfTfMYy"


@pytest.fixture
def config_path(tmp_path, monkeypatch):
    """A configuration file that names others beside it. The working directory is another one."""
    (tmp_path / "tls").mkdir()
    (tmp_path / "vassals").mkdir()
    write_certificates(tmp_path / "tls")
    (tmp_path / "tls" / "web.yml").write_text(WEB.replace("HASH", HASH))
    (tmp_path / "shop.log").touch()
    file = tmp_path / "headroom.yml"
    file.write_text(CONFIGURATION.replace("LOG", str(tmp_path / "shop.log")))
    monkeypatch.chdir("/")
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    return file


def checked(capsys, config_path, *more):
    status = cli.main(["--check-config", "--config", str(config_path), *more])
    return status, *capsys.readouterr()


def test_what_the_exporter_would_do(config_path, capsys):
    """Servers with their names, what is missing of them now, addresses and files; nothing is written."""
    with contextlib.ExitStack() as listeners:
        for name in ("blog", "news"):
            listener = listeners.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(config_path.parent / "vassals" / f"{name}.sock"))
        before = sorted(config_path.parent.rglob("*"))
        status, out, err = checked(capsys, config_path)
        assert (status, err, sorted(config_path.parent.rglob("*"))) == (0, "", before)
    rows = {line.partition(" ")[0]: line[13:] for line in out.splitlines()}
    assert rows["settings"].startswith(f"{config_path}, as user ")
    assert rows["server"] == f"shop: unix://{config_path.parent}/shop.stats (not there now)"
    assert (
        rows["pattern"]
        == f"{config_path.parent}/vassals/*.sock: 2 sockets now: blog and news; expected, and not there: wiki"
    )
    assert rows["listen"] == "https://*:9238/, with a login"
    assert rows["history"] == f"{config_path.parent}/history.sqlite, 1.0 GB at most"
    assert rows["opt-in"] == "routes"
    assert out.splitlines()[-1] == "ok"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("routes:", "ruotes:", "headroom.yml:7: unknown key 'ruotes'; did you mean 'routes'?"),
        ("history:", "  - shop=/run/other\nhistory:", "another server is already named 'shop'"),
        ("tls/web.yml", "web.yml", "web.yml: No such file"),
        (", config_file: tls/web.yml", "", "--routes: other machines can reach :::9238, where there is no login"),
        ('":9238"', "no.such.host.invalid:1", "no.such.host.invalid"),
        ("shop.log", "gone.log", "gone.log: No such file"),
        ("shop.log", "vassals", "vassals: not a regular file"),
        ("history.sqlite", "none/history.sqlite", "none: no such directory"),
        ("history.sqlite", "shop.log", ""),
        ("history.sqlite", "tls/web.yml", "web.yml is not a history file"),
        ("history.sqlite", "vassals", "vassals is not an ordinary file"),
    ],
)
def test_what_is_wrong(config_path, capsys, before, after, said):
    """One sentence on standard error, and the exit status 1. An empty file may become a history file."""
    text = config_path.read_text()
    assert before in text
    config_path.write_text(text.replace(before, after))
    status, out, err = checked(capsys, config_path)
    assert (status, said in err, out.endswith("ok\n")) == ((1, True, False) if said else (0, True, True))


def test_what_this_user_may_not_read(config_path, capsys, monkeypatch):
    """The user is named, because the exporter may run as another one; a stats socket is no fault of the settings."""
    (config_path.parent / "shop.stats").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    status, out, err = checked(capsys, config_path)
    assert status == 1
    assert f"{config_path.parent}/shop.stats (user " in out
    assert [line.rpartition(": ")[2].startswith("user ") for line in err.splitlines()] == [True, True]


def test_a_history_file_is_left_as_it_is(config_path, capsys):
    """It is recognized by its header, without SQLite's own files beside it; a newer version's is refused."""
    history = config_path.parent / "history.sqlite"
    database = open_to_write(history)
    database.close()
    before = history.read_bytes()
    assert checked(capsys, config_path)[0] == 0
    assert (history.read_bytes(), list(config_path.parent.glob("history*"))) == (before, [history])
    with contextlib.closing(sqlite3.connect(history)) as newer:
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    assert "was written by a newer version" in checked(capsys, config_path)[2]
    with contextlib.closing(sqlite3.connect(history)) as other:
        other.execute("PRAGMA application_id = 7")
    assert "is a database of another program" in checked(capsys, config_path)[2]


def test_flags_are_part_of_the_settings(config_path, capsys):
    """As for `serve`: they override the file, and a wrong one is an error."""
    status, out, _ = checked(
        capsys, config_path, "--web.listen-address", "127.0.0.1:1", "--stats", "a=tcp://127.0.0.1:2"
    )
    assert status == 0
    assert "listen       https://127.0.0.1:1/, with a login\n" in out
    assert "server       a: tcp://127.0.0.1:2\n" in out
    assert checked(capsys, config_path, "--window", "1d")[0] == 1
