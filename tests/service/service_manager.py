"""A stand-in for systemd: a notification socket that keeps every message, and descriptors passed to a program."""

import contextlib
import socket
import sys
import tempfile
import threading
from pathlib import Path

from msgspec import Struct, field

from tests.support.real_uwsgi import wait_until

_PASS = """
import os, sys
passed = [os.dup(int(number)) for number in sys.argv[1].split(",")]
for place, descriptor in enumerate(passed, 3):
    os.dup2(descriptor, place)
    os.set_inheritable(place, True)  # dup2 of a descriptor to itself changes nothing
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(passed)))
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Manager(Struct, frozen=True):
    """A notification socket. address: for NOTIFY_SOCKET; messages: those received, in order, as assignments."""

    address: str
    messages: list[dict[str, str]] = field(default_factory=list)

    def states(self, name):
        return [message[name] for message in list(self.messages) if name in message]

    def await_state(self, name, value, count=1):
        """Waits until this assignment was received so many times."""
        wait_until(lambda: self.states(name).count(value) >= count, what=f"{name}={value} among {self.messages}")


@contextlib.contextmanager
def manager(address=""):
    """Listens until the block ends. address: of NOTIFY_SOCKET, `@` for an abstract name; "" for a path of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="notify-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end,
    ):
        running = Manager(address or str(Path(folder) / "socket"))
        end.bind(running.address.replace("@", "\0", 1) if running.address.startswith("@") else running.address)

        def receive():
            while text := end.recv(65536):
                running.messages.append(dict(line.split("=", 1) for line in text.decode().split("\n")))

        thread = threading.Thread(target=receive)
        thread.start()
        try:
            yield running
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
                last.sendto(b"", end.getsockname())
            thread.join(60)


def passing(command, *descriptors):
    """The command line that runs a command with inherited descriptors passed to it, as systemd passes sockets."""
    return [sys.executable, "-c", _PASS, ",".join(map(str, descriptors)), *command]
