"""A well-behaved stats server that counts its reads, to measure sampling."""

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
    """`address` is a UNIX path; `reads` are the monotonic times of all reads so far."""

    address: str
    reads: list[float]

    def sampling_beside(self, control: CountedServer, reads: int = 20) -> float:
        """Returns the ratio of reads of this server to those of `control`, whose reader nobody abuses, while `control`
        is read `reads` times. A busy machine slows down both; fewer reads would leave the ratio to chance."""
        before, others = len(self.reads), len(control.reads)
        wait_until(lambda: len(control.reads) >= others + reads, what=f"{reads} reads")
        return (len(self.reads) - before) / (len(control.reads) - others)


@contextlib.contextmanager
def counted_server() -> Iterator[CountedServer]:
    """Serves a captured document until the block ends."""
    reads: list[float] = []
    body = document("minified")

    def behave(connection: socket.socket, _ended: threading.Event) -> None:
        reads.append(time.monotonic())
        connection.sendall(body)

    with bad_servers.serving("unix", behave) as address:
        yield CountedServer(address, reads)
