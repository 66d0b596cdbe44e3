"""Limits of a server, from inside another cgroup namespace."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel.contained import family
from tests.support.other_namespaces import as_root
from tests.support.real_uwsgi import wait_until
from tools.environments import ROOT
from uwsgi_headroom.kernel.cpus import read_usable_cpus

CPU = Path("/sys/fs/cgroup/cpu")

pytestmark = [
    as_root,
    pytest.mark.skipif(not os.access(CPU / "cgroup.procs", os.W_OK), reason="needs a cgroup v1 hierarchy to write to"),
]


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


def test_the_servers_quota(groups):
    """The quota of a server counts wherever the mounted hierarchy shows its cgroup, also beside the exporter's."""
    server, exporter = groups
    with family(0) as processes:
        (server / "cgroup.procs").write_text(str(processes.master))
        cpus = read_usable_cpus(processes.master)
        assert (cpus.quota, cpus.limited_by) == (0.5, "quota")
        assert ask_in_another_cgroup_namespace(exporter, processes.master, "").startswith("0.5 ")


def test_a_container_sees_its_own_cgroup_only(groups):
    server, exporter = groups
    (exporter / "cpu.cfs_quota_us").write_text("70000")
    mount = f"umount -l {CPU}; mount -t cgroup -o cpu none {CPU};"
    with family(0) as processes:
        (server / "cgroup.procs").write_text(str(processes.master))
        said = ask_in_another_cgroup_namespace(exporter, processes.master, mount)
        assert said.startswith("None uWSGI's cgroup is not visible to the exporter: run it on the host")
        assert ask_in_another_cgroup_namespace(exporter, os.getpid(), mount).startswith("None uWSGI's cgroup is not")
