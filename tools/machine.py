"""Runs a root directory as a machine, with its own processes and mounts, its users, and a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.debian_root import UnavailableError

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
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()]B")


@dataclass(frozen=True)
class Machine:
    """A running machine. first: the process outside the machine whose child is the machine's first process."""

    root: Path
    first: subprocess.Popen[str]

    def command(
        self, words: Sequence[str], user: str = "root", directory: str = "/", terminal: bool = False
    ) -> list[str]:
        """Returns the command line that runs `words` in the machine. terminal: standard input is its terminal."""
        network = [f"{name}={value}" for name, value in os.environ.items() if _NETWORK.fullmatch(name)]
        home = "/root" if user == "root" else f"/home/{user}"
        who = [f"HOME={home}", f"USER={user}", f"LOGNAME={user}"]
        return [
            "nsenter",
            f"--mount=/proc/{self.first.pid}/ns/mnt",
            f"--pid=/proc/{self.first.pid}/ns/pid_for_children",
            *("chroot", f"--userspec={user}:{user}", str(self.root)),
            *(["setsid", "--ctty"] if terminal else []),
            *("env", "--ignore-environment", f"--chdir={directory}", *_ENVIRONMENT, *network, *who),
            *words,
        ]

    def programs(self) -> list[str]:
        """Returns the paths, within the machine, of its running programs."""
        own = os.readlink(f"/proc/{self.first.pid}/ns/pid_for_children")
        running = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                if os.readlink(process / "ns/pid") == own:
                    running.append(os.readlink(process / "exe"))
        inside = f"{self.root}/"  # excludes the first process
        return sorted(path.removeprefix(str(self.root)) for path in running if path.startswith(inside))


@contextlib.contextmanager
def machine(root: Path) -> Iterator[Machine]:
    """Runs a machine on `root` during the block, then ends all its processes and mounts.

    Raises `UnavailableError` if the kernel does not allow it.
    """
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


@dataclass
class Terminal:
    """A command in a terminal."""

    process: subprocess.Popen[bytes]
    keyboard: int
    _written: bytearray = field(default_factory=bytearray)
    _last: float = field(default_factory=time.monotonic)
    _longest: float = 0.0

    def silence(self) -> float:
        """Returns the longest time without output so far, in seconds."""
        return max(self._longest, time.monotonic() - self._last)

    def text(self) -> str:
        """Returns the output as lines; a line that overwrote another is a line of its own."""
        text = _CONTROLS.sub("", self._written.decode(errors="replace")).replace("\r\n", "\n").replace("\r", "\n")
        return "\n".join(line.rstrip() for line in text.splitlines())

    def interrupt(self) -> None:
        """Types Ctrl-C: the kernel sends SIGINT to the foreground process group."""
        os.write(self.keyboard, b"\x03")

    def receive(self) -> None:
        """Reads the output until no process has the terminal open."""
        with contextlib.suppress(OSError):
            while received := os.read(self.keyboard, 65536):
                now = time.monotonic()
                self._longest = max(self._longest, now - self._last)
                self._last = now
                self._written += received


@contextlib.contextmanager
def in_terminal(command: Sequence[str]) -> Iterator[Terminal]:
    """Runs `command` in its own terminal, 100 x 30; the command ends with the machine."""
    keyboard, screen = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    modes = termios.tcgetattr(screen)
    modes[3] |= termios.NOFLSH  # otherwise Ctrl-C discards what the command has just written
    termios.tcsetattr(screen, termios.TCSANOW, modes)
    process = subprocess.Popen(command, stdin=screen, stdout=screen, stderr=screen, start_new_session=True)
    os.close(screen)
    terminal = Terminal(process, keyboard)
    threading.Thread(target=terminal.receive, daemon=True).start()
    yield terminal
