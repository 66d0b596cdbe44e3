"""Measures what TLS and a login cost: handshakes, requests, bcrypt.

`python -m tools.bench.login` prints a Markdown table. Needs the extras `login` and `test`.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import bcrypt
import trustme

from tools.bench.exporters import cpu_seconds
from tools.support.exporter import Exporter, exporter

DOCUMENT = Path(__file__).parents[2] / "tests" / "fixtures" / "2.0.31_threads.json"
PASSWORD = "measured"
TURNS = 300


@contextlib.contextmanager
def served(directory: Path, config: str) -> Iterator[Exporter]:
    """An exporter with this web configuration, or none."""
    (directory / "web.yml").write_text(config)
    web = ("--web.config.file", str(directory / "web.yml")) if config else ()
    with exporter("--stats", f"shop=file://{DOCUMENT}", "--samples-per-second", "0.25", *web) as running:
        time.sleep(2)
        yield running


def connect(running: Exporter, trust: ssl.SSLContext | None) -> http.client.HTTPConnection:
    """A client, which has no connection yet."""
    if trust:
        return http.client.HTTPSConnection("127.0.0.1", running.port, timeout=30, context=trust)
    return http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)


def get(client: http.client.HTTPConnection, path: str, password: str = "") -> int:
    """Make a request, with a login if there is a password; returns the status."""
    login = base64.b64encode(f"prometheus:{password}".encode()).decode()
    client.request("GET", path, headers={"Authorization": f"Basic {login}"} if password else {})
    response = client.getresponse()
    response.read()
    return response.status


def cost(running: Exporter, action: Callable[[], object]) -> str:
    """Milliseconds of an action (median), and the exporter's CPU time for one."""
    idle_began, idle_cpu = time.monotonic(), cpu_seconds(running.pid)
    time.sleep(4)
    idle = (cpu_seconds(running.pid) - idle_cpu) / (time.monotonic() - idle_began)
    began, cpu, times = time.monotonic(), cpu_seconds(running.pid), []
    for _ in range(TURNS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    used = cpu_seconds(running.pid) - cpu - idle * (time.monotonic() - began)
    return f"{statistics.median(times) * 1000:.2f} | {used / TURNS * 1000:.2f}"


def main() -> None:
    """Print the tables."""
    for strength in (10, 12):
        hashed = bcrypt.hashpw(b"x", bcrypt.gensalt(strength))
        began = time.thread_time()
        for _ in range(3):
            bcrypt.checkpw(b"y", hashed)
        print(f"bcrypt, cost {strength}: {(time.thread_time() - began) / 3 * 1000:.0f} ms of CPU")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        ca = trustme.CA()
        ca.cert_pem.write_to_path(str(directory / "ca.pem"))
        trust = ssl.create_default_context(cafile=str(directory / "ca.pem"))
        users = f"basic_auth_users:\n  prometheus: {bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()}\n"
        print("\n| request | ms | CPU of the exporter, ms |\n|---|---|---|")
        with served(directory, "") as running:
            plain = connect(running, None)
            print(
                f"| scrape, kept connection, neither TLS nor login | {cost(running, partial(get, plain, '/metrics'))} |"
            )
            figures = cost(running, partial(_once, running, None, ""))
            print(f"| `/-/healthy`, new connection, neither | {figures} |")
        for kind, words in ((trustme.KeyType.ECDSA, "ECDSA P-256"), (trustme.KeyType.RSA, "RSA 2048")):
            leaf = ca.issue_cert("127.0.0.1", key_type=kind)
            leaf.private_key_and_cert_chain_pem.write_to_path(str(directory / "both.pem"))
            tls = "tls_server_config:\n  cert_file: both.pem\n  key_file: both.pem\n"
            with served(directory, tls + users) as running:
                client = connect(running, trust)
                if kind is trustme.KeyType.ECDSA:
                    print(
                        "| scrape, kept connection, TLS and login | "
                        f"{cost(running, partial(get, client, '/metrics', PASSWORD))} |"
                    )
                get(client, "/-/healthy", PASSWORD)
                figures = cost(running, partial(_once, running, trust, PASSWORD))
                print(f"| `/-/healthy`, new connection with a full handshake, {words}, login | {figures} |")
        print(f"\nLoad of the machine: {os.getloadavg()[0]:.0f} on {os.cpu_count()} CPUs")


def _once(running: Exporter, trust: ssl.SSLContext | None, password: str) -> None:
    with contextlib.closing(connect(running, trust)) as client:
        assert get(client, "/-/healthy", password) == 200


if __name__ == "__main__":
    main()
