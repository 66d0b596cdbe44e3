"""`make try-deb`: installs, upgrades, removes and purges the Debian package on minimal Debians of two suites.

Needs root, and the package in dist/ (`make deb`). In each suite: installs an older package, whose configuration
differs; changes the configuration file; upgrades; runs the service's command as an ordinary user beside Debian's
uWSGI, and compares its metrics with the requests that were sent; removes the package, then purges it. No systemd runs
there.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.loopback import free_port, get
from tools import commands, debian_root
from tools.commands import note, show_step
from tools.debian_root import APT, FailedError, Machine, UnavailableError, expect, machine, wait_for
from tools.environments import ROOT

SUITES = ("bookworm", "trixie")
PACKAGES = ("man-db", "fish", "zsh", "uwsgi-core", "uwsgi-plugin-python3")

_MODULES = "usr/lib/uwsgi-headroom"
_CONFIG = "etc/uwsgi-headroom/uwsgi-headroom.yml"
_HISTORY = "var/lib/private/uwsgi-headroom/history.sqlite"
_OFFLINE = (
    "--option",
    "Acquire::http::Proxy=http://127.0.0.1:1",
    "--option",
    "Acquire::https::Proxy=http://127.0.0.1:1",
)
"""Nothing answers on port 1: a download would fail."""
_CHANGED = "# changed by the administrator\n"
_COMPLETIONS = {
    "bash": "source /usr/share/bash-completion/completions/uwsgi-headroom; COMP_WORDS=(uwsgi-headroom ch);"
    " COMP_CWORD=1; _uwsgi_headroom; echo ${COMPREPLY[@]}",
    "fish": "complete -C 'uwsgi-headroom ch'",
    "zsh": "autoload -Uz compinit; compinit -D -u; echo check: $_comps[uwsgi-headroom]",
}
"""A command for each shell whose output has the word `check` if the shell completes the program's commands."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.release.try_deb", description=__doc__)
    parser.add_argument("suite", nargs="*", help="Debian suites (default: bookworm and trixie)")
    suites: list[str] = parser.parse_args(argv).suite or list(SUITES)
    return debian_root.run_check("try-deb", lambda: _try_on(suites))


def _try_on(suites: Sequence[str]) -> None:
    made = sorted((ROOT / "dist").glob("uwsgi-headroom_*_amd64.deb"))
    if not made:
        raise UnavailableError("there is no package in dist/: make deb")
    with tempfile.TemporaryDirectory(prefix="headroom-deb-") as scratch:
        older = older_package(made[-1], Path(scratch))
        for suite in suites:
            note(suite)
            with debian_root.copied(suite, debian_root.cache()) as copy, machine(copy) as bare:
                _try(bare, made[-1], older)
    print(f"try-deb: {made[-1].name} installs, upgrades, serves, and is removed and purged on {', '.join(suites)}")


def older_package(package: Path, scratch: Path) -> Path:
    """A package of a lower version, with another configuration file, made from `package`."""
    tree, older = scratch / "older", scratch / "older.deb"
    commands.run_command(["dpkg-deb", "--raw-extract", package, tree])
    control = tree / "DEBIAN/control"
    lines = control.read_text().splitlines()
    control.write_text("".join("Version: 0.0.1\n" if line.startswith("Version:") else f"{line}\n" for line in lines))
    (tree / _CONFIG).write_text("# of the older version\n" + (tree / _CONFIG).read_text())
    gone = tree / _MODULES / "uwsgi_headroom/of_the_older_version.py"
    gone.write_text("GONE = True\n")
    commands.run_command(["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", tree, older])
    shutil.rmtree(tree)
    return older


def _try(bare: Machine, package: Path, older: Path) -> None:
    shutil.copyfile(older, bare.root / "srv/older.deb")
    shutil.copyfile(package, bare.root / "srv/package.deb")
    debian_root.forbid_services(bare.root)
    (bare.root / "etc/dpkg/dpkg.cfg.d/docker").unlink(missing_ok=True)  # it would leave out manual pages
    bare.install("python3", *PACKAGES)
    with show_step("installing the older version, without a network"):
        _install(bare, "/srv/older.deb")
    config = bare.root / _CONFIG
    config.write_text(config.read_text() + _CHANGED)
    with show_step("upgrading"):
        _install(bare, "/srv/package.deb")
    expect(config.read_text().endswith(_CHANGED), "an upgrade changed the configuration of the administrator")
    expect((config.parent / f"{config.name}.dpkg-dist").is_file(), "an upgrade did not leave its configuration beside")
    left = list((bare.root / _MODULES).rglob("of_the_older_version*"))
    expect(not left, f"left by the upgrade: {left}")
    with show_step("version, manual, completion"):
        _program(bare, package)
    with show_step("the service's command beside uWSGI"):
        check_service(bare, bare.root / _HISTORY)
    with show_step("removing"):
        bare.run(*APT, "remove", "uwsgi-headroom")
    expect(not (bare.root / _MODULES).exists(), f"left by the removal: /{_MODULES}")
    expect(config.exists() and (bare.root / _HISTORY).exists(), "the removal deleted the configuration or the history")
    with show_step("purging"):
        bare.run(*APT, "purge", "uwsgi-headroom")
    rest = [place for place in _places(bare.root) if place.exists() or place.is_symlink()]
    expect(not rest, f"left by the purge: {', '.join(map(str, rest))}")


def _install(bare: Machine, package: str) -> None:
    """Installs a package file with what is there. A changed configuration file is kept, as unattended upgrades do."""
    options = ["--option", "Dpkg::Options::=--force-confold", "--no-install-recommends", *_OFFLINE]
    bare.run(*APT, "install", *options, package)


def _program(bare: Machine, package: Path) -> None:
    version = package.name.split("_")[1]
    expect(bare.output("uwsgi-headroom", "--version") == f"uwsgi-headroom {version}\n", "the version is another")
    for page in ("uwsgi-headroom", "uwsgi-headroom-check"):
        expect("SYNOPSIS" in bare.output("man", page), f"man {page} shows no manual page")
    for shell, command in _COMPLETIONS.items():
        expect("check" in bare.output(shell, "-c", command), f"{shell} does not complete")
    stale = [path for path in (bare.root / _MODULES).rglob("*.py") if not _compiled(path)]
    expect(not stale, f"not compiled: {stale[:3]}")


def _compiled(module: Path) -> bool:
    return any(module.parent.glob(f"__pycache__/{module.stem}.cpython-*.pyc"))


def _places(root: Path) -> list[Path]:
    names = ("etc/uwsgi-headroom", "var/lib/uwsgi-headroom", "var/lib/private/uwsgi-headroom", _MODULES)
    return [*(root / name for name in names), *(root / "etc/systemd").rglob("*uwsgi-headroom*")]


REQUESTS = 37
WORKERS = 2
READY_SECONDS = 60.0
USER = "nobody"  # as unprivileged as the user that DynamicUser= makes

_UNIT = "usr/lib/systemd/system/uwsgi-headroom.service"
_APPLICATION = "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'ok']\n"
_FIGURE = re.compile(r"^(\w+)(\{[^}]*\})? (\S+)$", re.MULTILINE)


def command_of(unit: str) -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    return str(line).split()


def total(metrics: str, name: str) -> float:
    return sum(float(value) for found, _, value in _FIGURE.findall(metrics) if found == name)


def check_service(bare: Machine, history: Path) -> None:
    """Runs uWSGI and the service's command, sends requests, and compares. Raises `FailedError`."""
    (bare.root / "srv/app.py").write_text(_APPLICATION)
    (bare.root / "run/uwsgi").mkdir(parents=True, exist_ok=True)
    bare.output("install", "-d", "-o", "www-data", "/run/uwsgi")
    inside = "/" + str(history.relative_to(bare.root))
    bare.output("install", "-d", "-m", "755", "/var/lib/private")
    bare.output("install", "-d", "-o", USER, str(Path(inside).parent))
    # systemd makes this link for a unit with DynamicUser= and StateDirectory=.
    bare.output("ln", "-s", "private/uwsgi-headroom", "/var/lib/uwsgi-headroom")
    http, port = free_port(), free_port()
    words = command_of((bare.root / _UNIT).read_text())
    settings = [f"UWSGI_HEADROOM_HISTORY={inside}", f"UWSGI_HEADROOM_WEB_LISTEN_ADDRESS=127.0.0.1:{port}"]
    with _running(bare, _uwsgi(http)), _running(bare, ["env", *settings, *_as(USER), *words]):
        wait_for(lambda: get(http, "/") == "ok", READY_SECONDS, "uWSGI answers")
        wait_for(lambda: total(get(port, "/metrics") or "", "uwsgi_up") == 1, READY_SECONDS, "uwsgi_up is 1")
        before = counted(port)
        for _ in range(REQUESTS):
            expect(get(http, "/", timeout=30) == "ok", "a request failed")
        wait_for(lambda: counted(port) - before == REQUESTS, READY_SECONDS, f"{REQUESTS} requests are counted")
        metrics = get(port, "/metrics") or ""
        workers = {labels for name, labels, _ in _FIGURE.findall(metrics) if name == "uwsgi_worker_requests_total"}
        expect(len(workers) == WORKERS, f"{len(workers)} workers instead of {WORKERS}")
        wait_for(history.is_file, READY_SECONDS, "a history is written")


def _uwsgi(port: int) -> list[str]:
    options = ["--plugin", "python3", "--master", "--processes", str(WORKERS), "--wsgi-file", "/srv/app.py"]
    where = [
        "--http-socket",
        f"127.0.0.1:{port}",
        "--stats",
        "/run/uwsgi/shop.stats",
        "--chmod-socket=660",
        "--die-on-term",
    ]
    return [*_as("www-data"), "/usr/bin/uwsgi-core", *options, *where]


def _as(user: str) -> list[str]:
    """The words before a command that run it as `user`, in the group that may use the stats socket."""
    return ["setpriv", f"--reuid={user}", "--regid=www-data", "--clear-groups", "--no-new-privs"]


def counted(port: int) -> float:
    return total(get(port, "/metrics") or "", "uwsgi_worker_requests_total")


@contextlib.contextmanager
def _running(bare: Machine, words: list[str]) -> Iterator[None]:
    """Runs a command during the block. If the block fails, adds the end of the command's output to the message."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(bare.command(words), stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        try:
            yield
        except FailedError as error:
            said.seek(0)
            raise FailedError(f"{error}\n{' '.join(words)}:\n{said.read()[-2000:]}") from error
        finally:
            process.terminate()
            try:
                process.wait(READY_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


if __name__ == "__main__":
    sys.exit(main())
