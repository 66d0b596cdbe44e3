"""Reads what another process controls, in a process that can be thrown away.

Reading some files of /proc takes a lock of the watched process, or as long as that process likes: its command line,
environment, memory and memory map, an epoll set with many members, a long list of descriptors, files on a file system
that it serves itself (FUSE). Such a read may never end, and a thread that hangs in the kernel cannot be ended. A
process can: SIGKILL ends even those waits. So these reads are questions to a child process.

`Aside` is the child process and its questions, one at a time. `Questions` are those of one server: at most one waits,
and a server whose answer took too long, or cost too much, is asked nothing for a while. `ask` is for commands that have
nothing else to do.

A question is a function of this package that returns or raises soon on an ordinary process. It has its own bounds for
bytes and entries.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from uwsgi_headroom.kernel import answering, procfs
from uwsgi_headroom.kernel.answering import ANSWER, REQUEST

T = TypeVar("T")

START_SECONDS, LONGEST_START = 10.0, 60.0
"""How long the child may take to start, and to import a module: it runs only this package's code. The longer time is
for a module, while it waits for a CPU."""

HUNG_SECONDS = 0.5
"""How long a question may wait for something, or compute. Most take a few milliseconds of CPU."""

LONGEST_SECONDS = 10.0
"""The same for one that waits for a CPU, on a busy machine."""

SHARE, MOST_OWED = 0.02, 0.25
"""The share of the time that the answers for one server may take, and how many seconds they may be ahead of it: then it
is asked nothing. Waiting counts as computing does, since another process may cause it; waiting for a CPU does not."""

PAUSE_SECONDS, LONGEST_PAUSE = 60.0, 3600.0
"""How long a server is asked nothing after a question that hung; twice as long after the next one."""

SHORT_WAIT, LONG_WAIT = 0.02, 0.25
"""How long the event loop waits for an answer: of any server, and of one whose last answer came in time."""

KEPT_SECONDS = 30.0
"""How long a late answer is kept while other questions are asked: on a busy machine each may be late each time."""

_MOST_BYTES = 32 << 20  # of an answer
_KILL_SECONDS = _TURN_SECONDS = 0.05
_MOST_ENDING = 8  # children that were killed and still hang in the kernel


class NotYetError(OSError):
    """The answer is not there yet: ask the same again later."""


class PausedError(OSError):
    """The server is asked nothing now; the message is the reason, for an operator."""


class _Ticket(Struct, eq=False):
    """A question in the queue, and its answer. asked: what `Questions` asked it for; module: of the question; cost:
    seconds that the answer took, waiting for a CPU apart."""

    asked: Hashable
    module: str
    request: bytes
    answer: tuple[bool, Any] | None = None
    cost: float = 0.0
    hung: bool = False
    retried: bool = False

    def result(self) -> Any:
        assert self.answer
        succeeded, value = self.answer
        if succeeded:
            return value
        raise value


class Aside:
    """A child process that answers questions, and the queue of them. It starts with the first one, and again after one
    that hung. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._queue: deque[_Ticket] = deque()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._received = bytearray()
        self._is_ready = False
        self._since = 0.0  # monotonic time: when the child, or the present question, began
        self._used = 0.0  # CPU seconds of the child when the present question began
        self._has_begun = False  # the present question: the child may import its module first
        self._imported: set[str] = set()
        self._running: _Ticket | None = None
        self._ending: list[subprocess.Popen[bytes]] = []
        self._pid = os.getpid()

    def submit(self, asked: Hashable, question: Callable[..., object], arguments: Sequence[object]) -> _Ticket:
        """Queue a question."""
        ticket = _Ticket(asked, question.__module__, pickle.dumps((question, tuple(arguments))))
        with self._lock:
            if self._pid != os.getpid():  # this process was forked: the child is its parent's
                self.__init__()  # type: ignore[misc]
            self._queue.append(ticket)
            self._go_on()
        return ticket

    def wait(self, ticket: _Ticket, seconds: float) -> bool:
        """Wait at most so many seconds for an answer; returns whether it is there."""
        end = time.monotonic() + seconds
        while True:
            with self._lock:
                self._go_on()
                if ticket.answer:
                    return True
                if self._socket is None:
                    return False
                left = end - time.monotonic()
                if left <= 0:
                    return False
                poll = select.poll()  # it waits for any descriptor, however high
                poll.register(self._socket, select.POLLIN)
                poll.poll(min(left, _TURN_SECONDS) * 1000)

    def age(self, ticket: _Ticket) -> float:
        """How long the child has worked on a question, in seconds; 0 if it has not begun."""
        with self._lock:
            return time.monotonic() - self._since if ticket is self._running and self._has_begun else 0.0

    def drop(self, ticket: _Ticket) -> None:
        """Nobody waits for the answer any more."""
        with self._lock, contextlib.suppress(ValueError):
            self._queue.remove(ticket)

    def start(self) -> None:
        """Start the child process, and do not wait until it is ready. Raises OSError if it cannot be started."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            self._discard()
            if len(self._ending) >= _MOST_ENDING:
                raise OSError("too many processes that read /proc hang in the kernel")
            self._socket, theirs = socket.socketpair()
            self._socket.setblocking(False)
            self._received, self._is_ready, self._since = bytearray(), False, time.monotonic()
            self._imported = set()
            with theirs:
                self._process = _start_child(theirs.fileno())

    def end(self) -> None:
        """End the child process."""
        with self._lock:
            if self._process is not None and self._pid == os.getpid():  # a forked process has that of its parent
                self._process.kill()
                self._ending.append(self._process)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_KILL_SECONDS)
            self._discard()

    def _discard(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._process = self._socket = self._running = None

    def _go_on(self) -> None:
        """Take the answers that have arrived, end a question that hangs, and ask the next one."""
        if self._ending:
            self._ending = [each for each in self._ending if each.poll() is None]
        if self._running is not None:
            self._take()
            if self._running is not None and self._hangs():
                self._take()  # it may have answered since
            if self._running is not None and self._hangs():
                self._fail(TimeoutError("what the kernel shows of a process was not read in time"), hung=True)
                self.end()
        while self._running is None and self._queue:
            try:
                self.start()
                if not self._take_readiness():
                    return
                self._running = self._queue.popleft()
                self._ask(self._running)
            except OSError as error:
                self._running = self._running or self._queue.popleft()
                self._has_begun = False
                self._lose(error)

    def _take_readiness(self) -> bool:
        """Whether the child is ready for its first question. Raises OSError if it has ended, or takes too long."""
        assert self._socket
        if not self._is_ready:
            with contextlib.suppress(BlockingIOError):
                self._is_ready = bool(self._socket.recv(ANSWER.size))
                if not self._is_ready:
                    raise ConnectionResetError("the process that reads /proc does not start")
            if not self._is_ready and time.monotonic() - self._since > START_SECONDS:
                raise TimeoutError("the process that reads /proc does not start")
        return self._is_ready

    def _ask(self, ticket: _Ticket) -> None:
        """Send a question to a child without one, which reads at once. Raises OSError."""
        assert self._socket
        self._has_begun, self._since = ticket.module in self._imported, time.monotonic()
        request = REQUEST.pack(len(ticket.request), not self._has_begun) + ticket.request
        sent = self._socket.send(request)
        if sent < len(request):
            self._socket.settimeout(HUNG_SECONDS)
            self._socket.sendall(request[sent:])
            self._socket.setblocking(False)

    def _lose(self, error: OSError) -> None:
        """The child has ended, or could not be started. Its question is asked once more."""
        assert self._running
        if not self._running.retried:
            self._running.retried = True
            self._queue.appendleft(self._running)
        else:
            self._fail(error, hung=self._has_begun)
        self.end()

    def _fail(self, error: OSError, *, hung: bool = False) -> None:
        assert self._running
        self._running.answer, self._running.hung = (False, error), hung
        self._running = None

    def _take(self) -> None:
        assert self._socket
        assert self._running
        try:
            while part := self._socket.recv(1 << 16):
                self._received += part
                if self._is_whole():
                    break
            else:
                raise ConnectionResetError("the process that reads /proc has ended")
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(error)
            return
        succeeded, value, self._running.cost = pickle.loads(self._received[ANSWER.size :])  # noqa: S301 - of our child
        self._running.answer = succeeded, value
        self._running, self._received = None, bytearray()

    def _is_whole(self) -> bool:
        """Whether an answer has arrived, or only its beginning. Raises OSError for an answer that is too long."""
        while len(self._received) >= ANSWER.size:
            length, used = ANSWER.unpack_from(self._received)
            if length > _MOST_BYTES:
                raise OSError("an answer is too long")
            if length > 0 and len(self._received) < ANSWER.size + length:
                return False
            self._used = used
            if length > 0:
                return True
            assert self._running
            self._imported.add(self._running.module)
            self._has_begun, self._since = True, time.monotonic()
            del self._received[: ANSWER.size]
        return False

    def _hangs(self) -> bool:
        """Whether the child waits for something, or has computed, for too long. On a busy machine it waits for a CPU:
        that is no fault of the question."""
        # It may import a module first.
        least, most = (HUNG_SECONDS, LONGEST_SECONDS) if self._has_begun else (START_SECONDS, LONGEST_START)
        if (elapsed := time.monotonic() - self._since) < least:
            return False
        assert self._process
        stat = procfs.read_process_stat(self._process.pid)
        if stat is None or stat.state != "R":
            return True
        return (self._has_begun and stat.cpu_seconds - self._used >= HUNG_SECONDS) or elapsed >= most


_CODE = f"import sys; sys.path[:] = sys.argv[2:]; from {answering.__name__} import serve; serve(int(sys.argv[1]))"


def _start_child(descriptor: int) -> subprocess.Popen[bytes]:
    """Start the child with the rights and this one descriptor of this process."""
    paths = [os.path.abspath(path) for path in sys.path]
    command = [sys.executable, "-S", "-E", "-c", _CODE, str(descriptor), *paths]
    if getattr(sys, "frozen", False):
        command = [sys.executable, answering.FLAG, str(descriptor)]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(descriptor,)
    )


SAMPLES, LOOKS, LOGS, STRANGERS = Aside(), Aside(), Aside(), Aside()
"""For what samples need; for looks at code, which take longer and are rare; for logs that `check` has found; for
servers that nobody configured: any user may run some whose files take long to read. These cost the others nothing."""


@atexit.register
def end_all() -> None:
    """End all child processes; a process that a signal ends does so itself."""
    for each in (SAMPLES, LOOKS, LOGS, STRANGERS):
        each.end()


def ask(question: Callable[..., T], *arguments: object, seconds: float = 1.0, of: Aside = SAMPLES) -> T:
    """The answer to a question of a command. Raises what the question raises, or TimeoutError if it took longer: then
    the child process was ended. That it starts, and imports a module, does not count."""
    ticket = of.submit(None, question, arguments)
    while not of.wait(ticket, min(seconds, _TURN_SECONDS)):
        if of.age(ticket) > seconds:
            of.drop(ticket)
            of.end()
            raise TimeoutError("what the kernel shows of a process was not read in time")
    return ticket.result()  # type: ignore[no-any-return]


class Direct:
    """Answers as `Questions`, but at once, in this process: for this user's own processes, and tests."""

    spent = 0.0

    def ask(self, question: Callable[..., T], *arguments: Hashable) -> T:
        return question(*arguments)

    ask_now = ask


DIRECT = Direct()


@dataclass
class Questions:
    """The questions of one server to a child process. clock: monotonic seconds; spent: that all answers took so far."""

    clock: Callable[[], float] = time.monotonic
    aside: Aside = SAMPLES
    share: float = SHARE
    spent: float = 0.0
    _waiting: _Ticket | None = None
    _kept: _Ticket | None = None
    _kept_until: float = float("-inf")
    _not_before: float = float("-inf")
    _owed: float = 0.0
    _owed_at: float = float("-inf")
    _pause: float = PAUSE_SECONDS
    _is_trusted: bool = False
    _reason: str = field(default="", init=False)

    def ask(self, question: Callable[..., T], *arguments: Hashable) -> T:
        """The answer to a question that keeps its worth. Raises what the question raises, NotYetError if the answer is
        not there yet, or PausedError."""
        return self._ask(question, arguments, keep=True)

    def ask_now(self, question: Callable[..., T], *arguments: Hashable) -> T:
        """The same for a question that is about this moment: a late answer is thrown away."""
        return self._ask(question, arguments, keep=False)

    def forget(self) -> None:
        """Nobody waits for the present question any more."""
        if self._waiting:
            self.aside.drop(self._waiting)
        self._waiting = self._kept = None

    def _ask(self, question: Callable[..., T], arguments: Sequence[Hashable], *, keep: bool) -> T:
        asked = question, tuple(arguments)
        ticket, kept = self._waiting, self._kept
        if kept and self.clock() >= self._kept_until:
            kept = self._kept = None
        if kept and keep and kept.asked == asked:
            self._kept = None
            return kept.result()  # type: ignore[no-any-return]
        if ticket and not self.aside.wait(ticket, 0.0):
            raise NotYetError("an earlier answer is not there yet")
        if ticket and ticket.asked == asked:
            return self._take(ticket)  # type: ignore[no-any-return]
        if ticket:
            with contextlib.suppress(Exception):
                self._take(ticket)
            if ticket.asked and not ticket.hung and not kept:
                self._kept, self._kept_until = ticket, self.clock() + KEPT_SECONDS
        self._check()
        ticket = self._waiting = self.aside.submit(asked if keep else None, question, arguments)
        if self.aside.wait(ticket, LONG_WAIT if self._is_trusted else SHORT_WAIT):
            return self._take(ticket)  # type: ignore[no-any-return]
        self._is_trusted = False
        raise NotYetError("the answer is not there yet")

    def _check(self) -> None:
        """Raises PausedError if the server is asked nothing now."""
        now = self.clock()
        if now < self._not_before:
            raise PausedError(self._reason)
        self._owed = max(0.0, self._owed - self.share * (now - self._owed_at))
        self._owed_at = now
        if self._owed > MOST_OWED:
            seconds = (self._owed - MOST_OWED) / self.share
            raise PausedError(
                "to read what the kernel shows of uWSGI's processes takes too much time: they are asked again "
                f"after {seconds:.0f} s"
            )

    def _take(self, ticket: _Ticket) -> Any:
        self._waiting = None
        self._is_trusted = not ticket.hung and ticket.cost < SHORT_WAIT
        if ticket.hung:
            self._not_before = self.clock() + self._pause
            self._reason = (
                "what the kernel shows of uWSGI's processes could not be read in time (their memory is locked, or on a "
                f"file system that does not answer): they are asked again after {self._pause:g} s"
            )
            self._pause = min(LONGEST_PAUSE, 2 * self._pause)
            raise PausedError(self._reason)
        self._owed += ticket.cost
        self.spent += ticket.cost
        return ticket.result()


Asks: TypeAlias = Direct | Questions
