"""Runs code as another user, in other namespaces, or behind a security policy."""

from __future__ import annotations

import ctypes
import os
import pickle
import platform
import socket
import struct
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, TypeVar

import pytest

from tools.environments import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

NOBODY = 65534

IPV6 = True
try:
    with socket.socket(socket.AF_INET6) as _probe:
        _probe.bind(("::1", 0))
except OSError:
    IPV6 = False

over_ipv6 = pytest.mark.skipif(not IPV6, reason="this machine has no IPv6 loopback")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user and its namespaces")


def in_child(ask: Callable[[], T]) -> T:
    """Returns what `ask` returns in a forked child, which can change its user or namespaces without affecting tests."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.write(writable, pickle.dumps(ask()))
            status = 0
        except BaseException:  # noqa: BLE001  # a forked child must never return into pytest
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writable)
    with open(readable, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0, "see the child's traceback above"
    result: T = pickle.loads(answer)
    return result


def as_nobody(ask: Callable[[], T], before: Callable[[], object] = lambda: None) -> T:
    """Returns what `ask` returns for a user without privileges. before: runs first, still as root."""

    def drop_and_ask() -> T:
        before()
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        return ask()

    return in_child(drop_and_ask)


def python_in(namespaces: str, code: str) -> str:
    """Returns the output of a Python program that runs in new `namespaces`, with the package importable."""
    return subprocess.run(
        ["unshare", *namespaces.split(), "--kill-child", "--fork", sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT / "exporter")},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout.strip()


# linux/filter.h, linux/seccomp.h, linux/prctl.h
_BPF_LD_W_ABS, _BPF_JEQ, _BPF_RET = 0x20, 0x15, 0x06
_SECCOMP_RET_ALLOW, _SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2
_SYS_SOCKET = {"x86_64": 41, "aarch64": 198}
AF_NETLINK = 16

knows_socket_call = pytest.mark.skipif(
    platform.machine() not in _SYS_SOCKET, reason=f"the number of socket(2) on {platform.machine()} is not known here"
)


def forbid_netlink(code: int) -> None:
    """Makes socket(AF_NETLINK) fail with errno `code` from now on, as systemd and seccomp profiles do."""
    program = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (_BPF_LD_W_ABS, 0, 0, 0),  # seccomp_data.nr
            (_BPF_JEQ, 0, 3, _SYS_SOCKET[platform.machine()]),
            (_BPF_LD_W_ABS, 0, 0, 16),  # the low half of seccomp_data.args[0]
            (_BPF_JEQ, 0, 1, AF_NETLINK),
            (_BPF_RET, 0, 0, _SECCOMP_RET_ERRNO | code),
            (_BPF_RET, 0, 0, _SECCOMP_RET_ALLOW),
        )
    )
    instructions = ctypes.create_string_buffer(program)
    sock_fprog = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, sock_fprog) == 0, ctypes.get_errno()
