"""A served application for tests: its responses, and uWSGI's counters."""

import contextlib
import http.client
import json
import socket
from pathlib import Path

from msgspec import Struct


class Served(Struct, frozen=True):
    """An application that listens on `port` of 127.0.0.1, and the stats socket of its uWSGI."""

    port: int
    stats: Path

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse()

    def workers(self):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.stats))
            document = json.loads(b"".join(iter(lambda: client.recv(1 << 18), b"")))
        return document["workers"]

    def exceptions(self):
        return sum(worker["exceptions"] for worker in self.workers())

    def count(self, key):
        """The sum of a figure over all threads of all workers, which is exact, unlike the worker's own figure."""
        return sum(core[key] for worker in self.workers() for core in worker["cores"])
