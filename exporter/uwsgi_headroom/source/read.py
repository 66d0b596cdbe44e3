"""Reads one document from any kind of address, also from a file, within a deadline and a size cap.

Each failure becomes one sentence for an operator: what happened, and what to do. A stats server that takes connections
and does not answer may be stopped or frozen, or wait for a full pipe. The state of its process says so, if that is
proven to be of this host: the kernel names it as the peer of a UNIX socket (SO_PEERCRED), or the caller has proven it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import stat
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import h11
from msgspec.structs import replace

from uwsgi_headroom import __version__
from uwsgi_headroom.clock import within
from uwsgi_headroom.errors import AccessError, Reason, SourceError, StillRunsError
from uwsgi_headroom.source import stream
from uwsgi_headroom.source.address import Address, File, Http, HttpAccess, ProcessOfApp, SocketOfApp, Tcp, Unix
from uwsgi_headroom.source.stream import (
    AddressInfo,
    Answer,
    NoRoomError,
    Received,
    Share,
    UnixRead,
    connect_tcp,
    exchange_over_tls,
    receive,
    refuse_local,
    resolve_host,
)

_HEAD_BYTES = 8 * 1024
"""The largest head (status line and headers) of an answer. nginx has the same limit for servers behind it. h11 parses
on the event loop and needs 5 µs for each header: 64 kB of short headers took 100 ms."""

_ACCESS = {
    401: "the server asks for a login, or for another one (HTTP status 401)",
    403: "the server refuses access (HTTP status 403)",
    429: "the server has had too many requests or wrong passwords from here (HTTP status 429): wait a minute",
}

_SPEAKS_TLS = (b"HTTP request to an HTTPS server", b"plain HTTP request was sent to HTTPS port")
"""What Go's servers, this exporter and nginx answer to plain HTTP at a port that has TLS."""

_MOST_INFORMATIONAL = 3
"""The most 1xx answers accepted before the real one. A proxy may send one; uWSGI sends none."""


async def read_http(address: Http, addresses: Sequence[AddressInfo], share: Share) -> Answer:
    """GET the document. Raises OSError, NoRoomError, or SourceError unless the answer is a plain 200."""
    share.cap += _HEAD_BYTES
    connection = h11.Connection(h11.CLIENT)
    wire = _request(connection, address)
    access = address.access or HttpAccess()
    context = access.context or _tls_context() if address.tls else None
    sock = await connect_tcp(addresses)
    try:
        peer = sock.getpeername()[:2]
        if context:
            answer = await exchange_over_tls(sock, context, access.server_name or address.host, wire, share)
        else:
            await asyncio.get_running_loop().sock_sendall(sock, wire)
            answer = await receive(sock, share)
    finally:
        sock.close()
    return replace(answer, body=_body(connection, answer.body), peer=peer)


@cache
def _tls_context() -> ssl.SSLContext:
    """The TLS context, created once: loading the certificates that this host trusts takes 30 ms."""
    return ssl.create_default_context()


def _request(connection: h11.Connection, address: Http) -> bytes:
    """The request, small enough for one write: uWSGI answers after a single read of at most 4 kB and resets the
    connection of a client that sends more.

    The version is HTTP/1.0, so that a proxy in between does not send chunks: in the worst case, a chunked document
    costs one iteration of the parser per byte.
    """
    access = address.access
    authorization = [("Authorization", access.authorization)] if access and access.authorization else []
    request = h11.Request(
        method="GET",
        target=address.target,
        headers=[
            ("Host", address.netloc),
            ("Accept", "application/json"),
            ("User-Agent", f"uwsgi-headroom/{__version__}"),
            ("Connection", "close"),
            *authorization,
        ],
    )
    wire = (connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b"")
    return wire.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)


def _body(connection: h11.Connection, received: bytes) -> bytes:
    """The document in an answer. h11 parses only the head; the document is the rest, of the length in the head."""
    if not received:
        raise SourceError("empty", "the server closed the connection without an answer")
    top = received[:_HEAD_BYTES]
    if top.lstrip()[:1] == b"{":
        raise SourceError("http", "the answer is not HTTP: for a raw stats server write tcp://host:port")
    if any(words in top for words in _SPEAKS_TLS) and not top.startswith(b"HTTP/1.1 200"):
        raise AccessError("http", "the server speaks TLS here: write https://")
    connection.receive_data(top)
    if len(top) == len(received):
        connection.receive_data(b"")
    headers = dict(_read_head(connection).headers)
    if b"transfer-encoding" in headers:
        raise SourceError(
            "http", "the HTTP answer has a Transfer-Encoding, which uWSGI never uses: give uWSGI's own address"
        )
    unread, _ended = connection.trailing_data
    body = received[len(top) - len(unread) :]
    length = int(headers.get(b"content-length", len(body)))
    if len(body) < length:
        raise SourceError("truncated", "the HTTP answer is shorter than its Content-Length")
    return body[:length]


def _read_head(connection: h11.Connection) -> h11.Response:
    try:
        for _ in range(_MOST_INFORMATIONAL + 1):
            event = connection.next_event()
            if isinstance(event, h11.Response):
                if event.status_code in _ACCESS:
                    raise AccessError("permission", _ACCESS[event.status_code])
                if event.status_code != 200:
                    raise SourceError(
                        "http",
                        f"the server answered with HTTP status {event.status_code}, not 200: an application's port "
                        "(`http-socket`) is not a stats server",
                    )
                return event
            if not isinstance(event, h11.InformationalResponse):
                break
    except (h11.RemoteProtocolError, ValueError):  # ValueError: h11 0.14 calls int() on a length of too many digits
        pass  # h11's message may quote the answer, which may hold requests
    raise SourceError("http", "the answer is not HTTP: http:// is for uWSGI with stats-http")


_ROOT = Path("/")
_WRITES_A_PIPE = ("anon_pipe_write", "pipe_write")
"""The kernel functions that write to a pipe; the first is the name from Linux 6.13 on."""


def explain_silence(pid: int | None, *, is_uwsgi: bool) -> str:
    """Why a server does not answer, and what to do. pid: its process here, None if that is not proven; is_uwsgi:
    whether uWSGI's stats were read there before."""
    # In another PID namespace than that of /proc, a PID there is another process.
    if pid and _read_lines(Path("/proc/self/status")).get("NSpid") == str(os.getpid()):
        if stopped := explain_stopped(pid):
            return stopped
        if waits_to_write_a_pipe(pid):
            return (
                f"uWSGI's master ({pid}) waits to write to a full pipe, most likely its log, and the server is stuck: "
                "check the process that should read that pipe"
            )
    return "uWSGI's master is busy (reloading, ending a worker, or blocked by another reader of its stats)" + (
        "" if is_uwsgi else ", or this is not a stats server"
    )


def explain_stopped(pid: int, *, root: Path = _ROOT) -> str:
    """That a process is stopped, and how to resume it; empty if it is not, or if that is not visible."""
    status = _read_lines(root / "proc" / str(pid) / "status")
    state = status.get("State", "")[:1]
    tracer = status.get("TracerPid", "0")
    if state == "t" or (state == "T" and tracer != "0"):
        return (
            f"process {pid}, which serves the stats, is stopped by a debugger (process {tracer}): let it continue "
            "there, or end the debugger"
        )
    if state == "T":
        return (
            f"process {pid}, which serves the stats, is stopped (SIGSTOP, or Ctrl-Z in a shell): resume it with "
            f"`kill -CONT {pid}`"
        )
    if state and _is_frozen(pid, root):
        return (
            f"process {pid}, which serves the stats, is frozen by its cgroup: thaw it (`docker unpause CONTAINER`, or "
            "`systemctl thaw UNIT`)"
        )
    return ""


def waits_to_write_a_pipe(pid: int, *, proc: Path = Path("/proc")) -> bool:
    """Whether a process waits because the pipe it writes to is full, as the kernel says (proc_pid_wchan(5)); False if
    this user may not read its state."""
    return _read_text(proc / str(pid) / "wchan") in _WRITES_A_PIPE


def _is_frozen(pid: int, root: Path) -> bool:
    """Whether the freezer of cgroup version 1 or 2 holds a process; its state also includes that of the levels
    above."""
    folder = root / "sys/fs/cgroup"
    for line in _read_text(root / "proc" / str(pid) / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "freezer" in controllers.split(","):
            if _read_text(folder / "freezer" / path.lstrip("/") / "freezer.state").strip() == "FROZEN":
                return True
        elif not controllers:
            events = [folder / top / path.lstrip("/") / "cgroup.events" for top in ("", "unified")]
            if any("frozen 1" in _read_text(file).splitlines() for file in events):
                return True
    return False


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _read_lines(path: Path) -> dict[str, str]:
    """The values of a file of /proc by their names; empty if it cannot be read."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in _read_text(path).splitlines())}


_ADVICE: dict[int, str] = {
    errno.ELOOP: "the path's symbolic links form a loop: give the path of the socket itself",
    errno.ENAMETOOLONG: "the path is too long: give a shorter one, such as a symbolic link to the socket's directory",
    errno.EISDIR: "this is a directory: give the path of a file in it",
    errno.EPROTOTYPE: "this socket takes no connections, so it is not a stats server: give the path of uWSGI's `stats`",
    errno.EHOSTUNREACH: "the host is unreachable: is it up, and does a firewall let this machine connect?",
    errno.ENETUNREACH: "there is no route to the host: check its address and this machine's network",
    errno.ETIMEDOUT: "the host does not answer: is it up, and does a firewall let this machine connect?",
    errno.EADDRNOTAVAIL: "this machine cannot connect to the address: check the address, and this machine's free ports",
    errno.EMFILE: "the exporter has too many files open: raise its limit (LimitNOFILE, ulimit -n)",
    errno.ENFILE: "this machine has too many files open: raise fs.file-max",
}


_CERTIFICATE_ALERTS = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server asks for a client certificate",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the server refuses the TLS handshake: it may ask for a client certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the server refuses the client certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "the server does not know the authority of the client certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the server refuses the client certificate: it has expired",
}


_TRIES = 3
"""How often a document is begun within its time: the second time it is known to be large, and may lose its room."""


async def read_document(
    address: Address,
    *,
    timeout: float,
    size_cap: int,
    find_master: Callable[[], int | None] = lambda: None,
    is_uwsgi: bool = False,
    share: Share | None = None,
) -> Answer:
    """Read one document within `timeout` seconds and `size_cap` bytes. find_master: the process here that is proven to
    serve it, asked if it does not answer (of a UNIX socket, the kernel names it) or does not listen. is_uwsgi: whether
    uWSGI's stats were read there before. share: of the memory for documents in transfer; by default, none has to wait.

    Raises SourceError. Always closes the connection before it returns or raises.
    """
    deadline = asyncio.get_running_loop().time() + timeout
    share = share or Share()
    listeners: list[int] = []
    try:
        addresses = await _resolve(address, timeout) if isinstance(address, (Tcp, Http)) else ()
        for _ in range(_TRIES):  # without room for a document, it is read again once there is
            await share.begin(size_cap, deadline)
            with contextlib.suppress(NoRoomError):
                return await _read(address, addresses, share, deadline, listeners.append)
            share.end()
        raise share.loss or SourceError("too_large", "the document has grown while it was read")
    except (asyncio.TimeoutError, OSError) as error:
        raise _explain(error, timeout, listeners, find_master, is_uwsgi=is_uwsgi) from None
    finally:
        share.end()  # the caller decodes the document before any other task runs


def begin_unix(
    address: Unix,
    done: Callable[[Answer | SourceError | None], None],
    *,
    timeout: float,
    size_cap: int,
    find_master: Callable[[], int | None],
    is_uwsgi: bool,
    share: Share,
) -> UnixRead | None:
    """Begin a read as by `read_document`, without a task. `done` is called once with the answer or the error, unless
    the read is ended before, and the share with it. None, there and as the result: only `read_document` can read it,
    which waits for room or explains why there is no descriptor."""
    listeners: list[int] = []

    def finish(received: Received) -> None:
        share.end()
        if isinstance(received, NoRoomError):
            done(None)
        elif isinstance(received, Answer | SourceError):
            done(received)
        else:
            done(_explain(received, timeout, listeners, find_master, is_uwsgi=is_uwsgi))

    if share.begin_now(size_cap):
        deadline = asyncio.get_running_loop().time() + timeout
        with contextlib.suppress(OSError):
            return UnixRead(address, share, deadline, finish, listeners.append)
        share.end()
    return None


async def _resolve(address: Tcp | Http, timeout: float) -> Sequence[AddressInfo]:
    try:
        found = await within(timeout, resolve_host(address.host, address.port))
    except asyncio.TimeoutError:
        raise SourceError(
            "timeout",
            f"the name {address.host} was not resolved within {timeout:g} s: check this machine's resolver "
            "(/etc/resolv.conf), or give an IP address",
        ) from None
    return refuse_local(found) if address.is_guarded else found


async def _read(
    address: Address,
    addresses: Sequence[AddressInfo],
    share: Share,
    deadline: float,
    on_connected: Callable[[int], None],
) -> Answer:
    """Raises OSError, asyncio.TimeoutError after the deadline, SourceError, or NoRoomError."""
    if isinstance(address, Unix):
        return await stream.read_unix(address, share, deadline, on_connected)
    seconds = deadline - asyncio.get_running_loop().time()
    if sys.version_info >= (3, 11):  # without a task of its own
        async with asyncio.timeout(seconds):
            return await _read_other(address, addresses, share)
    return await within(seconds, _read_other(address, addresses, share))


async def _read_other(
    address: Tcp | Http | File | ProcessOfApp | SocketOfApp, addresses: Sequence[AddressInfo], share: Share
) -> Answer:
    match address:
        case Tcp():
            return await stream.read_tcp(addresses, share)
        case Http():
            return await read_http(address, addresses, share)
        case File():
            return replay_file(address, share.cap)
        case ProcessOfApp() | SocketOfApp():
            raise SourceError(
                "not_found", "this address is not that of stats: only `check`, `top` and `serve` can watch it"
            )


def _explain(
    error: OSError | asyncio.TimeoutError,
    timeout: float,
    listeners: Sequence[int],
    find_master: Callable[[], int | None],
    *,
    is_uwsgi: bool,
) -> SourceError:
    """The error in one sentence for an operator: what happened, and what to do. listeners: the processes that were
    connected to."""
    if isinstance(error, asyncio.TimeoutError):
        why = explain_silence(listeners[0] if listeners else find_master(), is_uwsgi=is_uwsgi)
        return SourceError("timeout", f"no complete answer within {timeout:g} s: {why}")
    return _explain_os_error(error, find_master)


def _explain_os_error(error: OSError, find_master: Callable[[], int | None]) -> SourceError:
    reason: Reason = "unreachable"
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        if master := find_master():
            return StillRunsError(
                "not_found",
                f"the socket file was removed, but uWSGI's master ({master}) still runs: a full reload creates "
                "it again",
            )
        reason, advice = "not_found", "no such file: is uWSGI running, with `stats` set to this path?"
    elif isinstance(error, PermissionError):
        reason = "permission"
        advice = (
            "permission denied: run as a user who may connect, such as uWSGI's; as root, `uwsgi-headroom discover "
            "--user NAME` shows how user NAME can connect"
        )
    elif isinstance(error, ConnectionRefusedError):
        if master := find_master():
            return StillRunsError(
                "refused",
                f"connection refused: uWSGI's master ({master}) runs, but is still loading its application, as after a "
                "full reload",
            )
        reason = "refused"
        advice = "connection refused: nothing listens here (uWSGI is stopped, or still loading its application)"
    elif isinstance(error, ConnectionError) or error.errno == errno.ENOTCONN:  # reset before getpeername()
        reason, advice = "truncated", "the server closed the connection before it answered"
    elif isinstance(error, socket.gaierror):
        advice = f"the name does not resolve ({error.strerror}): check its spelling, or give an IP address"
    elif isinstance(error, ssl.SSLCertVerificationError):
        return AccessError(
            reason,
            f"the server's certificate is not trusted ({error.verify_message}): use the host name in the certificate, "
            "or trust its CA",
        )
    elif isinstance(error, ssl.SSLError) and error.reason in _CERTIFICATE_ALERTS:
        return AccessError("permission", _CERTIFICATE_ALERTS[error.reason])
    elif isinstance(error, ssl.SSLError):
        advice = "the TLS handshake failed: https:// is for a server that speaks TLS, http:// for one that does not"
    else:
        what = (error.strerror or str(error) or type(error).__name__).lower()
        advice = _ADVICE.get(error.errno or 0, f"{what}: check the address, and that this machine can reach it")
    return SourceError(reason, advice)


def replay_file(address: File, size_cap: int) -> Answer:
    """Read a stats document from a regular file, to replay it. Raises OSError or SourceError."""
    try:
        # Non-blocking: otherwise open() of a FIFO without a writer hangs before fstat() can check its type.
        descriptor = os.open(address.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        raise SourceError("permission", f"permission denied: this user may not read {address.path}") from None
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket cannot be opened at all
            raise _not_regular(address) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _not_regular(address)
        if status.st_size > size_cap:
            raise SourceError("too_large", f"{address.path} is larger than the cap of {size_cap} bytes")
        with open(descriptor, "rb", closefd=False) as file:  # os.close() below also runs if open() raises
            return Answer(file.read(size_cap))
    finally:
        os.close(descriptor)


def _not_regular(address: File) -> SourceError:
    return SourceError("not_found", f"{address.path} is not a regular file")
