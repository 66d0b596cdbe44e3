"""Makes a minimal Debian or Ubuntu root with debootstrap, from this machine's apt sources, and copies it for one use.

A root is made once per suite and kept. The network configuration of this machine (resolver, proxies, certificates,
pip's index) goes into each copy, so it is always current.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tools import commands
from tools.commands import CommandError, show_step
from tools.environments import ROOT, SetupError

USER = "visitor"
"""The ordinary user of a root."""

_PROGRAMS = ("apt-get", "apt-config", "chroot", "cp", "git", "nsenter", "unshare")
_FORM = "$(ORIGIN)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)"
_INDEX_TARGETS = ("apt-get", "indextargets", "--format", _FORM, "Created-By: Packages")
_APT_NETWORK = re.compile("Acquire::(https?|Retries|Check-|Allow)")
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", _CERTIFICATES)


UNAVAILABLE = 75  # EX_TEMPFAIL of sysexits.h


class UnavailableError(Exception):
    """The check cannot run on this machine; the message is one line with the reason."""


class FailedError(Exception):
    """What is checked does not work as promised; the message has a line for each fault."""


def run_check(name: str, check: Callable[[], object]) -> int:
    """Runs a check that needs a Debian root. Returns the exit status: 0, 1 if it fails, 75 if it cannot run here, 130
    after Ctrl-C."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    try:
        release = Path("/etc/os-release")
        if reason := unavailable(release.read_text() if release.exists() else ""):
            raise UnavailableError(reason)
        check()
    except UnavailableError as error:
        print(f"{name}: cannot run here: {error}", file=sys.stderr)
        return UNAVAILABLE
    except (CommandError, FailedError, SetupError) as error:
        print(f"\n{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    return 0


def expect(true: object, sentence: str) -> None:
    if not true:
        raise FailedError(sentence)


def unavailable(os_release: str) -> str | None:
    """Why this machine cannot make a root and run programs in it, or None. `os_release` is the text of that file."""
    if os.geteuid() != 0:
        return "making a Debian root and mounting in it needs root"
    if not re.search(r"^ID(_LIKE)?=.*\b(debian|ubuntu)\b", os_release, re.MULTILINE):
        return "this machine is neither Debian nor Ubuntu"
    missing = [program for program in _PROGRAMS if not shutil.which(program)]
    if missing:
        return f"this machine has no {', '.join(missing)}"
    try:
        commands.run_command(["unshare", "--mount", "--pid", "--fork", "true"])
    except CommandError as error:
        return f"namespaces are refused: {error.last_line}"
    return None


def archive(targets: str, suite: str) -> tuple[str, list[str]]:
    """The URL of the archive of `suite`, or else that of this machine's own suite, and the components in use, from
    `apt-get indextargets`. Raises `UnavailableError` if apt knows no archive."""
    rows = [fields for line in targets.splitlines() if len(fields := line.split("|")) == 4]
    own = [row for row in rows if row[0] in ("Debian", "Ubuntu") and "-" not in row[1]]  # no -security, -updates
    chosen = [row for row in own if row[1] == suite] or own
    if not chosen:
        raise UnavailableError("apt knows no archive of Debian or Ubuntu")
    url = chosen[0][3]
    return url, sorted({component for _, _, component, of in chosen if of == url})


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "/var/tmp") / "uwsgi-headroom-bare-machine"


@contextlib.contextmanager
def copied(suite: str, directory: Path, packages: Sequence[str] = (), arch: str = "") -> Iterator[Path]:
    """Yields a copy of the root of `suite`, removed with the block; also removes copies that killed runs have left.
    packages: what it has besides the minimum; arch: of another machine. Raises `UnavailableError` if none can be
    made."""
    for left in directory.glob("copy-*"):
        if not Path("/proc", left.name.removeprefix("copy-")).exists():
            shutil.rmtree(left)
    root = _made(suite, directory, packages, arch)
    copy = directory / f"copy-{os.getpid()}"
    try:
        with show_step("copying the root"):
            commands.run_command(["cp", "--archive", "--reflink=auto", root, copy])
            _connect(copy)
        yield copy
    finally:
        if copy.exists():
            with show_step("removing the copy"):
                shutil.rmtree(copy)


def _made(suite: str, directory: Path, packages: Sequence[str] = (), arch: str = "") -> Path:
    root = directory / "-".join(filter(None, (suite, arch)))
    if root.exists():
        return root
    part = directory / f"copy-{os.getpid()}"
    directory.mkdir(parents=True, exist_ok=True)
    try:
        if not shutil.which("debootstrap"):
            with show_step("installing debootstrap"):
                commands.run_command(["apt-get", "-qq", "update"])
                commands.run_command(["apt-get", "-qq", "-y", "install", "debootstrap"])
        with show_step(f"making a minimal root of {suite}"):
            if not targets():
                commands.run_command(["apt-get", "-qq", "update"])  # a fresh container has no lists
            url, components = archive(targets(), suite)
            options = ["--variant=minbase", f"--components={','.join(components)}"]
            options += [f"--include={','.join(packages)}"] if packages else []
            options += [f"--arch={arch}"] if arch else []
            # Its mounts disappear with the process, even if it is interrupted.
            commands.run_command(["unshare", "--mount", "debootstrap", *options, suite, part, url])
            commands.run_command(["chroot", part, "useradd", "--create-home", "--shell", "/bin/bash", USER])
            commands.run_command(["chroot", part, "apt-get", "clean"])
            part.rename(root)  # atomic: the root is complete or absent
    except CommandError as error:
        raise UnavailableError(f"no root of {suite} can be made: {error.last_line}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return root


def copy_source(copy: Path) -> None:
    source = copy / "srv" / "source"
    source.mkdir(exist_ok=True)
    archive = subprocess.check_output(["git", "-c", "safe.directory=*", "archive", "HEAD"], cwd=ROOT)
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)


def targets() -> str:
    """What apt knows of archives, in the form that `archive` reads."""
    return subprocess.run(_INDEX_TARGETS, capture_output=True, text=True, check=False).stdout


def _connect(copy: Path) -> None:
    pip = Path.home() / ".config/pip/pip.conf"
    sources = {Path(name): copy / name.lstrip("/") for name in (*_FILES, os.environ.get("PIP_CERT", "")) if name}
    # The package ca-certificates rewrites its file when it is installed, and includes the files of this directory.
    kept = copy / "usr/local/share/ca-certificates/machine.crt"
    copies = [*sources.items(), (pip, copy / "etc/xdg/pip/pip.conf"), (Path(_CERTIFICATES), kept)]
    for source, place in copies:
        if source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
    settings = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in settings.splitlines() if _APT_NETWORK.match(line)]
    (copy / "etc/apt/apt.conf.d/99machine").write_text("\n".join([*lines, ""]))


# The machine's first process ends when its standard input ends, so with this process, however it ends. All other
# processes of the machine end with the first.
_FIRST = """set -e
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/dev/shm"
echo ready
exec cat"""

_ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "TERM=xterm")
_NETWORK = re.compile(r"(https?|no)_proxy|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|CERT)", re.IGNORECASE)


class Machine(NamedTuple):
    """A running machine. first: the process outside the machine whose child is the machine's first process."""

    root: Path
    first: subprocess.Popen[str]

    def command(self, words: Sequence[str]) -> list[str]:
        network = [f"{name}={value}" for name, value in os.environ.items() if _NETWORK.fullmatch(name)]
        return [
            "nsenter",
            f"--mount=/proc/{self.first.pid}/ns/mnt",
            f"--pid=/proc/{self.first.pid}/ns/pid_for_children",
            *("chroot", str(self.root), "env", "--ignore-environment", *_ENVIRONMENT, *network, "HOME=/root"),
            *words,
        ]

    def run(self, *words: str) -> None:
        commands.run_command(self.command(words))


@contextlib.contextmanager
def machine(root: Path) -> Iterator[Machine]:
    """Runs a machine on `root` during the block. Raises `UnavailableError` if the kernel does not allow it."""
    first = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _FIRST, "sh", str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches only this process
    )
    assert first.stdin
    assert first.stdout
    assert first.stderr
    try:
        if first.stdout.readline() != "ready\n":
            raise UnavailableError(f"the kernel refuses: {first.stderr.read().strip()}")
        yield Machine(root, first)
    finally:
        first.stdin.close()
        first.wait()
        first.stdout.close()
        first.stderr.close()
