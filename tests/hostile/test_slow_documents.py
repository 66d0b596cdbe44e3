"""Sockets in a directory that a pattern names, whose large documents come slowly, cost the exporter little memory."""

import contextlib
import selectors
import socket
import tempfile
import threading
import time

import pytest

from tests.support.bad_servers import counted_server
from tests.support.exporter import exporter
from tests.support.kernel_counts import peak_resident_bytes
from tests.support.real_uwsgi import wait_until

pytestmark = pytest.mark.integration

SOCKETS = 40
DOCUMENT = b'{"version":"2.0.31","workers":[' + b" " * 5_900_000
BYTES_PER_SECOND = 1_210_000  # the whole document within the timeout of a read

RESIDENT_BYTES = 100_000_000
"""45 MB for the exporter, 16 MB for documents in transfer and 2 MB for the first bytes of each, and a document of 6 MB
while it is decoded. 60 of these documents at once took 728 MB."""


@contextlib.contextmanager
def dripping(folder):
    """Serves the document slowly at SOCKETS sockets; the list has one entry for each connection."""
    ended, asked = threading.Event(), list[int]()
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        for place in range(SOCKETS):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(f"{folder}/{place}.stats")
            listener.listen()
            listener.setblocking(False)
            selector.register(listener, selectors.EVENT_READ)

        def drip():
            clients = {}
            while not ended.is_set():
                for key, _ in selector.select(0.05):
                    with contextlib.suppress(OSError):
                        client, _ = key.fileobj.accept()
                        client.setblocking(False)
                        clients[client] = 0, time.monotonic()
                        asked.append(1)
                for client, (sent, began) in list(clients.items()):
                    due = min(int((time.monotonic() - began) * BYTES_PER_SECOND), len(DOCUMENT))
                    try:
                        clients[client] = sent + client.send(DOCUMENT[sent:due]), began
                    except BlockingIOError:
                        continue
                    except OSError:
                        clients[client] = len(DOCUMENT), began
                    if clients[client][0] >= len(DOCUMENT):
                        client.close()
                        del clients[client]
            for client in clients:
                client.close()

        thread = threading.Thread(target=drip, name="drip")
        thread.start()
        try:
            yield asked
        finally:
            ended.set()
            thread.join(60)


def test_slow_documents_fill_no_memory():
    """Whatever all sockets send, the exporter keeps to its bounds, and the good server is read as always."""
    with tempfile.TemporaryDirectory(prefix="slow-") as folder, dripping(folder) as asked, counted_server() as good:
        with exporter("--stats", f"good={good.address}", "--stats", f"{folder}/*.stats") as running:
            wait_until(lambda: len(asked) >= 2 * SOCKETS, what="two reads of each slow server")
            scrape = running.metrics()
            assert peak_resident_bytes(running.pid) < RESIDENT_BYTES
        assert 'uwsgi_up{server="good"} 1.0' in scrape
        assert 'uwsgi_exporter_read_errors_total{server="good"' not in scrape
