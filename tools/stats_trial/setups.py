"""The set-ups that the trial tries: how each runs its uWSGI, and how a person there starts, stops and reloads it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.environments import ROOT

UWSGI = "/opt/uwsgi/bin/uwsgi"
"""PyPI's uWSGI, built from its source; /opt/pyuwsgi has the wheel, and /usr/bin Debian's."""

APPLICATION = """import uuid

INSTANCE = uuid.uuid4().hex


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"NAME {INSTANCE}".encode()]
"""

_SIZE = "master = true\nprocesses = 2\nthreads = 2\n"
_USERS = "useradd --system --user-group --shell /usr/sbin/nologin shop; chown shop:shop /srv/shop"


@dataclass(frozen=True)
class App:
    """An application. socket: its own UNIX socket, or HOST:PORT; client: the user whose client uses it."""

    socket: str
    client: str


@dataclass(frozen=True)
class SetUp:
    """A set-up. name: a row of the table.

    files: their text by path; prepare: commands that run once; start, stop, reload: what a person there types; at_boot:
    what a person types after a boot, empty if the system starts uWSGI. edited: lines that someone has added to a file
    since uWSGI's start, by path. discover: the command; discover_as: who runs it and pastes its lines; exporter: the
    exporter's user, or its systemd unit; watch: the exporter's command, empty for the one that `discover` prints.
    suites: on which it can be tried.
    """

    name: str
    apps: Mapping[str, App]
    start: str
    stop: str
    reload: str
    files: Mapping[str, str] = field(default_factory=dict)
    prepare: str = "true"
    at_boot: str = ""
    edited: Mapping[str, str] = field(default_factory=dict)
    discover: str = "uwsgi-headroom discover --user uwsgi-headroom"
    discover_as: str = "root"
    exporter: str = "uwsgi-headroom"
    watch: str = ""
    suites: Sequence[str] = ("bookworm", "trixie")


def _ini(name: str, socket: str, *more: str) -> str:
    lines = [f"socket = {socket}", f"wsgi-file = /srv/{name}/{name}.py", *more]
    return f"[uwsgi]\n{_SIZE}" + "".join(f"{line}\n" for line in lines)


def _unit(*lines: str, ini: str = "/etc/shop.ini", reload: bool = True) -> str:
    command = f"{UWSGI} --ini {ini}" if ini.startswith("/") else f"{UWSGI} {ini}"
    usual = ["Type=notify", "NotifyAccess=all", "KillSignal=SIGQUIT", f"ExecStart={command}"]
    usual += ["ExecReload=/bin/kill -HUP $MAINPID"] if reload else []
    both = "".join(f"{line}\n" for line in [*usual, *lines])
    return f"[Unit]\nDescription=shop\n[Service]\n{both}[Install]\nWantedBy=multi-user.target\n"


def _in_unit(name: str, *unit: str, ini: str = "", run: str = "", client: str = "shop", **more: Any) -> SetUp:
    """A set-up of one application, shop, in a systemd unit of its own, whose ini is /etc/shop.ini."""
    socket = more.pop("socket", "/srv/shop/shop.sock")
    reload = more.pop("reload", True)
    files = {"/etc/systemd/system/shop.service": _unit(*unit, **({"ini": run} if run else {}), reload=reload)}
    if not run:
        files["/etc/shop.ini"] = ini or _ini("shop", socket)
    return SetUp(
        name,
        {"shop": App(socket, client)},
        start="systemctl start shop",
        stop="systemctl stop shop",
        reload="systemctl reload shop" if reload else "kill -HUP $(systemctl show -p MainPID --value shop)",
        files=files,
        prepare=more.pop("prepare", f"{_USERS}; systemctl enable -q shop"),
        **more,
    )


_DEBIAN_INI = "[uwsgi]\nplugin = python3\nprocesses = 2\nthreads = 2\nwsgi-file = /srv/NAME/NAME.py\n"


def _debian(name: str, *apps: str, prepare: str = "true", **more: Any) -> SetUp:
    """A set-up of applications in Debian's uWSGI, which its init script starts."""
    available = "/etc/uwsgi/apps-available"
    # The service counts as started since the boot, when there was no application.
    enable = f"ln -s {available}/*.ini /etc/uwsgi/apps-enabled/; service uwsgi stop"
    return SetUp(
        name,
        {app: App(f"/run/uwsgi/app/{app}/socket", "www-data") for app in apps},
        start="service uwsgi start",
        stop="service uwsgi stop",
        reload="service uwsgi reload",
        files={f"{available}/{app}.ini": _DEBIAN_INI.replace("NAME", app) for app in apps},
        prepare=f"{prepare}; {enable}",
        **more,
    )


def _readme_commands() -> list[str]:
    """The shell commands of the README's section on usage: `discover`, then the exporter's."""
    usage = (ROOT / "README.md").read_text().partition("\n## Usage\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", usage, re.DOTALL)
    return [line.partition("#")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def _by_readme() -> SetUp:
    """Debian's uWSGI, and somebody who follows the README, in the virtual environment of its installation."""
    discover, watch = _readme_commands()
    in_environment = shlex.quote(f". /opt/uwsgi-headroom/bin/activate; {discover}")
    return _debian(
        "the README's lines, by an administrator with `sudo`; Debian's `uwsgi`",
        "shop",
        prepare="useradd --create-home admin; echo 'admin ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/admin",
        discover=f"su - admin -s /bin/bash -c {in_environment}",
        exporter="admin",
        watch=watch,
    )


_EMPEROR = f"""[Unit]
Description=emperor
[Service]
Type=notify
NotifyAccess=all
KillSignal=SIGQUIT
ExecStart={UWSGI} --emperor /etc/vassals
ExecReload=/bin/kill -HUP $MAINPID
[Install]
WantedBy=multi-user.target
"""
_ANNA = "su - anna -c 'cd ~/shop && (setsid nohup /opt/PROGRAM/bin/uwsgi --ini uwsgi.ini </dev/null >>log 2>&1 &)'"
_OF_ANNA = "$(pgrep -o -u anna -x uwsgi)"
_BY_HAND = f"{UWSGI} --ini /etc/shop.ini --daemonize /var/log/shop.log --pidfile /srv/shop.pid"


def _by_anna(name: str, discover_as: str, exporter: str, program: str = "uwsgi", *more: str) -> SetUp:
    start = _ANNA.replace("PROGRAM", program)
    return SetUp(
        name,
        {"shop": App("/home/anna/shop/shop.sock", "anna")},
        start=start,
        stop=f"kill -QUIT {_OF_ANNA}",
        reload=f"kill -HUP {_OF_ANNA}",
        files={"/home/anna/shop/uwsgi.ini": _ini("shop", "/home/anna/shop/shop.sock", *more)},
        prepare="useradd --shell /bin/bash anna; chown -R anna:anna /home/anna",
        at_boot=start,
        discover=f"uwsgi-headroom discover{'' if exporter == discover_as else f' --user {exporter}'}",
        discover_as=discover_as,
        exporter=exporter,
    )


SET_UPS: Sequence[SetUp] = (
    _by_readme(),
    _debian("Debian's `uwsgi`, two applications", "shop", "blog"),
    _debian(
        "Debian's `uwsgi`; the exporter is the unit of deploy/systemd",
        "shop",
        prepare="cp /srv/source/deploy/systemd/uwsgi-headroom.service /etc/systemd/system/;"
        " printf 'servers:\\n  - stats: /run/uwsgi/app/*/stats\\n' >/etc/uwsgi-headroom.yml; systemctl daemon-reload;"
        " systemctl start uwsgi-headroom",
        discover="uwsgi-headroom discover",
        exporter="uwsgi-headroom.service",
    ),
    SetUp(
        "Debian's `uwsgi-app@.service`, which has a dynamic user",
        {"shop": App("/run/uwsgi/shop.socket", "www-data")},
        start="systemctl start uwsgi-app@shop.socket uwsgi-app@shop.service",
        stop="systemctl stop uwsgi-app@shop.service uwsgi-app@shop.socket",
        reload="kill -HUP $(systemctl show -p MainPID --value uwsgi-app@shop)",
        files={"/etc/uwsgi/apps-available/shop.ini": _DEBIAN_INI.replace("NAME", "shop") + "master = true\n"},
        prepare="systemctl enable -q uwsgi-app@shop.socket",
        suites=("trixie",),
    ),
    _by_anna("PyPI's uWSGI of an ordinary user, who also runs `discover` and the exporter", "anna", "anna"),
    _by_anna(
        "PyPI's uWSGI of an ordinary user, with `chdir`; `discover` as root, the exporter as a user of its own",
        "root",
        "uwsgi-headroom",
        "uwsgi",
        "chdir = /srv/shop",
    ),
    _by_anna("the wheel `pyuwsgi` in a virtual environment, of an ordinary user", "root", "uwsgi-headroom", "pyuwsgi"),
    _in_unit(
        "a unit with `User=` and `RuntimeDirectory=`, an ini with `strict`, `vacuum` and `chmod-socket = 666`",
        "User=shop",
        "RuntimeDirectory=shop",
        socket="/run/shop/shop.sock",
        client="www-data",
        ini=_ini("shop", "/run/shop/shop.sock", "chmod-socket = 666", "strict = true", "vacuum = true"),
    ),
    _in_unit(
        "a unit with `User=` and `RuntimeDirectory=uwsgi`, as many tutorials have it",
        "User=shop",
        "RuntimeDirectory=uwsgi",
        socket="/run/uwsgi/shop.sock",
    ),
    _in_unit("a unit with `User=`, without `RuntimeDirectory=` and `ExecReload=`", "User=shop", reload=False),
    _in_unit(
        "a unit with `User=`, `ProtectSystem=strict` and `PrivateTmp=`",
        "User=shop",
        "ProtectSystem=strict",
        "PrivateTmp=yes",
        "ReadWritePaths=/srv/shop",
    ),
    _in_unit(
        "a unit with `ProtectSystem=strict`, its socket in a directory of tmpfiles.d that a web server enters",
        "User=shop",
        "ProtectSystem=strict",
        "ReadWritePaths=/run/shop",
        socket="/run/shop/shop.sock",
        client="www-data",
        ini=_ini("shop", "/run/shop/shop.sock", "chmod-socket = 666"),
        prepare=f"{_USERS}; systemctl enable -q shop; echo 'd /run/shop 0755 shop shop -' >/etc/tmpfiles.d/shop.conf;"
        " systemd-tmpfiles --create shop.conf",
    ),
    SetUp(
        "an Emperor of root, two vassals of two users",
        {name: App(f"/srv/{name}/{name}.sock", "www-data") for name in ("shop", "blog")},
        start="systemctl start emperor",
        stop="systemctl stop emperor",
        reload="touch /etc/vassals/*.ini",
        files={
            "/etc/systemd/system/emperor.service": _EMPEROR,
            **{
                f"/etc/vassals/{name}.ini": _ini(
                    name,
                    f"/srv/{name}/{name}.sock",
                    f"uid = {name}",
                    f"gid = {name}",
                    f"chown-socket = {name}:www-data",
                    "chmod-socket = 660",
                )
                for name in ("shop", "blog")
            },
        },
        prepare=f"{_USERS}; {_USERS.replace('shop', 'blog')}; systemctl enable -q emperor",
    ),
    SetUp(
        "an Emperor whose vassal is a symbolic link",
        {"shop": App("/srv/shop/shop.sock", "shop")},
        start="systemctl start emperor",
        stop="systemctl stop emperor",
        reload="touch --no-dereference /etc/vassals/shop.ini",
        files={
            "/etc/systemd/system/emperor.service": _EMPEROR,
            "/srv/shop/uwsgi.ini": _ini("shop", "/srv/shop/shop.sock", "uid = shop", "gid = shop"),
        },
        prepare=f"{_USERS}; mkdir /etc/vassals; ln -s /srv/shop/uwsgi.ini /etc/vassals/shop.ini;"
        " systemctl enable -q emperor",
    ),
    _in_unit(
        "a unit with `User=` and `RestrictAddressFamilies=AF_INET AF_INET6`",
        "User=shop",
        "Type=simple",
        "RestrictAddressFamilies=AF_INET AF_INET6",
        socket="127.0.0.1:8000",
    ),
    _in_unit(
        "a unit that starts as root, `uid` and `gid` in the ini",
        ini=_ini("shop", "/srv/shop/shop.sock", "uid = shop", "gid = shop"),
    ),
    _in_unit(
        "a unit that starts as root, `uid` and `gid` in an ini that only root may read",
        ini=_ini("shop", "/srv/shop/shop.sock", "uid = shop", "gid = shop"),
        prepare=f"{_USERS}; systemctl enable -q shop; chmod 600 /etc/shop.ini",
    ),
    _in_unit(
        "a unit that starts as root, `uid`, `gid`, `chown-socket` and `http = :80` in the ini",
        ini=_ini(
            "shop", "/srv/shop/shop.sock", "uid = shop", "gid = shop", "chown-socket = shop", "http = 127.0.0.1:80"
        ),
    ),
    _in_unit(
        "a unit that starts as root, `uid` and `gid` in the ini, `logto` in /var/log",
        ini=_ini("shop", "/srv/shop/shop.sock", "uid = shop", "gid = shop", "logto = /var/log/shop.log"),
    ),
    SetUp(
        "started by root with `daemonize`, no unit, `uid` and `gid` in the ini",
        {"shop": App("/srv/shop/shop.sock", "shop")},
        start=_BY_HAND,
        stop=f"{UWSGI} --stop /srv/shop.pid",
        reload=f"{UWSGI} --reload /srv/shop.pid",
        files={"/etc/shop.ini": _ini("shop", "/srv/shop/shop.sock", "uid = shop", "gid = shop")},
        prepare=_USERS,
        at_boot=_BY_HAND,
    ),
    _in_unit(
        "a unit, `touch-reload` of its own ini",
        "User=shop",
        ini=_ini("shop", "/srv/shop/shop.sock", "touch-reload = /etc/shop.ini"),
    ),
    _in_unit(
        "a unit with `DynamicUser=` and `RuntimeDirectory=`",
        "DynamicUser=yes",
        "RuntimeDirectory=shop",
        socket="/run/shop/shop.sock",
        client="root",
        prepare="systemctl enable -q shop",
    ),
    _in_unit("a unit of root, no `uid`", client="root"),
    _in_unit(
        "a unit, `auto-procname` in the ini",
        "User=shop",
        ini=_ini("shop", "/srv/shop/shop.sock", "auto-procname = true"),
    ),
    _in_unit(
        "a unit, options on its command line only",
        "User=shop",
        run="--master --processes 2 --threads 2 --socket /srv/shop/shop.sock --wsgi-file /srv/shop/shop.py",
    ),
    _in_unit(
        "a unit, no master",
        "User=shop",
        "Type=simple",
        ini="[uwsgi]\nsocket = /srv/shop/shop.sock\nthreads = 2\nwsgi-file = /srv/shop/shop.py\n",
    ),
    _in_unit(
        "a unit; a `stats` that can be bound is in the ini, but not loaded yet",
        "User=shop",
        "RuntimeDirectory=shop",
        edited={"/etc/shop.ini": "stats = /run/shop/stats\n"},
    ),
    _in_unit(
        "a unit; a `stats` that cannot be bound is in the ini, but not loaded yet",
        "User=shop",
        edited={"/etc/shop.ini": "stats = /run/uwsgi/shop.stats\nchmod-socket = 660\n"},
    ),
)
