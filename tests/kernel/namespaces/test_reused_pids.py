"""Processes whose pid the kernel gives again, in a PID namespace of their own, where nothing else takes the pid.

Each story runs there, with this module's process 1 as the master.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.other_namespaces import python_in
from tests.support.real_uwsgi import wait_until
from tools.environments import ROOT
from uwsgi_headroom.kernel.processes import Processes

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
"""The kernel gives the next free pid after this one."""

OWN_PIDS = "--pid --mount-proc" if os.geteuid() == 0 else "--user --map-root-user --pid --mount-proc"


@pytest.fixture(scope="module", autouse=True)
def own_pids():
    tried = subprocess.run(
        ["unshare", *OWN_PIDS.split(), "--fork", "test", "-w", LAST_PID], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"this user cannot choose pids in a PID namespace of its own: {tried.stderr.strip()}")


def run_in_own_pids(story: Callable[[], None]) -> None:
    name = story.__name__
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {__name__} import {name}; {name}(); print('done')"
    assert python_in(OWN_PIDS, code) == "done"


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_pid_reused_by_an_unrelated_process_is_not_read():
    run_in_own_pids(unrelated)


def unrelated() -> None:
    processes = Processes()
    worker = start("sleep", "60")
    assert worker.pid in processes.read(os.getpid(), [worker.pid])
    end(worker)
    stranger = start("sh", "-c", f"echo {worker.pid - 1} >{LAST_PID}; sleep 60 & echo $!; exec sleep 60")
    assert int(stranger.stdout.readline()) == worker.pid
    assert processes.read(os.getpid(), [worker.pid]) == {}
    assert processes.read(stranger.pid, [worker.pid]).keys() == {worker.pid}


def test_pid_reused_by_a_sibling():
    """A worker that reuses an earlier worker's pid gets its own start time."""
    run_in_own_pids(sibling)


def sibling() -> None:
    processes = Processes()
    first = start("sleep", "60")
    earlier = processes.read(os.getpid(), [first.pid])[first.pid]
    later_start = time.monotonic() + 0.03
    wait_until(lambda: time.monotonic() > later_start, what="a later start, counted in hundredths")
    end(first)
    LAST_PID.write_text(str(first.pid - 1))
    second = start("sleep", "60")
    assert second.pid == first.pid
    processes.read(os.getpid(), [second.pid])
    later = processes.read(os.getpid(), [second.pid])[second.pid]
    assert (later.start_time or 0) > (earlier.start_time or 0)
