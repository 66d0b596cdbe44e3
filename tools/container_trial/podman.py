"""Runs podman with storage and configuration of its own, which are removed at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.commands import CommandError
from tools.debian_root import UnavailableError

PROGRAMS = ("podman", "runc", "netavark")
_PLACES = "/usr/lib/podman:/usr/libexec/podman"  # of netavark, which is not on PATH

# Without the empty list, podman raises limits, which fails inside of a container or a small virtual machine.
_CONFIGURATION = '[containers]\ndefault_ulimits = []\n[engine]\ncgroup_manager = "cgroupfs"\nruntime = "runc"\n'


class Podman:
    """podman with its storage below `directory`."""

    def __init__(self, directory: Path) -> None:
        (directory / "containers.conf").write_text(_CONFIGURATION)
        (directory / "tmp").mkdir()
        places = ("--root", directory / "storage", "--runroot", directory / "run", "--storage-driver", "overlay")
        self._command = ["podman", *map(str, places)]
        self._environment = {
            **os.environ,
            "CONTAINERS_CONF": str(directory / "containers.conf"),
            "TMPDIR": str(directory / "tmp"),
        }

    def run(self, *words: str | Path, stdin: int | None = subprocess.DEVNULL) -> str:
        """Runs one podman command and returns its standard output. Raises `CommandError` with its errors."""
        command = [*self._command, *map(str, words)]
        ended = subprocess.run(
            command, env=self._environment, stdin=stdin, capture_output=True, text=True, errors="replace", check=False
        )
        if ended.returncode:
            raise CommandError(f"podman {' '.join(map(str, words))}", ended.stderr or ended.stdout)
        return ended.stdout.strip()

    def start(self, name: str, image: str, options: Sequence[str], arguments: Sequence[str] = ()) -> None:
        """Starts a container in the background."""
        self.run("run", "--detach", "--name", name, *options, image, *arguments)

    def inspect(self, name: str, field: str) -> str:
        """Returns a field of a container, in podman's notation, such as `.State.Pid`."""
        return self.run("inspect", "--format", "{{" + field + "}}", name)


def unavailable() -> str | None:
    """Why containers cannot run on this machine, or None."""
    path = f"{os.environ.get('PATH', '')}:{_PLACES}"
    missing = [program for program in PROGRAMS if not shutil.which(program, path=path)]
    if missing:
        return f"this machine has no {', '.join(missing)}: apt-get install --no-install-recommends {' '.join(missing)}"
    return None


@contextlib.contextmanager
def own_podman() -> Iterator[Podman]:
    """Yields a podman with storage in a new directory; removes its containers, images and storage."""
    # Not below /tmp, which may be in memory. podman refuses a path of more than 50 characters.
    with tempfile.TemporaryDirectory(prefix="headroom-", dir="/var/tmp", ignore_cleanup_errors=True) as directory:
        podman = Podman(Path(directory))
        try:
            podman.run("info")
        except CommandError as error:
            raise UnavailableError(f"podman does not run here: {error.last_line}") from error
        try:
            yield podman
        finally:
            for removal in (("rm", "--all", "--force", "--time", "2"), ("volume", "prune", "--force")):
                with contextlib.suppress(CommandError):
                    podman.run(*removal)
            with contextlib.suppress(CommandError):
                podman.run("rmi", "--all", "--force")
