"""A stats server that behaves and counts how often it is read: what sampling is measured by."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.real_uwsgi import wait_until


@dataclass(frozen=True)
class CountedServer:
    """`address` is a UNIX path; `reads` are the monotonic instants of its reads so far."""

    address: str
    reads: list[float]

    def sampling_beside(self, control: CountedServer, reads: int = 20) -> float:
        """Its reads, as a part of those of another whose reader nobody abuses, while that makes so many: on a busy
        machine both are slower, and by chance one of them is: fewer reads would be no ratio."""
        before, others = len(self.reads), len(control.reads)
        wait_until(lambda: len(control.reads) >= others + reads, what=f"{reads} reads")
        return (len(self.reads) - before) / (len(control.reads) - others)


@contextlib.contextmanager
def counted_server() -> Iterator[CountedServer]:
    """Serve a captured document until the block ends."""
    reads: list[float] = []
    body = document("minified")

    def behave(connection: socket.socket, _ended: threading.Event) -> None:
        reads.append(time.monotonic())
        connection.sendall(body)

    with bad_servers.serving("unix", behave) as address:
        yield CountedServer(address, reads)
