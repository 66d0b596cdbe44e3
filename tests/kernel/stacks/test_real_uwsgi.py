"""Where the threads of a real uWSGI are seen is where its application says that it spends its time."""

from __future__ import annotations

import contextlib
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.check.test_check import clients
from tests.support.contained import contained
from tests.support.other_namespaces import as_root
from tests.support.real_uwsgi import APP, accepting, uwsgi, wait_until
from tests.support.watched_code import FUNCTIONS, Watched, measure
from uwsgi_headroom.kernel.stacks.looks import is_application
from uwsgi_headroom.kernel.waits.system_calls import find_calls

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not find_calls() or not find_calls().tried,  # type: ignore[union-attr]
        reason="the system calls of this architecture were never tried",
    ),
]


def test_shares_of_functions_are_true() -> None:
    """The share of each of ten functions, of which each waits for something else, computes, or calls a library, is the
    application's own; each is mostly in the state that belongs to it."""
    compared = measure(2, 4, clients=6, kept=1500, pause=0.03)
    use = compared.use
    assert compared.largest_difference < 0.06, compared
    assert use.unread < 0.02 * use.threads, compared
    assert use.changed < 0.05 * use.threads, compared
    for function in compared.functions:
        # How long threads wait for a CPU or for the interpreter lock, and for a disk at all, depends on the machine.
        own = FUNCTIONS[function.name]
        beside = {"cpu", "cpu_wait", "interpreter_lock"} - {own}
        waiting = sum(part for state, part in function.states.items() if state not in beside)
        if own not in ("cpu", "disk"):
            assert function.states[own] >= 0.9 * waiting, (function, compared)
    assert {line.line.callee for line in use.lines if line.line.function == "parse"} & {"json loads"}


@pytest.mark.parametrize("options", [(), ("--single-interpreter",)])
def test_several_applications(tmp_path: Path, options: tuple[str, ...]) -> None:
    """In interpreters of their own, whose stack is whose is not known, and the reason says what helps; in a single one,
    each application has its line."""
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(
            "import time\n"
            f"def {name}():\n"
            "    time.sleep(0.05)\n"
            "def application(environ, start_response):\n"
            f"    {name}()\n"
            "    start_response('200 OK', [])\n"
            "    return [b'']\n"
        )
    mounts = [f"--mount=/{name}={tmp_path}/{name}.py" for name in ("first", "second")]
    with (
        uwsgi("--threads", "2", "--manage-script-name", *mounts, *options) as server,
        clients(server.http, path="/first"),
        clients(server.http, path="/second"),
    ):
        watched = Watched(server)

        def is_known() -> bool:
            watched.read()
            use = watched.look()
            lines = {line.line.function for line in use.lines if line.line.line == 3}
            return lines == {"first", "second"} if options else "single-interpreter" in (use.off or "")

        wait_until(is_known, what="both lines, or the reason")


@as_root
def test_in_a_container(tmp_path: Path) -> None:
    """Of workers that have pids and mounts of their own, the line is known as well."""
    command = "unshare --pid --mount --uts --ipc --mount-proc --fork --kill-child"
    with (
        contained(tmp_path, "--processes", "2", "--threads", "2", command=command) as (server, master),
        clients(*[server.http] * 3, path="/?io_ms=50"),
    ):
        watched = Watched(server, master)
        wait_until(lambda: watched.look().threads > 50, what="looks at busy threads")
        use = watched.look()
    first = use.lines[0]
    assert (first.line.file, first.line.function) == (str(APP), "application"), use
    assert first.looks > 0.8 * use.threads, use


def test_reloads() -> None:
    """While uWSGI reloads, a look has lines of this application or none; afterwards they are known again."""
    with accepting("--processes", "2", "--threads", "2") as server, clients(*[server.http] * 3, path="/?io_ms=20"):
        watched = Watched(server)
        for _ in range(3):
            before = {worker.pid for worker in watched.snapshot.workers}
            # A worker that starts misses the signal, and the master would wait a minute for it.
            wait_until(lambda: b'"accepting":0' not in server.document(), what="all workers to accept")
            os.kill(server.pid, signal.SIGHUP)
            wait_until(partial(sees_others, watched, before), what="looks at the new workers")
        use = watched.look()
    assert use.lines[0].line.file == str(APP), use
    own = {line.line.file for line in use.lines if line.line.file and is_application(line.line.file)}
    assert own == {str(APP)}, use


def sees_others(watched: Watched, before: set[int | None]) -> bool:
    """Look by the document of a moment ago, whose workers may end now, then by the latest one; whether threads of none
    but other workers were seen in it."""
    threads = watched.look().threads
    with contextlib.suppress(OSError, AssertionError):  # none, or half a document
        watched.read()
    are_new = before.isdisjoint({worker.pid for worker in watched.snapshot.workers})
    return watched.look().threads > threads and are_new
