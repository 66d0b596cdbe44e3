"""`check --save` keeps what was judged, without names, and `check FILE` judges it again."""

import asyncio
import contextlib
import json
import os
import re
import socket
import threading
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.check.test_check import clients
from tests.frozen.judgement import WINDOWS, decode_given, read_lines
from tests.support.exporter import run
from tests.support.real_uwsgi import uwsgi
from uwsgi_headroom.analysis.backends import BackendSlices
from uwsgi_headroom.analysis.figures import Known, compute_figures
from uwsgi_headroom.analysis.findings import collect_findings, correct_headroom
from uwsgi_headroom.analysis.findings.threads import find_change
from uwsgi_headroom.check import command, saved
from uwsgi_headroom.check.command import judge, share_samples
from uwsgi_headroom.check.reports import render_lines
from uwsgi_headroom.check.request import Request
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.documents.build import build_past
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.kernel.host import wait_until_ready
from uwsgi_headroom.routes import Templates
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.code_watch import CHECK
from uwsgi_headroom.watch.reader import RouteNamer
from uwsgi_headroom.watch.watch import Watch

_APP = """
import socket, time

class HiddenError(Exception):
    pass

def hidden_function():
    time.sleep(0.1)

def hidden_query():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("BACKEND")
        client.recv(1)

def application(environ, start_response):
    if "fail" in environ["PATH_INFO"]:
        raise HiddenError("hidden text")
    hidden_query() if "query" in environ["PATH_INFO"] else hidden_function()
    start_response("200 OK", [])
    return [b"ok"]
"""
_BACKEND = "hidden-redis.sock"
_STAND_IN = re.compile(r"/path-\d+|name-\d+|4000\d")


def _write_app(directory: Path) -> Path:
    app = directory / "hidden_directory" / "hidden_app.py"
    app.parent.mkdir()
    app.write_text(_APP.replace("BACKEND", str(directory / _BACKEND)))
    return app


def _mask(value, pattern):
    """A document with names masked, in any order of its keys."""
    if isinstance(value, dict):
        return {pattern.sub("X", key): _mask(each, pattern) for key, each in value.items()}
    if isinstance(value, list):
        return [_mask(each, pattern) for each in value]
    return " ".join(pattern.sub("X", value).split()) if isinstance(value, str) else value


def _planted(server, app):
    names = [
        *(str(app), f"{app.parent.name}/{app.name}", server.stats, server.socket, str(server.directory)),
        *("hidden_function", "hiddenshop", os.uname().nodename, str(server.http)),
    ]
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})(?!\w)")


@pytest.mark.integration
def test_the_file_of_a_check_gives_the_same_report(tmp_path):
    """The document is the same but for names, and the text is made of it. Only the owner may read the file, and it is
    not overwritten."""
    app, path = _write_app(tmp_path), tmp_path / "saved"
    with (
        uwsgi("--processes", "2", "--threads", "2", app=app) as server,
        clients(*[server.http] * 5, path="/hidden-path?hidden=1"),
    ):
        given = ("check", f"hiddenshop={server.stats}", "--seconds", "4", "--code")
        first = run(*given, "--json", "--save", str(path))
        names = _planted(server, app)
        again = run(*given, "--save", str(path))
    assert again.returncode == 3
    assert "overwrites nothing" in again.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    replayed = run("check", str(path), "--json")
    assert (first.returncode, first.stderr) == (replayed.returncode, replayed.stderr)
    assert first.returncode in (1, 2)
    document = json.loads(first.stdout)
    assert document["code"]["lines"]
    assert _mask(document, names) == _mask(json.loads(replayed.stdout), _STAND_IN)
    text = run("check", str(path), "--all").stdout.splitlines()
    assert text == list(render_lines(msgspec.json.decode(replayed.stdout, type=ServerDocument), everything=True))


@contextlib.contextmanager
def _slow_backend(path):
    """A UNIX socket that answers each client after a fifth of a second."""
    stop = threading.Event()

    def answer(client):
        with client, contextlib.suppress(OSError):
            stop.wait(0.2)
            client.send(b"x")

    def serve():
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                threading.Thread(target=answer, args=(listener.accept()[0],)).start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(100)
        listener.settimeout(0.2)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _list_codes(document):
    return [(each["code"], each["severity"], [harm["code"] for harm in each["harms"]]) for each in document["findings"]]


@pytest.mark.integration
def test_the_file_has_no_names(tmp_path):
    """No name is in the bytes of the file: of a path, a backend, a cache, the log, an exception, a function. The
    findings are those of the run, and name the service."""
    app, path, log, spool = _write_app(tmp_path), tmp_path / "saved", tmp_path / "hidden.log", tmp_path / "hidden_spool"
    spool.mkdir()
    given = ("--cache2", "name=hiddencache,items=10", "--spooler", str(spool), "--logto", str(log), "--mule")
    with (
        _slow_backend(str(tmp_path / _BACKEND)),
        uwsgi("--processes", "2", "--threads", "2", *given, app=app) as server,
        clients(*[server.http] * 8, path="/hidden/query?hidden=1"),
        clients(server.http, path="/hidden/fail?hidden=1"),
    ):
        options = ("--code", "--uwsgi-log", str(log), "--seconds", "8", "--save", str(path))
        first = json.loads(run("check", f"hiddenshop={server.stats}", "--json", *options).stdout)
    again = json.loads(run("check", str(path), "--json").stdout)
    assert _list_codes(first) == _list_codes(again) != []
    before, after = ([{**each, "address": ""} for each in it["waits"]["destinations"]] for it in (first, again))
    assert before == after
    assert {each["name"] for each in after} == {"redis"}
    assert re.search("redis at /path-[0-9]+/redis.sock", json.dumps(again))
    assert _find_secrets(path.read_bytes(), server) == []


def _find_secrets(data, server):
    """Those of a run that the bytes of its file have."""
    secrets = ["[Hh]idden", server.directory.name, f":{server.http}", "/tmp", rf"\b{os.uname().nodename}\b"]
    return [each for each in secrets if re.search(each, data.decode())]


@pytest.mark.integration
def test_the_file_has_no_routes(tmp_path):
    app = _write_app(tmp_path)
    with uwsgi("--processes", "2", app=app) as server, clients(*[server.http] * 3, path="/hidden-path?hidden=1"):
        wait_until_ready()
        watch = Watch("hiddenshop", Unix(server.stats), routes=RouteNamer(Templates([])), code=CHECK)
        share_samples([watch])
        document = asyncio.run(judge(watch, Clock(), 4.0))
    assert [each.route for each in document.routes if "hidden-path" in each.route]
    path = tmp_path / "saved"
    path.write_bytes(saved.encode([saved.take(watch, document)]))
    assert _find_secrets(path.read_bytes(), server) == []
    (again,) = saved.replay(str(path))
    assert [each.threads for each in again.routes] == [each.threads for each in document.routes]
    assert any(re.fullmatch(r"GET /route-\d+", each.route) for each in again.routes)


def _make_look(known: Known, name: str = "shop") -> saved.Look:
    figures = correct_headroom(compute_figures(known))
    document = build_past(name, 1.0, figures)
    kept = replace(document, lines=(), verdict="", **dict.fromkeys(saved._JUDGED))
    pairs = tuple((known.destinations or {}).items())
    known = replace(known, destinations=None, server=saved._leave_out_destinations(known))
    return saved.Look(kept, (known,), (pairs,))


def test_no_judgement_depends_on_a_name(tmp_path):
    """Each frozen judgement is the same after it was saved: findings, their settings, and the headroom."""
    path, lines = tmp_path / "saved", list(read_lines(WINDOWS))
    for line in lines:
        taken = decode_given(line["given"])
        taken.pop("objective", None)
        figures = correct_headroom(compute_figures(Known(**taken)))
        path.write_bytes(saved.encode([_make_look(Known(**taken))]))
        (again,) = saved.replay(str(path))
        before = [(each.code, each.severity, dict(each.settings)) for each in collect_findings(figures)]
        assert [(each.code, each.severity, each.settings) for each in again.findings] == before, line["name"]
        assert again.headroom.by_limit == figures.headroom.by_limit, line["name"]


def _first_known() -> Known:
    taken = decode_given(next(iter(read_lines(WINDOWS)))["given"])
    taken.pop("objective", None)
    return Known(**taken)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/srv/shop/app.sock", r"/path-\d+"),
        ("/run/acme/redis-acme.sock", r"/path-\d+/redis\.sock"),
        ("/run/acme/.s.PGSQL.5432", r"/path-\d+/postgres\.sock"),
        ("/usr/share/acme.ini", r"/usr/share/path-\d+"),
        ("unix:///run/acme", r"unix:///path-\d+"),
        ("10.1.2.3:5432", r"name-\d+:5432"),
        ("db.acme.example:43210", r"name-\d+:4\d{4}"),
        ("127.0.0.1:43210", r"127\.0\.0\.1:4000\d"),
        ("[2001:db8::7]:6379", r"name-\d+:6379"),
        ("GET /orders/{id}", r"GET /route-\d+"),
        ("http://web1.acme:8080/hidden?token=1", r"http://name-\d+:4\d{4}/path"),
        ("@acme", r"@name-\d+"),
        ("journal:acme.service", r"journal:name-\d+"),
        ("acme", r"name-\d+"),
        ("command line", "command line"),
        ("pid:123", "pid:123"),
    ],
)
def test_stand_ins(text, kept):
    """A stand-in has the form of what it replaces, and keeps the service; one text has one stand-in."""
    names = saved._StandIns()
    assert re.fullmatch(kept, names.replace(text, "address"))
    assert names.replace(text, "name") == names.replace(text, "address")


@pytest.mark.parametrize(
    ("sentence", "kept"),
    [
        ("acme shop cannot read /srv/acme/x.log.", r"name-\d+ cannot read /path-\d+\."),
        ("10.1.2.3, 2001:db8::7 or fe80::1 at 16:16:02", r"name-\d+, name-\d+:4\d+ or name-\d+:4\d+ at 16:16:02"),
        ("db.acme.example does not answer", r"name-\d+ does not answer"),
        ("/proc hides it at 127.0.0.1; 2.0.31; 3/s", None),
    ],
)
def test_names_in_sentences_are_replaced(sentence, kept):
    names = saved._StandIns()
    for known in ("acme shop", "tcp://db.acme.example:1717"):
        names.replace(known, "name")
    names.seen = names.list_seen()
    shown = names.replace(sentence, "why")
    assert re.fullmatch(kept or re.escape(sentence), shown), shown


def _change_file(data: bytes, path: str, value) -> bytes:
    tree = json.loads(data)
    place = tree
    *parts, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    for part in parts:
        place = place[part]
    place[last] = value
    return json.dumps(tree, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("looks.0.document.time", 1e300),
        ("looks.0.document.time", float("nan")),
        ("looks.0.document.time", float("inf")),
        ("looks.0.known.0.server.workers.0.threads", 10**9),
        ("looks.0.known.0.server.workers.0.threads", "4"),
        ("looks.0.known.0.server.workers.0.state", "asleep"),
        ("looks.0.known.0.window.until", 10**400),
        ("looks.0.known.0.window", None),
        ("looks.0.known.0.backends", [[1, 2]]),
        ("looks.0.destinations", []),
        ("looks", {}),
        ("looks.0.known.0.server.address", "\ud800"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(path, value, tmp_path):
    file = tmp_path / "saved"
    file.write_bytes(_change_file(saved.encode([_make_look(_first_known())]), path, value))
    with pytest.raises(ConfigError, match="is damaged"):
        saved.replay(str(file))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (saved._BEGINNING + b"1," + b" " * saved.MOST_BYTES, "is damaged"),
        (saved._BEGINNING + b'1,"version":' + b"[" * 1_000_000, "is damaged"),
        (saved._BEGINNING + b'2,"version":"9.1.0","looks":"new"}', "was saved by uwsgi-headroom 9.1.0"),
        (saved._BEGINNING, "is damaged"),
    ],
)
def test_a_file_that_is_none_is_refused(data, problem, tmp_path):
    """In one sentence, by the command as well."""
    path = tmp_path / "saved"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=problem):
        saved.replay(str(path))
    ran = run("check", str(path))
    assert (ran.returncode, ran.stdout) == (3, "")
    assert problem in " ".join(ran.stderr.split())
    assert len(ran.stderr) < 500


def test_a_name_that_a_terminal_would_obey_is_escaped(tmp_path):
    path = tmp_path / "saved"
    path.write_bytes(_change_file(saved.encode([_make_look(_first_known())]), "looks.0.document.name", "\x1b[2Jshop"))
    ran = run("check", str(path))
    assert "\\x1b[2Jshop" in ran.stdout
    assert "\x1b" not in ran.stdout


def test_a_file_is_judged_alone_and_as_it_is(tmp_path):
    """No other address, and no flag that would need the server, goes with a file."""
    path = tmp_path / "saved"
    path.write_bytes(saved.encode([_make_look(_first_known())]))
    for more in (["--code"], ["--what-if", "8x4"], ["--seconds", "9"], ["--save", f"{path}2"], ["/run/other"]):
        ran = run("check", str(path), *more)
        assert ran.returncode == 3
        assert "is judged alone" in " ".join(ran.stderr.split())
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_nobody_named_is_not_judged(tmp_path):
    """As where a uWSGI that was found has put one at the path of its stats socket."""
    path = tmp_path / "saved"
    path.write_bytes(saved.encode([_make_look(_first_known())]))
    servers = [ServerConfig("shop", Unix(str(path)))]
    assert command._replay(servers, Request()) is None
    documents, _ = command._replay(servers, Request(addresses=(str(path),)))
    assert len(documents) == 1


def test_what_takes_the_place_of_a_file(tmp_path):
    """A FIFO, which would not let go, and nothing at all."""
    path = tmp_path / "saved"
    with pytest.raises(ConfigError, match="is damaged"):
        saved.replay(str(path))
    os.mkfifo(path)
    assert not saved.is_saved(str(path))
    with pytest.raises(ConfigError, match="is damaged"):
        saved.replay(str(path))


def test_without_anything_to_save_no_file_stays(tmp_path):
    path = tmp_path / "saved"
    with pytest.raises(KeyError), saved.saving(str(path)):
        raise KeyError
    assert not path.exists()
    with pytest.raises(ConfigError, match="cannot create"), saved.saving(str(tmp_path / "none" / "saved")):
        pass
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(ConfigError, match="cannot create"), saved.saving(str(link)):
        pass
    assert not path.exists()


def test_a_server_that_became_slower_is_judged_by_both_windows(tmp_path):
    """The last part of the time is compared with the whole of it, as in the run; slices of backends are kept."""
    slices = BackendSlices().restore([(2.0, 10.0, 1.5), (2.0, 12.0, 1.25)])
    for line in read_lines(WINDOWS):
        taken = {**decode_given(line["given"]), "backends": slices}
        taken.pop("objective", None)
        whole = Known(**taken)
        few = [replace(each, requests=each.requests // 9) for each in whole.window.workers]
        late = replace(whole, window=replace(whole.window, workers=tuple(few)))
        figures = [correct_headroom(compute_figures(each)) for each in (whole, late)]
        if find_change(*figures):
            break
    looks = [_make_look(each) for each in (whole, late)]
    known, pairs = [look.known[0] for look in looks], [look.destinations[0] for look in looks]
    data = saved.encode([replace(looks[1], known=tuple(known), destinations=tuple(pairs))])
    path = tmp_path / "saved"
    path.write_bytes(data)
    (again,) = saved.replay(str(path))
    assert "became_slower" in [each.code for each in again.findings]
    assert again.window.observed_seconds == late.window.observed_seconds
    assert json.loads(data)["looks"][0]["known"][0]["backends"] == [list(row) for row in slices.list_rows()]
    assert BackendSlices().restore(slices.list_rows()).list_rows() == slices.list_rows() != []
