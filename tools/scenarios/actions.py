"""Actions on a uWSGI during its check: signals, reloads, and failed deployments."""

import contextlib
import json
import os
import signal
import socket
from typing import Any

import psutil

from tests.support.real_uwsgi import Uwsgi, wait_until


def kill_busy_worker(server: Uwsgi) -> None:
    killed: list[int] = []

    def kill_one() -> bool:
        workers: list[dict[str, Any]] = json.loads(server.document())["workers"]
        busy = [
            (worker["cores"][0]["req_info"]["request_start"], worker["pid"])
            for worker in workers
            if worker["cores"][0]["in_request"]
        ]
        if busy:
            os.kill(min(busy)[1], signal.SIGKILL)
            killed.append(min(busy)[1])
        return bool(killed)

    wait_until(kill_one, what="a worker to be busy")


def ask_for_long(server: Uwsgi) -> None:
    """Sends a request that takes 20 s, and waits until it ends, or its worker."""
    with contextlib.suppress(ConnectionError), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(server.directory / "web"))
        client.sendall(b"GET /?io_ms=20000 HTTP/1.0\r\n\r\n")
        client.recv(1)


def kill_master(server: Uwsgi) -> None:
    os.kill(server.pid, signal.SIGKILL)


def kill_all(server: Uwsgi) -> None:
    document = json.loads(server.document())
    for pid in (document["pid"], *(worker["pid"] for worker in document["workers"])):
        if pid:
            os.kill(pid, signal.SIGKILL)


def reload(server: Uwsgi) -> None:
    os.kill(server.pid, signal.SIGHUP)


def terminate(server: Uwsgi) -> None:
    os.kill(server.pid, signal.SIGTERM)


def pause(server: Uwsgi) -> None:
    """Pauses all workers, as `p` in uWSGI's `master-fifo` does."""
    os.kill(server.pid, signal.SIGTSTP)


def touch(server: Uwsgi) -> None:
    """Reloads the workers, through the file that `touch-chain-reload` or `touch-workers-reload` watches."""
    (server.directory / "reload").touch()


def deploy_broken(server: Uwsgi) -> None:
    (server.directory / "broken").touch()
    reload(server)


def deploy_slow(server: Uwsgi) -> None:
    (server.directory / "slow").touch()
    reload(server)


def deploy_slow_by_chain(server: Uwsgi) -> None:
    (server.directory / "slow").touch()
    touch(server)


def deploy_hanging(server: Uwsgi) -> None:
    (server.directory / "hang").touch()
    touch(server)


def deploy_dying(server: Uwsgi) -> None:
    (server.directory / "dies").touch()
    touch(server)


def remove_socket(server: Uwsgi) -> None:
    (server.directory / "web").unlink()


def replace_socket(server: Uwsgi) -> None:
    """Leaves a socket at the path on which nobody listens, as an end of another uWSGI would."""
    remove_socket(server)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(server.directory / "web"))


def ask_without_end(server: Uwsgi) -> None:
    """Sends HTTP to the TCP socket again and again, which takes it for a part of a longer head."""
    (port,) = [each["name"] for each in json.loads(server.document())["sockets"] if ":" in each["name"]]
    host, _, number = port.rpartition(":")
    for _ in range(8):
        with socket.create_connection((host, int(number))) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            client.settimeout(10)
            client.recv(1)


def stop_router(server: Uwsgi) -> None:
    workers = {worker["pid"] for worker in json.loads(server.document())["workers"]}
    for child in psutil.Process(server.pid).children():
        if child.pid not in workers:
            child.suspend()


def stop_accept_lock_holder(server: Uwsgi) -> None:

    def stop() -> bool:
        holder = find_accept_lock_holder(server)
        os.kill(holder, signal.SIGSTOP)
        if find_accept_lock_holder(server) == holder:
            return True
        os.kill(holder, signal.SIGCONT)  # a request came in between, and another one holds it
        return False

    wait_until(stop, what="the holder of the accept lock to be stopped")


def stop_worker(server: Uwsgi) -> None:
    os.kill(json.loads(server.document())["workers"][0]["pid"], signal.SIGSTOP)


def find_accept_lock_holder(server: Uwsgi) -> int:
    """The PID of the worker that holds the accept lock: between two requests it is nobody's for a moment."""
    held: list[int] = []

    def find_holder() -> bool:
        document = json.loads(server.document())
        pids = {worker["pid"] for worker in document["workers"]}
        held.extend(pid for lock in document["locks"] for pid in (lock.get("thunder"),) if pid in pids)
        return bool(held)

    wait_until(find_holder, what="a worker to hold the accept lock")
    return held[0]
