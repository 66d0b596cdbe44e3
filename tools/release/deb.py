"""Builds the Debian package: `make deb`.

One package runs on each Debian and Ubuntu whose Python is in `bundle.PYTHONS`. It bundles the exporter's Python
packages, because Debian 12 lacks one of them and has too old versions of most. Nothing is compiled, so that one for
another architecture can be built on any machine.
"""

import os
import shutil
import subprocess
import sys
from email.utils import formatdate
from pathlib import Path

from tools import commands
from tools.commands import CommandError
from tools.environments import ROOT, Environment, SetupError
from tools.release import bundle
from tools.release.source import Source, publisher

NAME = "uwsgi-headroom"
_PROGRAMS = ("dpkg-buildpackage", "dh", "dpkg-deb", "make")

_UNIT_PATHS = (
    ("/opt/uwsgi-headroom/bin/uwsgi-headroom", "/usr/bin/uwsgi-headroom"),
    ("/etc/uwsgi-headroom.yml", "/etc/uwsgi-headroom/uwsgi-headroom.yml"),
)
"""Paths in deploy/systemd, and where the package has them."""

_COMPLETIONS = (
    ("bash", "usr/share/bash-completion/completions/uwsgi-headroom"),
    ("zsh", "usr/share/zsh/vendor-completions/_uwsgi-headroom"),
    ("fish", "usr/share/fish/vendor_completions.d/uwsgi-headroom.fish"),
)


def unit_for_package(text: str) -> str:
    """A unit file with the package's paths. Raises `SetupError` if an old path remains or a path is missing."""
    for old, new in _UNIT_PATHS:
        text = text.replace(old, new)
    if "/opt/" in text:
        raise SetupError("deploy/systemd: a unit names another path below /opt than the program's")
    if "[Service]" in text and "ExecStart=/usr/bin/uwsgi-headroom --config /etc/uwsgi-headroom/" not in text:
        raise SetupError("deploy/systemd: ExecStart= is not the command that the package replaces")
    return text


def changelog(version: str, epoch: int) -> str:
    """The debian/changelog of one entry: what changed is in CHANGELOG.md, which the package has too."""
    date = formatdate(epoch)
    entry = f"  * Version {version}: see changelog.gz for what changed."
    return f"{NAME} ({version}) stable; urgency=medium\n\n{entry}\n\n -- {publisher()[0]}  {date}\n"


def package_name(version: str, architecture: str) -> str:
    return f"{NAME}_{version}_{architecture}.deb"


def unavailable() -> str | None:
    missing = [program for program in _PROGRAMS if not shutil.which(program)]
    return f"{', '.join(missing)} missing: apt-get install debhelper dpkg-dev" if missing else None


def build_deb(source: Source, wheel: Path, tools: Environment, architecture: str, target: Path) -> Path:
    if reason := unavailable():
        raise SetupError(reason)
    build = source.scratch / f"deb-{architecture}" / f"{NAME}-{source.version}"
    shutil.copytree(source.root / "deploy/debian/debian", build / "debian")
    _lay_out(source, wheel, tools, architecture, build)
    control = build / "debian/control"
    control.write_text(control.read_text().replace("@MAINTAINER@", publisher()[0]))
    (build / "debian/changelog").write_text(changelog(source.version, source.epoch))
    _set_times(build, source.epoch)
    command = [
        "dpkg-buildpackage",
        "--build=binary",
        "--no-sign",
        "--no-check-builddeps",
        f"--host-arch={architecture}",
    ]
    settings = [
        f"SOURCE_DATE_EPOCH={source.epoch}",
        "DEB_BUILD_OPTIONS=nocheck noautodbgsym",
        "DPKG_DEB_THREADS_MAX=1",
        "TZ=UTC",
        "LC_ALL=C.UTF-8",
    ]
    commands.run_command(["env", *settings, *command], cwd=build)
    made = target / package_name(source.version, architecture)
    shutil.copyfile(build.parent / made.name, made)
    os.utime(made, (source.epoch, source.epoch))
    return made


def _lay_out(source: Source, wheel: Path, tools: Environment, architecture: str, build: Path) -> None:
    tree, debian, root = build / "tree", build / "debian", source.root
    modules = tree / "usr/lib/uwsgi-headroom"
    bundle.bundle(wheel, root / bundle.LOCK, tools, architecture, modules)
    _install(debian / "launcher", tree / "usr/bin/uwsgi-headroom", 0o755)
    _install(debian / "uwsgi-headroom.yml", tree / "etc/uwsgi-headroom/uwsgi-headroom.yml")
    for rules in sorted((root / "alerts/rules").glob("*.yaml")):
        _install(rules, tree / "usr/share/uwsgi-headroom/rules" / rules.name)
    for dashboard in sorted((root / "dashboards/out").glob("*.json")):
        _install(dashboard, tree / "usr/share/uwsgi-headroom/dashboards" / dashboard.name)
    for shell, place in _COMPLETIONS:
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        (tree / place).write_text(_completion(root, shell))
    for unit in sorted((root / "deploy/systemd").glob("uwsgi-headroom.*")):
        (debian / unit.name).write_text(unit_for_package(unit.read_text()))
    shutil.copyfile(root / "deploy/systemd/waits.conf", build / "waits.conf")
    shutil.copyfile(debian / "README.Debian", build / "README.Debian")
    shutil.copyfile(root / "CHANGELOG.md", build / "CHANGELOG.md")
    shutil.copytree(root / "deploy/man", build / "man")


def _install(source: Path, target: Path, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def _completion(root: Path, shell: str) -> str:
    script = "import sys; from uwsgi_headroom import cli; sys.exit(cli.main())"
    python = ROOT / ".venv/bin/python"
    command = [str(python if python.exists() else sys.executable), "-c", script, "completion", shell]
    environment = {**os.environ, "PYTHONPATH": str(root / "exporter"), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if ran.returncode:
        raise CommandError(" ".join(command), ran.stderr)
    return ran.stdout


def _set_times(directory: Path, epoch: int) -> None:
    for path in directory.rglob("*"):
        os.utime(path, (epoch, epoch), follow_symlinks=False)
