"""Measures which figures an exporter with certain rights has of a uWSGI in other namespaces: docs/installation.md.

`python -m tools.rights.namespaces` (as root) runs a uWSGI for each combination of namespaces, asks for its figures with
each set of rights, and compares them with what root sees from outside. It prints the tables.
A figure is `yes` if it equals the truth, `-` if it is absent, and WRONG otherwise.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.real_uwsgi import Uwsgi, accepting, peer_pid, uwsgi_binary, wait_until, wrapped
from uwsgi_headroom import stats
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.waits.sampler import WaitSetting
from uwsgi_headroom.source import Answer

USER = 12345
QUOTA, MEMORY, LISTEN, WAITING = 0.5, 256 << 20, 20, 3
GROUPS = ("cpu", "memory")

_OWN_PIDS = "unshare --pid --fork --kill-child"
_CONTAINER = f"unshare --mount --net --uts --ipc --cgroup --mount-proc {_OWN_PIDS.removeprefix('unshare ')}"


@dataclass(frozen=True)
class Combination:
    """Namespaces of a uWSGI, and those of the exporter. In `exporter`, PID is the master as root sees it."""

    title: str
    uwsgi: str = "env"
    exporter: str = "env"


COMBINATIONS = (
    Combination("both on one host"),
    Combination("uWSGI in another PID namespace", _OWN_PIDS),
    Combination("uWSGI in a PID namespace two levels below", f"{_OWN_PIDS} {_OWN_PIDS}"),
    Combination("uWSGI in another network namespace", "unshare --net"),
    Combination("uWSGI in another mount namespace", "unshare --mount"),
    Combination("uWSGI in a container, the exporter on the host", _CONTAINER),
    Combination(
        "the same, with a user namespace",
        f"unshare --user --map-root-user --mount --net --mount-proc {_OWN_PIDS.removeprefix('unshare ')}",
    ),
    Combination(
        "two containers, one PID and network namespace (pod)",
        _CONTAINER,
        "nsenter --target PID --pid --net unshare --mount --ipc --mount-proc",
    ),
    Combination(
        "two containers, one PID namespace", _CONTAINER, "nsenter --target PID --pid unshare --mount --net --mount-proc"
    ),
    Combination("the exporter in a container, uWSGI on the host", exporter=_CONTAINER),
    Combination("two separate containers", _CONTAINER, _CONTAINER),
)

RIGHTS: Mapping[str, tuple[int, ...] | None] = {  # capabilities: linux/capability.h; None is root
    "root": None,
    "a user with CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH and CAP_SYS_ADMIN": (19, 2, 21),
    "a user with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH": (19, 2),
    "a user without capabilities": (),
}

HEADS: Mapping[str, str] = {
    "processes": "processes",
    "unix_queue": "UNIX queue",
    "tcp_queue": "TCP queue",
    "cpu_quota": "CPU quota",
    "memory_limit": "memory limit",
    "options": "options",
    "open_files": "open files",
    "somaxconn": "somaxconn",
    "overflows": "overflows",
    "waits": "waits",
}

Figures = dict[str, object]


def main() -> None:
    """Measure every combination with every set of rights."""
    if sys.argv[1:2] == ["--ask"]:
        print(json.dumps(ask(sys.argv[2], sys.argv[3])))
        return
    rows: dict[str, list[str]] = {right: [] for right in RIGHTS}
    for combination in COMBINATIONS:
        for right, cells in measure(combination).items():
            rows[right].append(f"| {combination.title} | " + " | ".join(cells) + " |\n")
            print(f"{right}: {rows[right][-1]}", end="", file=sys.stderr)
    head = f"| namespaces | {' | '.join(HEADS.values())} |\n|{'---|' * (len(HEADS) + 1)}\n"
    print("\n".join(f"### {right[0].upper()}{right[1:]}\n\n{head}{''.join(rows[right])}" for right in RIGHTS))


def measure(combination: Combination) -> dict[str, list[str]]:
    """The cells of one combination, by rights."""
    with running(combination) as (server, master):
        truth = read_truth(server, master)
        position = combination.exporter.replace("PID", str(master)).split()
        cells = {}
        for right in RIGHTS:
            command = [*position, sys.executable, "-m", "tools.rights.namespaces", "--ask", server.stats, right]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            if found["off"]:
                print(found["off"], file=sys.stderr)
            cells[right] = [judge(found[name], truth[name]) for name in HEADS]
    return cells


def judge(found: object, truth: object) -> str:
    return "-" if found is None else "yes" if found == truth else f"WRONG: {found}, not {truth}"


@contextlib.contextmanager
def running(combination: Combination) -> Iterator[tuple[Uwsgi, int]]:
    """A uWSGI whose worker is stopped, with three clients waiting, in cgroups with limits; and the master's pid."""
    name = f"headroom-table-{os.getpid()}"
    groups = [Path("/sys/fs/cgroup") / controller / name for controller in GROUPS]
    for group in groups:
        group.mkdir()
    (groups[0] / "cpu.cfs_quota_us").write_text(str(int(QUOTA * 100_000)))
    (groups[1] / "memory.limit_in_bytes").write_text(str(MEMORY))
    try:
        enter = " ".join(f"echo $$ >{group}/cgroup.procs;" for group in groups)
        with contextlib.ExitStack() as stack:
            directory = Path(stack.enter_context(_short_directory()))
            binary = wrapped(directory, uwsgi_binary(), combination.uwsgi)
            script = Path(binary)
            script.write_text(script.read_text().replace("exec ", f"{enter} exec ", 1))
            (directory / "app.ini").write_text(f"[uwsgi]\nlisten = {LISTEN}\n")
            options = ("--chmod-socket=666", "--ini", str(directory / "app.ini"))
            server = stack.enter_context(accepting(*options, binary=binary))
            server.directory.chmod(0o755)
            master = peer_pid(server.stats)
            for worker in psutil.Process(master).children():
                worker.suspend()
                stack.callback(worker.resume)
            for _ in range(WAITING):
                stack.enter_context(socket.socket(socket.AF_UNIX)).connect(server.socket)
            yield server, master
    finally:
        for group in groups:
            wait_until(lambda group=group: _removed(group), what="the end of the processes")  # type: ignore[misc]


def _removed(group: Path) -> bool:
    """Whether a cgroup could be removed: a process stays in it until its parent has noticed its end."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


@contextlib.contextmanager
def _short_directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="hr-") as name:
        Path(name).chmod(0o755)
        yield name


def read_truth(server: Uwsgi, master: int) -> Figures:
    """The figures as root sees them from outside, without the exporter's code."""
    inside = ["nsenter", "--target", str(master), "--net", "cat", "/proc/sys/net/core/somaxconn"]
    netstat = Path(f"/proc/{master}/net/netstat").read_text().splitlines()
    counts = dict(zip(netstat[0].split(), netstat[1].split(), strict=True))
    return {
        "processes": sorted(round(child.create_time(), 1) for child in psutil.Process(master).children()),
        "unix_queue": [WAITING, LISTEN],
        "tcp_queue": [0, LISTEN],
        "cpu_quota": QUOTA,
        "memory_limit": True,
        "options": LISTEN,
        "open_files": sum(len(os.listdir(f"/proc/{child.pid}/fd")) for child in psutil.Process(master).children()),
        "somaxconn": int(subprocess.run(inside, stdout=subprocess.PIPE, check=True).stdout),
        "overflows": int(counts["ListenOverflows"]),
        "waits": True,
    }


def ask(path: str, right: str) -> Figures:
    """The figures that the exporter's code has here, with these rights. None: absent."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        pid = struct.unpack("iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        snapshot = stats.decode(b"".join(iter(lambda: client.recv(1 << 18), b"")))
    assert isinstance(snapshot, stats.Snapshot)
    keep_rights(RIGHTS[right])
    facts = Host(waits=WaitSetting()).read_facts(snapshot, Answer(b"", peer_pid=pid))
    queues = {
        each.name.startswith("/"): facts.backlogs[each.name] for each in snapshot.sockets if each.name in facts.backlogs
    }
    unix, tcp = ([queues[kind].queue, queues[kind].limit] for kind in (True, False))
    available = facts.memory.available if facts.memory else None
    files = [process.open_fds for process in facts.processes.values()]
    setup = facts.setup
    return {
        "off": facts.off,
        "processes": sorted(round(each.start_time or 0, 1) for each in facts.processes.values()) or None,
        "unix_queue": None if unix == [None, None] else unix,
        "tcp_queue": None if tcp == [None, None] else tcp,
        "cpu_quota": facts.cpus.quota if facts.cpus else None,
        "memory_limit": available and available.limited_by == "cgroup" and available.byte_count < MEMORY,
        "options": setup.options.listen if setup else None,
        "open_files": sum(number or 0 for number in files) if files and None not in files else None,
        "somaxconn": setup.somaxconn if setup else None,
        "overflows": facts.overflows.overflows if facts.overflows else None,
        "waits": True if facts.waits and not facts.waits.off else None,
    }


def keep_rights(capabilities: tuple[int, ...] | None) -> None:
    """Become a user without any group, who has only these capabilities; None: stay root."""
    if capabilities is None:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    bits = sum(1 << number for number in capabilities)
    header, data = struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", bits, bits, 0, 0, 0, 0)
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


if __name__ == "__main__":
    main()
