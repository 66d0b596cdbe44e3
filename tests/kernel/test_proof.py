"""Proofs of pids, in the same namespace, from others and without privileges; and the identity of a server."""

import os
import re
import socket
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from tests.kernel.contained import family, listening, started
from tests.support import real_uwsgi
from tests.support.other_namespaces import as_nobody, as_root, over_ipv6, python_in
from tests.support.real_uwsgi import accepting, free_port, peer_pid, uwsgi, wait_until
from uwsgi_headroom.kernel import proof
from uwsgi_headroom.kernel.namespaces import shares_network_namespace
from uwsgi_headroom.kernel.proof import Proof, prove_master_pid, read_start_ticks
from uwsgi_headroom.kernel.setup import find_systemd_unit, read_identity


def document(address: tuple[str, int]) -> bytes:
    """The document of a stats server on TCP; None while it does not listen."""
    try:
        with socket.create_connection(address, timeout=60) as client:
            return b"".join(iter(lambda: client.recv(1 << 18), b""))
    except OSError:
        return b""


@pytest.fixture
def address():
    with listening(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@pytest.mark.parametrize("state", [b"Z", b"X"])
def test_a_process_that_has_ended_has_no_start(state, monkeypatch):
    """Neither a zombie nor a dead process is the one that was proven. No test holds one dead: its file is made up."""
    own = Path("/proc/self/stat").read_bytes()
    assert read_start_ticks(os.getpid()) == int(own.rpartition(b")")[2].split()[19])
    monkeypatch.setattr(proof.procfs, "read_line", lambda _path: own.replace(b") R ", b") " + state + b" "))
    assert read_start_ticks(os.getpid()) == -1


@pytest.mark.integration
def test_unix_source():
    """Over a UNIX socket the master's pid is proven: the kernel reports the same one."""
    with accepting() as server:
        document_pid = msgspec.json.decode(server.document())["pid"]
        assert document_pid == server.pid
        assert prove_master_pid(document_pid, peer_pid=peer_pid(server.stats), listener=None) == Proof(server.pid, None)


@as_root
@pytest.mark.integration
def test_unix_source_for_another_user():
    with accepting("--chmod-socket=666") as server:
        server.directory.chmod(0o755)
        proof = as_nobody(lambda: prove_master_pid(server.pid, peer_pid=peer_pid(server.stats), listener=None))
        assert proof == Proof(server.pid, None)


def test_unix_source_of_another_process():
    """Nothing is proven by a document of one process from the socket of another, as with a proxy, or from no socket."""
    assert prove_master_pid(os.getpid(), peer_pid=None, listener=None).pid is None
    proof = prove_master_pid(os.getppid(), peer_pid=os.getpid(), listener=None)
    assert proof.pid is None
    assert f"process {os.getpid()} listens on their socket" in (proof.reason or "")


@as_root
def test_a_pid_of_another_namespace_that_is_equal_by_coincidence_is_not_proven():
    with family(workers=0) as nested:
        reason = prove_master_pid(nested.master, peer_pid=nested.master, listener=None).reason
    assert f"process {nested.master} runs in another PID namespace, where its PID is 1" in reason


@as_root
def test_master_outside_of_the_exporters_namespace(tmp_path):
    """In the exporter's PID namespace, a process outside of it has no pid."""
    path = str(tmp_path / "stats")
    with listening(path):
        code = f"""
import socket, struct
from uwsgi_headroom.kernel.proof import prove_master_pid
client = socket.socket(socket.AF_UNIX)
client.connect({path!r})
pid = struct.unpack("iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
print(pid, prove_master_pid({os.getpid()}, peer_pid=pid, listener=None).reason)
"""
        assert python_in("--pid --mount-proc", code).startswith("0 uWSGI runs in a PID namespace that the exporter")


@as_root
def test_procfs_of_another_namespace():
    """If /proc belongs to another PID namespace than the exporter, nothing is proven."""
    code = """
import os
from uwsgi_headroom.kernel.proof import prove_master_pid
print(prove_master_pid(os.getpid(), peer_pid=os.getpid(), listener=None).reason)
"""
    assert python_in("--pid", code).startswith("/proc belongs to another PID namespace")
    assert python_in("--pid --mount-proc", code) == "None"


@as_root
def test_hidden_process():
    """A process that procfs hides from this user is not proven; the reason names the mount option."""
    pid = os.getpid()
    proof = as_nobody(lambda: prove_master_pid(pid, peer_pid=pid, listener=None), before=hide_processes)
    reason = f"/proc hides process {pid} from this user: add the exporter to the group of the mount option gid="
    assert proof == Proof(None, reason)


def hide_processes() -> None:
    os.environ["PATH"] += ":/sbin:/usr/sbin"
    unshare_mounts()
    subprocess.run(["mount", "-t", "proc", "-o", "hidepid=2", "proc", "/proc"], check=True)


def unshare_mounts() -> None:
    import ctypes  # noqa: PLC0415  # only here

    clone_newns = 0x00020000
    assert ctypes.CDLL(None).unshare(clone_newns) == 0
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@pytest.mark.integration
def test_tcp_source():
    """Over TCP on this machine, the listening socket that the master holds proves its pid."""
    address = ("127.0.0.1", free_port())
    with uwsgi("--stats", f"{address[0]}:{address[1]}", stats=False) as server:
        wait_until(lambda: b'"accepting":1' in document(address), what="the worker to accept")
        assert prove_master_pid(server.pid, peer_pid=None, listener=address) == Proof(server.pid, None)


@pytest.mark.parametrize(
    "bound", ["127.0.0.1", "0.0.0.0", *(pytest.param(host, marks=over_ipv6) for host in ("::1", "::"))]
)
def test_tcp_listener_on_any_address(bound):
    """A listener on every IPv4 address serves each of them; one on every IPv6 address also serves IPv4."""
    with listening((bound, 0)) as server:
        reached = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(bound, bound)
        proof = prove_master_pid(os.getpid(), peer_pid=None, listener=(reached, server.getsockname()[1]))
        assert proof == Proof(os.getpid(), None)


def test_tcp_source_of_another_process(address):
    """If the process in the document does not listen there, or does not exist here, nothing is proven."""
    with started("sleep", "60") as other:
        reason = prove_master_pid(other.pid, peer_pid=None, listener=address).reason
    assert f"here that process does not listen on port {address[1]}" in reason
    assert prove_master_pid(2**22 + 1, peer_pid=None, listener=address).pid is None


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("127.0.0.1", "in this network namespace"),
        *((host, "^the stats server is on another host") for host in ("192.0.2.1", "2001:db8::1", "fe80::1%lo", "no")),
    ],
)
def test_nothing_listens_here(host, words):
    """A local address that answers has its listener in another network namespace; others are of another machine."""
    assert re.search(words, prove_master_pid(os.getpid(), peer_pid=None, listener=(host, free_port())).reason)


@as_root
def test_tcp_source_for_another_user(address):
    """Another user may not see who holds a TCP listener; the reason names both remedies."""
    pid = os.getpid()
    reason = as_nobody(lambda: prove_master_pid(pid, peer_pid=None, listener=address)).reason
    assert "UNIX socket, which needs no privilege" in reason
    assert "CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE" in reason


@as_root
def test_same_network_for_another_user():
    """Any user can see whether a process shares the network namespace; for a process that has ended it is unknown."""
    with started("unshare", "--net", "sleep", "60") as away:
        ours = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{away.pid}/ns/net") != ours)
        pids = (os.getpid(), away.pid, 2**22 + 1)
        assert as_nobody(lambda: [shares_network_namespace(pid) for pid in pids]) == [True, False, None]


def test_a_process_of_this_host():
    """It has the host's name, its directory and its start, and no emperor. After its end, only the host is known."""
    with started("sleep", "60", cwd="/usr") as process:
        identity = read_identity(process.pid)
    assert identity.host == os.uname().nodename
    assert identity.working_directory == "/usr"
    assert identity.started == pytest.approx(time.time(), abs=60)
    assert identity.emperor_pid is None
    ended = read_identity(process.pid)
    assert (ended.started, ended.working_directory, ended.emperor_pid) == (None, None, None)


@pytest.mark.parametrize(("parent", "emperor"), [("uwsgi\n", 6), ("systemd\n", None), (None, None)])
def test_the_emperor_is_a_parent_called_uwsgi(parent, emperor, tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (uwsgi) S 6 7 7 0\n")
    if parent is not None:
        (tmp_path / "6").mkdir()
        (tmp_path / "6" / "comm").write_text(parent)
    assert read_identity(7, proc=tmp_path).emperor_pid == emperor


@pytest.mark.integration
def test_the_parent_of_a_real_vassals_master_is_its_emperor():
    vassal = "[uwsgi]\nmaster = true\nstats = %d/vassal.stats\nsocket = %d/vassal.sock\n"
    options = ["--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats"]
    with real_uwsgi.bare(*options, files={"vassals/shop.ini": vassal}) as emperor:
        real_uwsgi.wait_until(lambda: b'"ready":1' in emperor.document().replace(b" ", b""), what="the vassal")
        children = Path(f"/proc/{emperor.pid}/task/{emperor.pid}/children").read_text().split()
        assert [read_identity(int(child)).emperor_pid for child in children] == [emperor.pid]


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        (b"0::/system.slice/uwsgi.service\n", "uwsgi.service"),
        (b"0::/system.slice/system-uwsgi.slice/uwsgi@shop.service\n", "uwsgi@shop.service"),
        (b"0::/user.slice/user-1.slice/user@1.service/app.slice/shop.service\n", "shop.service"),
        (b"0::/system.slice/uwsgi.service/workers\n", "uwsgi.service"),
        (b"0::/system.slice/my\\x2dshop.service\n", "my\\x2dshop.service"),
        (b"4:memory:/system.slice/other.service\n1:name=systemd:/system.slice/uwsgi.service\n0::/\n", "uwsgi.service"),
        (b"0::/\n", None),
        (b"0::/user.slice/user-0.slice/session-1.scope\n", None),
        (b"0::/system.slice/$(id).service\n", None),
        (b"0::/\xff.service\n", None),
    ],
)
def test_a_unit_is_the_innermost_service(tmp_path, cgroup, unit):
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_bytes(cgroup)
    assert find_systemd_unit(7, tmp_path) == unit
    assert find_systemd_unit(8, tmp_path) is None, "it has ended"
