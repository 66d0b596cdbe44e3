"""Queues, peers and limits of a server, from inside another network or cgroup namespace."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.kernel.contained import contained, family, namespaces_of_threads, read_namespace, snapshot_of
from tests.support.other_namespaces import as_nobody, as_root, in_child, python_in
from tests.support.real_uwsgi import Uwsgi, wait_until
from tools.environments import ROOT
from uwsgi_headroom.kernel.backlogs import Backlogs
from uwsgi_headroom.kernel.cgroups import OUR_MOUNTS
from uwsgi_headroom.kernel.cpus import read_usable_cpus
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.namespaces import WHO_MAY_ASK, ask_in_network_of
from uwsgi_headroom.kernel.setup import read_somaxconn
from uwsgi_headroom.kernel.waits.peers import Peer, Peers
from uwsgi_headroom.record import Backlog, Waiting
from uwsgi_headroom.source import Answer

pytestmark = as_root

IN_A_NETWORK = "unshare --net --pid --fork --kill-child"


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    with contained(tmp_path_factory.mktemp("there"), "--listen", "20") as (server, master):
        yield server, master


def names(server: Uwsgi) -> list[str]:
    return [each.name for each in snapshot_of(server).sockets]


@pytest.mark.integration
def test_queues_of_a_real_uwsgi(there):
    """The queues of sockets in another network namespace, their limits and who waits in them are exact."""
    server, master = there
    (http,) = [name for name in names(server) if name != server.socket]
    backlogs = Backlogs()
    assert backlogs.read(master, names(server)) == dict.fromkeys(names(server), Backlog(0, 20, None))
    (worker,) = Host().read_facts(snapshot_of(server), Answer(b"", peer_pid=master)).local_pids.values()
    os.kill(worker, 19)  # SIGSTOP
    try:
        with contextlib.ExitStack() as clients:
            waiting = [clients.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)]
            for client in waiting:
                client.connect(server.socket)
            found = backlogs.read(master, names(server))
            assert found == {server.socket: Backlog(3, 20, None), http: Backlog(0, 20, None)}
            inodes = tuple((os.fstat(client.fileno()).st_ino, None) for client in waiting)
            assert backlogs.list_waiting(master, found) == {server.socket: Waiting(inodes)}
    finally:
        os.kill(worker, 18)  # SIGCONT


@pytest.mark.integration
def test_without_privileges(there):
    """A user who may not enter the namespace gets the reason, for every socket; never 0."""
    server, master = there
    sockets = names(server)
    found = as_nobody(lambda: Backlogs().read(master, sockets))
    assert found == dict.fromkeys(sockets, Backlog(None, None, WHO_MAY_ASK))
    assert as_nobody(lambda: read_somaxconn(master)) is None


@pytest.mark.integration
def test_nothing_stays_behind(there):
    server, master = there
    OUR_MOUNTS.read()  # it stays open, for all servers
    ours, threads, descriptors = read_namespace("net"), threading.active_count(), len(os.listdir("/proc/self/fd"))
    host = Host()
    for _ in range(50):
        host.read_facts(snapshot_of(server), Answer(b"", peer_pid=master))
    assert ask_in_network_of(master, lambda: read_namespace("net", "thread-self")) != ours
    # join() returns when Python's part of a thread has ended; the kernel may list it a moment longer
    wait_until(lambda: namespaces_of_threads() == {ours})
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_somaxconn():
    """somaxconn is that of the server's network namespace, not the exporter's."""
    with family(0, IN_A_NETWORK, before="echo 77 >/proc/sys/net/core/somaxconn;") as processes:
        wait_until(lambda: read_somaxconn(processes.master) == 77)
        assert Path("/proc/sys/net/core/somaxconn").read_text() != "77\n"


def test_equal_addresses():
    """A socket here with the same address is not taken for the one in the other namespace."""
    with socket.socket() as ours, family(0, IN_A_NETWORK) as processes:
        ours.bind(("127.0.0.1", 0))
        ours.listen(5)
        name = f"127.0.0.1:{ours.getsockname()[1]}"
        backlog = Backlogs().read(processes.master, [name])[name]
        assert backlog == Backlog(None, None, f"uWSGI's master has no listening socket named {name}")


def test_errors_of_the_question_are_raised_where_it_was_asked():
    with family(0, IN_A_NETWORK) as processes, pytest.raises(ZeroDivisionError):
        ask_in_network_of(processes.master, lambda: 1 // 0)
    with pytest.raises(OSError, match="not visible"):
        ask_in_network_of(2**22 + 1, os.getpid)


def test_without_the_right_to_enter():
    """With the right to trace but not to change namespaces, as in most containers, the reason says what to grant."""
    with family(0, IN_A_NETWORK) as processes:
        drop = "setpriv --bounding-set -sys_admin --inh-caps -sys_admin"
        code = (
            "from uwsgi_headroom.kernel.namespaces import ask_in_network_of\n"
            f"try: ask_in_network_of({processes.master}, int)\nexcept OSError as error: print(error)"
        )
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(__import__("sys").path)}
        command = [*drop.split(), "python3", "-c", code]
        assert subprocess.check_output(command, env=environment, text=True).strip() == WHO_MAY_ASK


@pytest.mark.usefixtures("patient")
def test_peers():
    """The other ends of sockets are found in their namespace, also by a user who may not enter it."""
    listen = "python3 -c 'import socket,time;s=socket.socket();s.bind((\"127.0.0.1\",0));s.listen();time.sleep(60)' &"
    with family(1, IN_A_NETWORK, before=f"ip link set lo up; {listen}") as processes:
        sockets = Path(f"/proc/{processes.master}/net/tcp")
        wait_until(lambda: " 0A " in sockets.read_text(), what="the listener")
        (inode,) = [int(line.split()[9]) for line in sockets.read_text().splitlines()[1:]]
        peers = Peers()
        peers.learn([inode])
        assert peers.get(inode) is None
        peers = Peers()
        assert peers.learn([inode], elsewhere=processes.master) is None
        assert peers.get(inode) == Peer("listening")
        reason, peer = as_nobody(lambda: _ask_for(inode, processes.master))
        assert (reason, peer) == (None, Peer("listening"))
        assert as_nobody(lambda: _ask_for(1, processes.master)) == (WHO_MAY_ASK, None)


def _ask_for(inode: int, master: int) -> tuple[str | None, Peer | None]:
    peers = Peers()
    return peers.learn([inode], elsewhere=master), peers.get(inode)


def test_an_exporter_that_is_root_in_its_own_user_namespace_may_enter():
    def ask() -> tuple[bool, bool]:
        code = """
import os, subprocess, time
from uwsgi_headroom.kernel.namespaces import ask_in_network_of
child = subprocess.Popen(["unshare", "--net", "sleep", "60"])
ours = os.readlink("/proc/self/ns/net")
while os.readlink(f"/proc/{child.pid}/ns/net") == ours:
    time.sleep(0.01)
print(ask_in_network_of(child.pid, lambda: os.readlink("/proc/thread-self/ns/net")) != ours)
child.kill()
"""
        return python_in("--user --map-root-user --pid --mount-proc", code) == "True", True

    assert in_child(ask)[0]


CPU = Path("/sys/fs/cgroup/cpu")

with_cgroups = pytest.mark.skipif(
    not os.access(CPU / "cgroup.procs", os.W_OK), reason="needs a cgroup v1 hierarchy to write to"
)


@pytest.fixture
def groups():
    """A cgroup for a server, with a quota of half a CPU, and one for an exporter beside it."""
    made = [CPU / f"headroom-{os.getpid()}-{name}" for name in ("server", "exporter")]
    for group in made:
        group.mkdir()
    (made[0] / "cpu.cfs_quota_us").write_text("50000")
    try:
        yield made[0], made[1]
    finally:
        for group in made:
            wait_until(lambda group=group: removed(group), what="the end of the processes")


def removed(group: Path) -> bool:
    """Whether a cgroup could be removed: not before the parent of its last process has noticed the end."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


ASK = """
import sys
from uwsgi_headroom.kernel.cgroups import explain_hidden
from uwsgi_headroom.kernel.cpus import read_usable_cpus
cpus = read_usable_cpus(int(sys.argv[1]))
print(cpus and cpus.quota, explain_hidden(int(sys.argv[1])))
"""


def ask_in_another_cgroup_namespace(group: Path, pid: int, mount: str) -> str:
    """What the exporter's code says from a cgroup namespace whose root is `group`."""
    script = (
        f"echo $$ >{group}/cgroup.procs; exec unshare --cgroup --mount sh -c '{mount} exec \"$@\"' - "
        f'{sys.executable} -c "$0" {pid}'
    )
    command = ["sh", "-c", script, ASK]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "exporter")}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


@with_cgroups
def test_the_servers_quota(groups):
    """The quota of a server counts wherever the mounted hierarchy shows its cgroup, also beside the exporter's."""
    server, exporter = groups
    with family(0) as processes:
        (server / "cgroup.procs").write_text(str(processes.master))
        cpus = read_usable_cpus(processes.master)
        assert (cpus.quota, cpus.limited_by) == (0.5, "quota")
        assert ask_in_another_cgroup_namespace(exporter, processes.master, "").startswith("0.5 ")


@with_cgroups
def test_a_container_sees_its_own_cgroup_only(groups):
    server, exporter = groups
    (exporter / "cpu.cfs_quota_us").write_text("70000")
    mount = f"umount -l {CPU}; mount -t cgroup -o cpu none {CPU};"
    with family(0) as processes:
        (server / "cgroup.procs").write_text(str(processes.master))
        said = ask_in_another_cgroup_namespace(exporter, processes.master, mount)
        assert said.startswith("None uWSGI's cgroup is not visible to the exporter: run it on the host")
        assert ask_in_another_cgroup_namespace(exporter, os.getpid(), mount).startswith("None uWSGI's cgroup is not")
