"""Where the threads of a real uWSGI are seen is where its application says that it spends its time."""

import contextlib
import multiprocessing
import os
import random
import signal
import socketserver
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct

from tests.check.test_check import clients
from tests.kernel.contained import contained
from tests.kernel.waits.test_sampler import needs_known_calls
from tests.support.other_namespaces import as_root
from tests.support.real_uwsgi import APP, Uwsgi, accepting, uwsgi, wait_until
from tools.scenarios.scenario import Load
from tools.scenarios.servers import loaded
from uwsgi_headroom import stats
from uwsgi_headroom.history.code_time import CodeHistory
from uwsgi_headroom.history.window import CodeWindow
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.stacks.looks import CodeLooks, is_application
from uwsgi_headroom.kernel.waits import WaitSetting
from uwsgi_headroom.record import State
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats import Snapshot

pytestmark = [pytest.mark.integration, needs_known_calls]

_LOOKS_A_READING = 2  # as in `check`

FUNCTIONS: Mapping[str, State] = {
    "nap": "sleep",
    "ask": "backend",
    "wait_for_lock": "lock",
    "wait_for_file": "lock",
    "wait_for_interpreter": "interpreter_lock",
    "read_pipe": "pipe",
    "run_program": "child",
    "store": "disk",
    "compute": "cpu",
    "parse": "cpu",
}
"""Those of the application, in the order of its record, with the state that each was written for."""


class Use(Struct, frozen=True):
    """A function. truth, seen: its part of all time, by the application and by looks. states: parts of the looks."""

    name: str
    truth: float
    seen: float
    states: Mapping[State, float]


class Watched:
    """Looks at the code of a server by its latest document. pid: of its master here, if it has another one itself."""

    def __init__(self, server: Uwsgi, pid: int | None = None) -> None:
        self._server, self._pid = server, pid or server.pid
        self._host, self._looks, self._history = Host(waits=WaitSetting()), CodeLooks(), CodeHistory()
        self.read()

    def read(self) -> None:
        snapshot = stats.decode(self._server.document())
        assert isinstance(snapshot, Snapshot)
        self.snapshot = snapshot
        self._facts = self._host.read_facts(snapshot, Answer(b"", peer_pid=self._pid))

    def look(self) -> CodeWindow:
        found = self._looks.look(self.snapshot, self._facts)
        self._history.add(time.monotonic(), found, 0.0)
        return self._history.of(0.0, time.monotonic())


def measure(kept: int, pause: float) -> tuple[list[Use], CodeWindow]:
    """The use of each of FUNCTIONS, and all counts, after that many looks. pause: mean seconds between two looks."""
    with busy_server(processes=2, threads=4, clients=6) as (server, record):
        watched, use, before = Watched(server), CodeWindow(), read_record(record)
        due = time.monotonic()
        while use.threads < kept:
            watched.read()
            for _ in range(_LOOKS_A_READING):
                # At times that do not depend on how long the last look or reading took, as on a busy machine.
                due += random.uniform(0.5, 1.5) * pause
                time.sleep(max(0.0, due - time.monotonic()))
                use = watched.look()
            assert use.off is None, use.off
        after = read_record(record)
    return list(_compare({name: after[name] - before[name] for name in FUNCTIONS}, use)), use


@contextlib.contextmanager
def busy_server(processes: int, threads: int, clients: int) -> Iterator[tuple[Uwsgi, Path]]:
    """A server of that size that serves so many requests at a time, and the path of its application's record."""
    with tempfile.TemporaryDirectory(prefix="code-") as folder, _Backend(("127.0.0.1", 0), _AnswerLate) as backend:
        record = Path(folder, "record")
        record.write_bytes(bytes(8 * processes * threads * len(FUNCTIONS)))
        environment = {"RECORD": record, "THREADS": threads, "BACKEND": backend.server_address[1]}
        options = [f"--env={name}={value}" for name, value in environment.items()]
        options += ["--processes", str(processes), "--threads", str(threads), "--disable-logging"]
        # In a process of its own, so that nothing that happens there decides when the server is looked at.
        answering = multiprocessing.get_context("fork").Process(target=backend.serve_forever)
        answering.start()
        try:
            with (
                uwsgi(*options, app=Path(__file__).with_name("states_app.py")) as server,
                loaded([(Load(clients=clients), ("127.0.0.1", server.http))]),
            ):
                wait_until(lambda: sum(read_record(record).values()) > clients / 10, what="requests to be served")
                yield server, record
        finally:
            answering.kill()
            answering.join()


class _Backend(socketserver.ThreadingTCPServer):
    request_queue_size = 512


class _AnswerLate(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        asked = self.request.recv(8)
        time.sleep(struct.unpack("<d", asked)[0] if asked else 0.0)
        with contextlib.suppress(OSError):
            self.request.sendall(b"x")


def read_record(path: Path) -> dict[str, float]:
    content = path.read_bytes()
    numbers = struct.unpack(f"<{len(content) // 8}d", content)
    return {function: sum(numbers[place :: len(FUNCTIONS)]) for place, function in enumerate(FUNCTIONS)}


def _compare(spent: Mapping[str, float], use: CodeWindow) -> Iterator[Use]:
    """spent: seconds in each function, of all threads."""
    states: dict[str, Counter[State]] = {name: Counter() for name in FUNCTIONS}
    for line in use.lines:
        if line.line.function in FUNCTIONS:
            states[line.line.function].update(line.states)
    seen = sum(sum(counted.values()) for counted in states.values())
    for name, counted in states.items():
        looks = sum(counted.values())
        parts = Counter({state: number / looks for state, number in counted.items()})
        yield Use(name, truth=spent[name] / sum(spent.values()), seen=looks / seen, states=parts)


def test_shares_of_functions_are_true():
    compared, use = measure(kept=1500, pause=0.03)
    assert max(abs(function.truth - function.seen) for function in compared) < 0.06, (compared, use)
    assert use.unread < 0.02 * use.threads, use
    assert use.changed < 0.05 * use.threads, use
    for function in compared:
        # How long threads wait for a CPU or for the interpreter lock, and for a disk at all, depends on the machine.
        own = FUNCTIONS[function.name]
        beside = {"cpu", "cpu_wait", "interpreter_lock"} - {own}
        waiting = sum(part for state, part in function.states.items() if state not in beside)
        if own not in ("cpu", "disk"):
            assert function.states[own] >= 0.9 * waiting, (function, compared, use)
    assert {line.line.callee for line in use.lines if line.line.function == "parse"} & {"json loads"}


@pytest.mark.parametrize("options", [(), ("--single-interpreter",)])
def test_several_applications(tmp_path, options):
    """In interpreters of their own the reason says what helps; in a single one, each application has its line."""
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(
            f"import time\ndef {name}():\n    time.sleep(0.05)\ndef application(environ, start_response):\n"
            f"    {name}()\n    start_response('200 OK', [])\n    return [b'']\n"
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
def test_in_a_container(tmp_path):
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


def test_reloads():
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
    """Looks by a document whose workers may end now; whether only other workers' threads were seen in the next one."""
    threads = watched.look().threads
    with contextlib.suppress(OSError, AssertionError):  # none, or half a document
        watched.read()
    are_new = before.isdisjoint({worker.pid for worker in watched.snapshot.workers})
    return watched.look().threads > threads and are_new
