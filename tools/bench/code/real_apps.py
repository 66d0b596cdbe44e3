"""Compares the lines of `check --code` with those of py-spy, for ten real applications from PyPI and Debian.

`python3 -m tools.bench.code.real_apps --py-spy PATH`: of py-spy's program. The applications are installed below
`build/`; none of them needs another service. Each is watched by `check --code`, then for as long by py-spy, under the
same requests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import debian
from tools.bench.code.measure import sending
from tools.bench.table import machine, render_table
from tools.commands import CommandError
from tools.environments import PYTHON, ROOT, Environment
from tools.support.exporter import run
from tools.support.real_uwsgi import uwsgi, wait_until
from uwsgi_headroom.kernel.stacks.looks import choose_frame
from uwsgi_headroom.kernel.stacks.reader import Code, Frame

ENVIRONMENT = Environment(ROOT / "build" / "real-apps")
UNPACKED = ENVIRONMENT.path / "debian"

Place = tuple[str, int]
"""A file and a line; empty and 0 outside of Python code."""


@dataclass(frozen=True)
class App:
    """An application. packages: of PyPI, or of Debian; code: of its WSGI file, which may use FOLDER, an empty one;
    own: the folder of its own code, in those of packages; request: the beginning of an HTTP request, without the
    version; headers: of it."""

    name: str
    packages: tuple[str, ...]
    code: str
    own: str
    request: str
    headers: str = ""
    is_debian: bool = False


APPS = (
    App(
        "Django's admin",
        ("django",),
        """
        from django import conf, setup, urls
        from django.core import management, wsgi
        apps = ["admin", "auth", "contenttypes", "sessions", "messages"]
        middleware = ["sessions.middleware.Session", "auth.middleware.Authentication", "auth.middleware.RemoteUser",
            "messages.middleware.Message"]
        processors = ["contrib.auth.context_processors.auth", "contrib.messages.context_processors.messages",
            "template.context_processors.request"]
        conf.settings.configure(SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF="", USE_TZ=True,
            INSTALLED_APPS=[f"django.contrib.{name}" for name in apps],
            MIDDLEWARE=[f"django.contrib.{name}Middleware" for name in middleware],
            AUTHENTICATION_BACKENDS=["django.contrib.auth.backends.RemoteUserBackend"],
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{FOLDER}/db"}},
            TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
                "OPTIONS": {"context_processors": [f"django.{name}" for name in processors]}}])
        setup()
        from django.contrib import admin
        from django.contrib.auth.models import User
        conf.settings.ROOT_URLCONF = (urls.path("admin/", admin.site.urls),)
        management.call_command("migrate", verbosity=0)
        User.objects.bulk_create(User(username=f"user{n}", is_staff=not n, is_superuser=not n) for n in range(300))
        handler = wsgi.get_wsgi_application()
        application = lambda environ, start: handler({**environ, "REMOTE_USER": "user0"}, start)
        """,
        "django",
        "GET /admin/auth/user/",
    ),
    App(
        "Trac",
        ("Trac", "setuptools<70"),
        """
        import os
        from trac.env import Environment
        Environment(f"{FOLDER}/trac", create=True, options=[("trac", "database", "sqlite:db/trac.db")]).shutdown()
        from trac.admin.console import TracAdmin
        TracAdmin(f"{FOLDER}/trac").onecmd("upgrade")
        TracAdmin(f"{FOLDER}/trac").onecmd("wiki load /dev/null Start")
        os.environ["TRAC_ENV"] = f"{FOLDER}/trac"
        from trac.web.main import dispatch_request as application
        """,
        "trac",
        "GET /report",
    ),
    App(
        "klaus (Debian)",
        tuple(
            f"python3-{name}"
            for name in (
                *("klaus", "dulwich", "humanize", "flask", "werkzeug", "jinja2", "markupsafe", "itsdangerous"),
                *("click", "urllib3", "certifi", "pygments", "pkg-resources", "colorama"),
            )
        ),
        """
        import subprocess
        def git(*arguments):
            named = ["-c", "user.name=x", "-c", "user.email=x"]
            subprocess.run(["git", "-C", f"{FOLDER}/repo", *named, *arguments], check=True)
        subprocess.run(["git", "init", "-q", f"{FOLDER}/repo"], check=True)
        for number in range(8):
            open(f"{FOLDER}/repo/{number}.py", "w").write("def f():\\n    return 1\\n" * 50)
            git("add", ".")
            git("commit", "-qm", f"Change {number}")
        import klaus
        application = klaus.make_app([f"{FOLDER}/repo"], "site")
        """,
        "klaus",
        "GET /repo/",
        is_debian=True,
    ),
    App(
        "Kinto",
        ("kinto", "setuptools<70"),
        """
        import kinto
        backends = {f"{name}_backend": f"kinto.core.{name}.memory" for name in ("storage", "cache", "permission")}
        application = kinto.main({}, userid_hmac_secret="x", bucket_create_principals="system.Everyone", **backends)
        """,
        "kinto",
        "GET /v1/",
    ),
    App(
        "WsgiDAV",
        ("wsgidav",),
        """
        import os
        from wsgidav.wsgidav_app import WsgiDAVApp
        os.mkdir(f"{FOLDER}/files")
        for number in range(100):
            open(f"{FOLDER}/files/{number}.txt", "w").write("x" * number)
        application = WsgiDAVApp({"provider_mapping": {"/": f"{FOLDER}/files"}, "verbose": 0,
            "simple_dc": {"user_mapping": {"*": True}}})
        """,
        "wsgidav",
        "PROPFIND /",
        "Depth: 1\r\n",
    ),
    App(
        "pypiserver",
        ("pypiserver",),
        """
        import os, pypiserver
        os.mkdir(f"{FOLDER}/packages")
        for number in range(300):
            open(f"{FOLDER}/packages/project{number % 60}-1.{number}.tar.gz", "w").close()
        application = pypiserver.app(roots=[f"{FOLDER}/packages"])
        """,
        "pypiserver",
        "GET /simple/project7/",
    ),
    App("httpbin", ("httpbin",), "from httpbin import app as application", "httpbin", "GET /delay/0.1"),
    App(
        "moto",
        ("moto[server]",),
        """
        from moto.server import DomainDispatcherApplication, create_backend_app
        application = DomainDispatcherApplication(create_backend_app)
        """,
        "moto",
        "GET /",
    ),
    App(
        "Radicale (Debian)",
        (
            "python3-radicale",
            "python3-vobject",
            "python3-dateutil",
            "python3-defusedxml",
            "python3-passlib",
            "python3-six",
            "python3-pkg-resources",
        ),
        """
        import os
        folder = f"{FOLDER}/collections/collection-root/me/calendar"
        os.makedirs(folder)
        open(f"{folder}/.Radicale.props", "w").write('{"tag": "VCALENDAR"}')
        for number in range(200):
            event = ["BEGIN:VEVENT", f"UID:{number}", "DTSTART:20260101T100000Z", "SUMMARY:x", "END:VEVENT"]
            lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:x", *event, "END:VCALENDAR", ""]
            open(f"{folder}/{number}.ics", "w").write("\\n".join(lines))
        open(f"{FOLDER}/config", "w").write(f"[storage]\\nfilesystem_folder = {FOLDER}/collections\\n")
        os.environ["RADICALE_CONFIG"] = f"{FOLDER}/config"
        from radicale import application
        """,
        "radicale",
        "PROPFIND /me/calendar/",
        "Depth: 1\r\nAuthorization: Basic bWU6eA==\r\n",
        is_debian=True,
    ),
    App(
        "Mercurial's hgweb (Debian)",
        ("mercurial-common", "mercurial"),
        """
        from mercurial import commands, hg, ui
        from mercurial.hgweb import hgweb
        path = f"{FOLDER}/repo".encode()
        own = ui.ui.load()
        repository = hg.repository(own, path, create=True)
        for number in range(40):
            open(f"{FOLDER}/repo/{number}.py", "w").write("x = 1\\n" * 50)
            commands.commit(own, repository, message=b"Change", user=b"x", addremove=True)
        application = hgweb(path)
        """,
        "mercurial",
        "GET /log",
        is_debian=True,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.code.real_apps", description=__doc__)
    parser.add_argument("--py-spy", required=True, help="its program")
    parser.add_argument("--seconds", type=int, default=20, help="of each (default %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="applications whose name contains this text")
    options = parser.parse_args()
    rows = []
    for app in APPS:
        if options.only in app.name:
            try:
                cells = list(_compare(app, options.py_spy, options.seconds))
            except (AssertionError, CommandError, subprocess.CalledProcessError) as error:
                cells = [str(error).splitlines()[-1], *[""] * 5]
            rows.append(f"{app.name} | {' | '.join(cells)}")
            print(rows[-1], flush=True)
    head = "application | requests/s | most time is in | `check --code` | py-spy | py-spy's first | largest difference"
    print(f"\n{render_table(head, rows)}\n\n{options.seconds} s each. {machine()}")


def _compare(app: App, py_spy: str, seconds: int) -> Iterator[str]:
    packages = _install(app)
    own = f"{packages / app.own}/"
    with tempfile.TemporaryDirectory(prefix="real-app-") as folder:
        wsgi = Path(folder, "wsgi.py")
        Path(folder, "data").mkdir()
        wsgi.write_text(f"FOLDER = {f'{folder}/data'!r}\n{textwrap.dedent(app.code)}")
        options = ["--processes", "2", "--threads", "4", "--disable-logging", "--pythonpath", str(packages)]
        request = f"{app.request} HTTP/1.0\r\nHost: localhost\r\n{app.headers}\r\n".encode()
        with uwsgi(*options, app=wsgi) as server, sending(server.http, 6, request):
            wait_until(lambda: _count_requests(server.document()) > 10, what="requests to be served")
            watched = ["--seconds", str(seconds), "--code", "--code-prefix", own, "--format", "json"]
            checked = run("check", server.stats, *watched)
            document = json.loads(checked.stdout)
            record = Path(folder, "stacks")
            command = [py_spy, "record", "--pid", str(server.pid), "--subprocesses", "--idle", "--format", "raw"]
            command += ["--full-filenames", "--rate", "40", "--duration", str(seconds), "--output", str(record)]
            subprocess.run(command, check=True, capture_output=True)
            stacks = record.read_text()
    return _describe(document, _count_places(stacks, own))


def _install(app: App) -> Path:
    """The folder of an application's packages. Raises CommandError if they cannot be installed."""
    ENVIRONMENT.ensure()
    if app.is_debian:
        packages = UNPACKED / app.own / "usr" / "lib" / "python3" / "dist-packages"
        if not packages.is_dir():
            (UNPACKED / app.own).mkdir(parents=True)
            debian.unpack(app.packages, UNPACKED / app.own)
        return packages
    if not ENVIRONMENT.holds(app.own, PYTHON):
        ENVIRONMENT.install(app.own, PYTHON, ["--only-binary", ":all:", *app.packages], cwd=ROOT)
    return next(ENVIRONMENT.path.glob("lib/python*/site-packages"))


def _count_requests(document: bytes) -> int:
    return sum(worker["requests"] for worker in json.loads(document)["workers"])


def _count_places(stacks: str, own: str) -> Counter[Place]:
    """How often py-spy has seen a thread in a place. A line of `stacks` has a stack, the top at its end, and a
    number."""
    places: Counter[Place] = Counter()
    for line in stacks.splitlines():
        stack, _, number = line.rpartition(" ")
        found = re.findall(r"(?:^|;)([^;]*?) \(([^;()]*):(\d+)\)", stack)
        frames = [Frame(Code(function, file, int(place), 0), 0) for function, file, place in reversed(found)]
        if choice := choose_frame(frames, (own,)):
            places[choice.frame.code.file, choice.frame.code.first_line] += int(number)
    return places


def _describe(document: Mapping[str, Any], theirs: Counter[Place]) -> Iterator[str]:
    """The cells of an application: both answers, of threads in Python code."""
    lines = document["code"]["lines"]
    inside = 1 - sum(line["share"] for line in lines if not line["line"]) - document["code"]["unread"]
    ours: Counter[Place] = Counter()  # there may be several of a line, which call different functions
    for line in lines:
        if line["line"]:
            ours[line["file"], line["line"]] += line["share"] / inside
    number = sum(theirs.values())
    first = ours.most_common(1)[0][0]
    function = next(line["function"] for line in lines if (line["file"], line["line"]) == first)
    yield f"{document['flow']['throughput']:.0f}"
    yield f"`{function}` ({_name(first)})"
    yield f"{ours[first]:.1%} of {inside * document['code']['threads']:.0f}"
    yield f"{theirs[first] / number:.1%} of {number}"
    yield _name(theirs.most_common(1)[0][0])
    yield f"{100 * max(abs(share - theirs[place] / number) for place, share in ours.items()):.1f} points"


def _name(place: Place) -> str:
    return f"{os.path.basename(place[0])}:{place[1]}"


if __name__ == "__main__":
    main()
