"""The options read from a command line and its files are those that real uWSGI applies."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.kernel.options.test_read import FILES
from tests.kernel.trees import make_tree, set_in
from tests.support import real_uwsgi
from tests.support.other_namespaces import as_nobody, as_root
from uwsgi_headroom.kernel.options import FIELDS, Value, parse_value, read_options

pytestmark = pytest.mark.integration

SYNTAX = (
    "[other]\nlisten = 1\n[uwsgi] \r\n; harakiri = 1\n# harakiri = 2\n  threads=3 ; three\r\nharakiri: 9\n"
    "thunder-lock =\nneed-app = No\nlazy-apps\ncheaper = 1 \\\nprocesses\t=\t4\n"
    "[ uwsgi ]\nprocesses = 5\n[uwsgi];\nprocesses = 6\n"
)


@pytest.mark.parametrize(
    "words",
    [
        "-t 30 -l128 -Mp4 -Tm --workers=3",
        "--set harakiri=44 --set set=listen=7 --set-ph x=9",
        "--map-socket 0:1 --map-socket=1:2,3 --need-app --cheaper-algo busyness",
        "--ini syntax.ini",
        "--ini a.ini -p 9",
        "a.ini -p 9 --threads 1",
        "--ini c.ini:more",
        "--ini {directory}/c.ini --ini :more",
        "--ini=c.ini:",
        "--harakiri 30 --if-env NOT_SET --harakiri 20 --endif -p 2",
        "--harakiri 30 --if-env PATH --harakiri 20 --ini c.ini --endif -p 2",
        "--threads 3 --processe 2",
        "--vacuum a.ini",
        "--for 2 --processes %(_) --endfor --threads 3",
    ],
)
def test_show_config(words, tmp_path):
    """Each known value is the last one of its option; if the options are complete, none is missing."""
    files = {name.removeprefix("/srv/"): text for name, text in FILES.items()} | {"syntax.ini": SYNTAX}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    command = [real_uwsgi.uwsgi_binary(), *words.replace("{directory}", str(tmp_path)).split(), "--show-config"]
    run = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    shown = re.search(r"\[uwsgi\]\n(.*?)^;end of configuration", run.stdout + run.stderr, re.DOTALL | re.MULTILINE)
    assert shown, run.stdout + run.stderr

    proc = make_tree(tmp_path / "tree", *command)
    (proc / "7/cwd").unlink()
    (proc / "7/cwd").symlink_to(tmp_path)
    (proc / "7/root").unlink()
    (proc / "7/root").symlink_to("/")
    options = read_options(7, proc=proc)
    applied = _last_values(shown[1])
    assert set_in(options).items() <= applied.items()
    assert not options.complete or set_in(options) == applied


def _last_values(text: str) -> dict[str, Value | None]:
    """The last value of each field in the output of --show-config, which lists the options in order of application."""
    values: dict[str, Value | None] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" = ")
        if name := FIELDS.get(key.removesuffix(" =")):
            values[name] = parse_value(name, value, values.get(name))
    return values


@pytest.fixture(scope="module")
def server():
    """Options from a command line, a section of a file and an included file; some are set twice."""
    files = {
        "app.ini": "[uwsgi]\nprocesses = 9\n[shop]\nmaster = 1\nprocesses = 2\nlisten = 7 ; seven\nthunder-lock = off\n"
        "include = more.ini\nharakiri = 33\nstats = stats\nhttp-socket = web\n",
        "more.ini": "[uwsgi]\nthreads = 3\nprocesses = 3\nreload-on-rss = 512\n",
    }
    app = ["--wsgi-file", str(real_uwsgi.APP)]
    with real_uwsgi.bare("--thunder-lock", "-p4", "--ini", "app.ini:shop", *app, "--threads=2", files=files) as running:
        yield running


def test_uwsgi_uses_the_last_value(server):
    options = read_options(server.pid)
    document = json.loads(server.document())
    assert len(document["workers"]) == options.processes == 3
    assert len(document["workers"][0]["cores"]) == options.threads == 2
    assert [lock for lock in document["locks"] if "thunder" in lock] == []
    assert options.thunder_lock is False
    assert (options.listen, options.harakiri, options.reload_on_rss, options.die_on_term) == (7, 33, 512, True)
    assert (options.source["threads"], options.source["processes"]) == ("command line", "more.ini")
    assert options.source["harakiri"] == "app.ini"
    assert options.complete


@as_root
def test_another_users_files_are_hidden(server):
    """Any user may read the command line; without its files, only the options after them are certain."""
    pid = server.pid
    options = as_nobody(lambda: set_in(read_options(pid)))
    assert options == {"threads": 2}


def test_overwritten_command_line():
    app = ["--wsgi-file", str(real_uwsgi.APP), "--http-socket", "web", "--stats", "stats"]
    with real_uwsgi.bare("--master", "--auto-procname", "-p2", *app) as running:
        # A signal that arrives before a worker accepts is lost.
        real_uwsgi.wait_until(lambda: b'"accepting":0' not in running.document(), what="the workers to accept")
        assert Path(f"/proc/{running.pid}/cmdline").read_bytes().startswith(b"uWSGI master\0")
        options = read_options(running.pid)
        assert set_in(options) == {}
        assert not options.complete
