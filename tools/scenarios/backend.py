"""Serves the backend of a scenario: `python3 -m tools.scenarios.backend PORT SERVERS` on 127.0.0.1, until it is ended.

Each line of a client is a request: a number of milliseconds. The backend works on SERVERS requests at once, on one of
each connection, and answers with a byte; the others wait, first come, first served.
"""

from __future__ import annotations

import contextlib
import socketserver
import sys
import threading
import time


class Backend(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, port: int, servers: int) -> None:
        self.free = threading.Semaphore(servers)
        super().__init__(("127.0.0.1", port), Connection)


class Connection(socketserver.StreamRequestHandler):
    server: Backend

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the client has gone
            for line in self.rfile:
                with self.server.free:
                    time.sleep(int(line) / 1000)
                self.wfile.write(b".")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        Backend(int(sys.argv[1]), int(sys.argv[2])).serve_forever()
