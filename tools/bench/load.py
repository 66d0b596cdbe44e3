"""Keeps requests in flight: each occupies a thread of uWSGI until the block ends."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

from tests.support import real_uwsgi

# A browser's request behind a proxy: while uWSGI serves it, the stats contain all of it.
_REQUEST = (
    "GET /checkout/basket?io_ms=600000 HTTP/1.1\r\nHost: shop.example\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.5\r\n"
    f"Cookie: session={'0123456789abcdef' * 8}; consent={'x' * 64}\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n"
).encode()


@contextlib.contextmanager
def in_flight(uwsgi: real_uwsgi.Uwsgi, requests: int) -> Iterator[None]:
    """Keeps this many requests in uWSGI."""
    with contextlib.ExitStack() as stack:
        for _ in range(requests):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", uwsgi.http), 10))
            client.sendall(_REQUEST)
            time.sleep(0.002)  # so that the listen queue does not overflow
        real_uwsgi.wait_until(
            lambda: uwsgi.document().count(b'"in_request":1') == requests, what="requests to be served"
        )
        yield
