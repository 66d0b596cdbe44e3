"""Health check of the container image: exits with 0 if the exporter answers, else with 1.

Needs only Python's standard library and no configuration. It asks the first address in
UWSGI_HEADROOM_WEB_LISTEN_ADDRESS, or 127.0.0.1:9238. It has neither a certificate nor a password, so an exporter that
refuses it for the lack of one is healthy too, as is one whose `rate_limit` other clients have used up.
"""

from __future__ import annotations

import os
import socket
import sys

DEFAULT_PORT = 9238
SECONDS = 4.0
HEALTHY = (b"200", b"401", b"429")
_REQUEST = b"GET /-/healthy HTTP/1.0\r\n\r\n"
_STATUS = slice(9, 12)  # HTTP/1.1 200

Address = tuple[str, int]


def address(listen: str) -> Address:
    """Returns host and port of the first address in `listen`, the value of the environment variable."""
    host, _, port = (listen.split() or [""])[0].rpartition(":")
    host = host.strip("[]")
    if host in ("", "0.0.0.0"):  # noqa: S104  (nothing is bound)
        host = "127.0.0.1"
    elif host == "::":  # the exporter then listens on IPv6 alone
        host = "::1"
    return host, int(port) if port.isdigit() else DEFAULT_PORT


def is_healthy(address: Address) -> bool:
    """Whether an exporter answers at this address, with or without TLS."""
    try:
        answer = _ask(address)
    except OSError:
        return False
    # With TLS, the answer to plain HTTP is a 400 or nothing.
    return answer[_STATUS] in HEALTHY or _is_healthy_with_tls(address)


def _ask(address: Address) -> bytes:
    with socket.create_connection(address, SECONDS) as connection:
        connection.sendall(_REQUEST)
        try:
            return connection.recv(64)
        except ConnectionResetError:  # a TLS server refuses plain HTTP
            return b""


def _is_healthy_with_tls(address: Address) -> bool:
    import ssl  # noqa: PLC0415  (importing it takes longer than the whole check without it)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(address, SECONDS) as plain,
            context.wrap_socket(plain) as connection,
        ):
            connection.sendall(_REQUEST)
            return connection.recv(64)[_STATUS] in HEALTHY
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # for example: a client certificate is required
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(not is_healthy(address(os.environ.get("UWSGI_HEADROOM_WEB_LISTEN_ADDRESS", ""))))
