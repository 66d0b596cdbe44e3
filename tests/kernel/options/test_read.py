"""Options are applied in uWSGI's order, from a command line and ini files; uncertain values are unknown."""

import os
import random
import shlex
import string

import pytest

from tests.kernel.trees import CWD, PID, make_tree, options_of, set_in
from uwsgi_headroom.kernel.options import KINDS, MOST_BYTES, MOST_DEPTH, MOST_FILES, read_options
from uwsgi_headroom.record import Options


@pytest.mark.parametrize(
    ("words", "found"),
    [
        # The last option that names an application counts; a value that is not a plain name is dropped.
        ("-w app:application", {"names_application": True, "application": "app:application"}),
        ("--wsgi-file app.py", {"names_application": True, "application": "app.py"}),
        ("--module=app", {"names_application": True, "application": "app"}),
        ("--mount /x=app.py", {"names_application": True, "application": "/x=app.py"}),
        ("--set module=app", {"names_application": True, "application": "app"}),
        ("--module app --wsgi-file other.py", {"names_application": True, "application": "other.py"}),
        ("--module %n.wsgi", {"names_application": True, "application": ""}),
        ("--module app?password=x", {"names_application": True, "application": ""}),
        ("--module app --yaml other.yml", {"names_application": True, "application": ""}),
        ("--php-docroot /srv", {"names_application": False, "application": ""}),
        ("--if-env X --module app --endif", {"names_application": False, "application": ""}),
        # Only an option that applies in any case lets the workers be reloaded.
        ("--touch-chain-reload /srv/reload", {"can_reload_workers": True}),
        ("--master-fifo=/run/fifo", {"can_reload_workers": True}),
        ("--touch-workers-reload /srv/reload", {"can_reload_workers": True}),
        ("--touch-reload /srv/reload", {"can_reload_workers": False}),
        ("--if-env X --master-fifo f --endif", {"can_reload_workers": False}),
        # Each request has a line, unless an option, known or not, may keep it out or change its form.
        ("--master --logger file:/var/log/a.log --log-5xx", {"logs_requests": True}),
        ("--master -ML", {"logs_requests": False}),
        ("--master --disable-logging", {"logs_requests": False}),
        ("--master --req-logger file:/a", {"logs_requests": False}),
        ("--logformat %(uri)", {"logs_requests": False}),
        ("--route-uri '^/a donotlog:'", {"logs_requests": False}),
        ("--if-env X --processes 9 --endif", {"logs_requests": False}),
        # Of options that end workers, the names are kept, once each, and no value.
        (
            "--reload-on-exception --evil-reload-on-as 300 --reload-on-exception --if-env X --reload-on-pss 9 --endif",
            {"ends_workers": ("reload-on-exception", "evil-reload-on-as")},
        ),
        # Of caches, the name of one that purges items, if it is plain.
        ("--cache2 name=pages,items=50,purge_lru=1", {"purging_caches": ("pages",)}),
        ("--cache2 name=pages,lru=1 --cache2 name=other,items=5", {"purging_caches": ("pages",)}),
        ("--cache2 purge_lru,name=a --cache2 lru=1,name=b", {"purging_caches": ("a", "b")}),
        ("--cache2 name=pages,items=50", {"purging_caches": ()}),
        ("--cheaper-rss-limit-soft 8589934592", {"cheaper_rss_limit_soft": 8 << 30}),
        ("--cache2 purge_lru=1 --cache2 name=a;b,lru=1", {"purging_caches": ()}),
        # The last file on the command line that is no distribution's, readable or not; no address and no command.
        ("--ini /etc/shop.ini --ini more.ini", {"configuration_file": "more.ini"}),
        ("--ini /usr/share/uwsgi/conf/default.ini --ini /etc/shop.ini", {"configuration_file": "/etc/shop.ini"}),
        ("--ini /etc/shop.ini --ini http://user:password@host/more.ini", {"configuration_file": ""}),
        ("--master shop.ini", {"configuration_file": "shop.ini"}),
        ("--master shop.yaml", {"configuration_file": "shop.yaml"}),
        ("--yaml shop.yml", {"configuration_file": "shop.yml"}),
        ("--ini exec://passwords", {"configuration_file": ""}),
        ("--master --env SECRET=x", {"configuration_file": ""}),
        # The absolute path of a log, if it is plain, and no address.
        ("--logto /var/log/a.log", {"log_files": ("/var/log/a.log",)}),
        ("--logto2=/var/log/a.log", {"log_files": ("/var/log/a.log",)}),
        ("--daemonize /var/log/a.log", {"log_files": ("/var/log/a.log",)}),
        ("-d /var/log/a.log", {"log_files": ("/var/log/a.log",)}),
        ("--logger file:/var/log/a.log", {"log_files": ("/var/log/a.log",)}),
        ("--logger file:logfile=/var/log/a.log,maxsize=1", {"log_files": ("/var/log/a.log",)}),
        ("--logger 'mylog file:/var/log/a.log'", {"log_files": ("/var/log/a.log",)}),
        ("--logto /var/log/a.log --req-logger file:/var/log/r.log", {"log_files": ("/var/log/a.log",)}),
        ("--logto 10.0.0.5:514", {"log_files": ()}),
        ("--logger socket:10.0.0.5:514", {"log_files": ()}),
        ("--logger syslog:password", {"log_files": ()}),
        ("--logto relative.log", {"log_files": ()}),
        ("--logto /var/log/%n.log", {"log_files": ()}),
        ("--if-env X --logto /var/log/a.log --endif", {"log_files": ()}),
    ],
)
def test_names_in_options(words, found, tmp_path):
    """Of some options only names are kept, and only plain ones: a value may hold a secret."""
    files = {"/etc/shop.ini": "[uwsgi]\ninclude = /etc/more.ini\n", "/etc/more.ini": "[uwsgi]\n"}
    options = options_of(tmp_path, *shlex.split(words), files=files)
    assert {name: getattr(options, name) for name in found} == found


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("--harakiri 30", {"harakiri": 30}),
        ("--harakiri=30", {"harakiri": 30}),
        ("-t 30 -l128 -Mp4", {"harakiri": 30, "listen": 128, "master": True, "processes": 4}),
        ("-p 2 --workers 3", {"processes": 3}),
        ("--http :8080 -p 2 --http-timeout 9", {"http": (":8080",), "processes": 2, "http_timeout": 9}),
        ("--master --need-app app.py -p 2", {"master": True, "need_app": True, "processes": 2}),
        ("--map-socket 0:1 --map-socket=1:2,3", {"map_socket": ("0:1", "1:2,3")}),
        ("--async 10 --ugreen", {"async_cores": 10}),
        ("--chmod-socket --chmod-socket=660 -b 8192", {"chmod_socket": ("", "660"), "buffer_size": 8192}),
        ("--set harakiri=44 --set set=listen=7 --set-ph x=9", {"harakiri": 44, "listen": 7}),
        ("--cheaper-algo busyness --cheaper 2", {"cheaper_algo": "busyness", "cheaper": 2}),
        ("--touch-reload app.ini --reload-on-rss 512", {"reload_on_rss": 512}),
        ("-w app:application --env SECRET=x -- --harakiri 30", {}),
    ],
)
def test_command_line(words, known, tmp_path):
    """Every spelling of an option is parsed, and the last value wins."""
    options = options_of(tmp_path, *words.split())
    assert set_in(options) == known
    assert options.complete
    assert set(options.source.values()) <= {"command line"}


def test_ini(tmp_path):
    """A file may have sections, whole-line comments, numbers with trailing text and four values for "off"."""
    text = (
        "processes = 1\n[other]\nlisten = 1\n[uwsgi]\r\n; harakiri = 1\n# harakiri = 2\n  listen=7 ; seven\r\n"
        "harakiri: 9\nthunder-lock =\nneed-app = No\nmaster = 00\nlazy-apps\ncheaper = \nsecret = x\nthreads\t=\t3"
    )
    options = options_of(tmp_path, "--ini", "app.ini", files={"/srv/app.ini": text})
    known = {"listen": 7, "thunder_lock": True, "need_app": False, "master": True, "lazy_apps": True, "cheaper": 0}
    assert set_in(options) == known | {"threads": 3}
    assert set(options.source.values()) == {"app.ini"}
    assert options.complete


FILES = {
    "/srv/a.ini": "[uwsgi]\nprocesses = 1\ninherit = c.ini\ninclude = sub/b.ini\nini = :more\n[more]\nlisten = 1\n",
    "/srv/sub/b.ini": "[uwsgi]\nprocesses = 2\n[more]\nlisten = 2\n",
    "/srv/c.ini": "[uwsgi]\nthreads = 3\n[more]\nthreads = 4\n",
}


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("--ini a.ini -p 9", {"processes": 9, "listen": 2, "threads": 3}),
        ("a.ini -p 9 --threads 1", {"processes": 2, "listen": 2, "threads": 3}),
        ("--ini c.ini:more", {"threads": 4}),
        ("--ini /srv/c.ini --ini :more", {"threads": 4}),
        ("--ini=c.ini:", {"threads": 3}),
    ],
)
def test_files_in_files(words, known, tmp_path):
    """`ini` and `include` insert a file's options; a file without an option follows the words, then `inherit`."""
    options = options_of(tmp_path, *words.split(), files=FILES)
    assert set_in(options) == known
    assert options.complete


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("--harakiri 30 --ini missing.ini -p 2", {"processes": 2}),
        ("--harakiri 30 --yaml app.yaml -p 2", {"processes": 2}),
        ("--harakiri 30 --ini http://config/app.ini -p 2", {"processes": 2}),
        ("--harakiri 30 --include c.ini:more -p 2", {"processes": 2}),
        ("--harakiri 30 --haraki 20 -p 2", {"processes": 2}),
        ("--harakiri 30 --if-env X --harakiri 20 --endif -p 2", {"processes": 2}),
        ("--harakiri 30 --if-env X --ini c.ini --endif -p 2", {"processes": 2}),
        ("--harakiri $(X) -p 2", {"processes": 2}),
        ("--harakiri 30 --set %(x)=3 -p 2", {"processes": 2}),
        ("--harakiri 30 -p 2 missing.ini", {}),
        ("--harakiri 30 --auto-procname c.ini", {}),
        ("--processes 99999999999999999999 --threads 2", {"threads": 2}),
    ],
)
def test_a_part_that_cannot_be_followed(words, known, tmp_path):
    """A value that something unknown may have replaced is unknown, and the options are marked as incomplete."""
    options = options_of(tmp_path, *words.split(), files=FILES)
    assert set_in(options) == known
    assert not options.complete


def test_placeholders_and_conditions_in_a_file(tmp_path):
    """An option with a placeholder, under a condition or in a loop is unknown, unless it is set again later."""
    text = "[uwsgi]\nharakiri = %(x)\nlisten = %k\nfor = 1 2\nthreads = 3\nendfor =\nprocesses = @(n)\nprocesses = 4\n"
    options = options_of(tmp_path, "--threads", "1", "--ini", "/srv/app.ini", files={"/srv/app.ini": text})
    assert set_in(options) == {"processes": 4}
    assert not options.complete


@pytest.mark.parametrize("end", ["end", "endif", "end-if", "endfor", "end-for"])
def test_these_end_all_conditions_and_loops(end, tmp_path):
    text = f"[uwsgi]\nif-env = A\nfor = 1 2\nthreads = 3\n{end} =\nprocesses = 4\n"
    assert set_in(options_of(tmp_path, "app.ini", files={"/srv/app.ini": text})) == {"processes": 4}


@pytest.mark.parametrize(
    ("name", "option", "known"),
    [
        ("app.ini", f"chdir = {CWD}", 30),
        ("app.ini", "chdir = /elsewhere", None),
        ("app.ini", "chdir = %d", None),
        ("/srv/app.ini", "chdir = /elsewhere", 30),
        ("/srv/app.ini", "chroot = /jail", None),
    ],
)
def test_a_name_is_that_of_another_file_elsewhere(name, option, known, tmp_path):
    """A relative one if uWSGI has changed its directory, and any one if it has changed its root directory."""
    text = f"[uwsgi]\nharakiri = 30\n{option}\n"
    assert options_of(tmp_path, name, files={"/srv/app.ini": text}).harakiri == known


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["/venv/bin/python3.11", "/venv/bin/uwsgi", "-p", "2"], {"processes": 2}),
        (["/venv/bin/python3.11", "serve.py", "-p", "2"], None),
        (["shop-uWSGI master"], None),
        (["uwsgi"], None),
    ],
)
def test_the_programs_name(words, known, tmp_path):
    """The wheel's uWSGI is a Python script; an overwritten command line, or a process that has ended, shows nothing."""
    assert read_options(PID, proc=tmp_path) == Options()
    options = read_options(PID, proc=make_tree(tmp_path, *words))
    assert set_in(options) == (known or {})
    assert options.complete is (known is not None)


def test_a_file_changed_after_the_start_of_a_worker(tmp_path):
    """It is not the one that uWSGI has read; uWSGI's times are whole seconds."""
    proc = make_tree(tmp_path, "uwsgi", "app.ini", files={"/srv/app.ini": "[uwsgi]\nharakiri = 30\n"})
    changed = os.stat(tmp_path / "root/srv/app.ini").st_ctime
    assert read_options(PID, oldest_worker=changed - 1, proc=proc).changed
    assert not read_options(PID, oldest_worker=changed - 0.5, proc=proc).changed
    assert not read_options(PID, proc=proc).changed


def test_files_are_bounded(tmp_path):
    text = "[uwsgi]\nprocesses = 2\nini = app.ini\nini = app.ini\n"
    options = options_of(tmp_path, "--ini", "app.ini", files={"/srv/app.ini": text})
    assert set_in(options) == {}
    assert not options.complete
    chain = {f"/srv/{n}.ini": f"[uwsgi]\nthreads = {n}\ninclude = {n + 1}.ini\n" for n in range(MOST_FILES)}
    assert MOST_DEPTH < MOST_FILES
    assert options_of(tmp_path / "chain", "--ini", "0.ini", files=chain) == Options(configuration_files=("0.ini",))
    # A large file is not read.
    text = "[uwsgi]\nharakiri = 30\n"
    fits = text + ";" * (MOST_BYTES - len(text))
    assert options_of(tmp_path / "fits", "--ini", "app.ini", files={"/srv/app.ini": fits}).harakiri == 30
    options = options_of(tmp_path / "large", "--ini", "app.ini", files={"/srv/app.ini": fits + ";"})
    assert set_in(options) == {}
    assert not options.complete
    two = {"/srv/app.ini": text, "/srv/large.ini": fits}
    options = options_of(tmp_path / "two", "app.ini", "large.ini", "--ini", "large.ini:none", files=two)
    assert set_in(options) == {}, "two files are read up to the bound together"
    assert options_of(tmp_path / "words", "-p", "2", "x" * MOST_BYTES) == Options()


WORDS = """
[uwsgi] [x] harakiri listen map-socket set ini include inherit if-env endif for = : %(x) $(x) @(x) % :x app.ini
a/../app.ini /srv/app.ini 30 -1 é secret -- - --ini --set -p -S --harakiri= chdir /srv ٣
"""
PIECES = (*WORDS.split(), " = ", "\n", "\n", "\n", "9" * 30, "\0", "\r", "�", "password = hunter2", "set=set=" * 3000)


def test_any_options(tmp_path):
    """For any file and command line, each known value has its type and a source, and each source has a value."""
    proc = make_tree(tmp_path, "uwsgi", files={"/srv/app.ini": ""})
    types = {"int": int, "bool": bool, "str": str, "tuple[str, ...]": tuple}
    for seed in range(200):
        draw = random.Random(seed)
        text = "".join(draw.choices((*PIECES, *string.printable[:3]), k=draw.randrange(60)))
        words = ["uwsgi", *("".join(draw.choices(PIECES, k=draw.randrange(1, 4))) for _ in range(draw.randrange(8)))]
        (tmp_path / "root/srv/app.ini").write_bytes(text.encode())
        (proc / str(PID) / "cmdline").write_bytes("\0".join(words).encode())
        options = read_options(PID, proc=proc)
        known = {name for name in KINDS if getattr(options, name) is not None}
        assert known == options.source.keys(), seed
        assert all(type(getattr(options, name)) is types[KINDS[name]] for name in known), seed


def test_only_relevant_options_are_kept(tmp_path):
    text = "[uwsgi]\nenv = PASSWORD=hunter2\nharakiri = 3 hunter2\nhttp-socket = hunter2\nset = x=hunter2\n"
    options = options_of(tmp_path, "app.ini", "--pyargv", "hunter2", files={"/srv/app.ini": text})
    assert options.harakiri == 3
    assert "hunter2" not in repr(options)
