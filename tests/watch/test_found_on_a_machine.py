"""uWSGIs that nobody configured, on a machine of their own: real ones, and what a hostile user forges beside them."""

import pytest

from tests.support.other_namespaces import as_root, python_in
from tools.environments import ROOT

pytestmark = [pytest.mark.integration, as_root]

BEGIN = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    + """
import json, os, signal, subprocess, sys, tempfile
from tests.discover import hostile_master
from tests.support.exporter import COMMAND, exporter
from tests.support.real_uwsgi import uwsgi, wait_until

def listed(running):
    return json.loads(running.get("/api/v2/servers")[1])

def reasons(running):
    return {each["reason"]: each["number"] for each in listed(running)["not_watched"]}

def series(running, *words):
    return [line for line in running.metrics().splitlines() if all(word in line for word in words)]

def seen(running, source):
    states = {each["name"]: each["state"] for each in listed(running)["servers"]}
    up = [name for name, state in states.items() if state == "up"]
    return [name for name in up if series(running, f'server="{name}",source="{source}"')]
"""
)

WATCHED = """
with uwsgi("--processes", "2", stats=False) as other, uwsgi("--processes", "2") as shop, \\
        exporter("--stats", "configured=file:///nowhere", "--discover") as running:
    wait_until(lambda: seen(running, "kernel") and seen(running, "stats"), what="both")
    (kernel,), (stats,) = seen(running, "kernel"), seen(running, "stats")
    assert kernel.endswith("@root") and stats.endswith("@root"), (kernel, stats)
    assert reasons(running) == {}
    assert series(running, "uwsgi_found{", kernel), "no alert says that it is down"
    addresses = {each["name"]: each["address"] for each in listed(running)["servers"]}
    assert addresses[kernel] in (f"app:127.0.0.1:{other.http}", f"app:{other.socket}"), addresses
    assert addresses[stats] == f"unix://{shop.stats}", addresses
    os.killpg(other.pid, signal.SIGKILL)
    wait_until(lambda: not series(running, "uwsgi_up{", kernel), what="no metrics of what has ended")
    assert series(running, 'uwsgi_up{server="configured"} 0'), "this one is down"
    (gone,) = [each["state"] for each in listed(running)["servers"] if each["name"] == kernel]
    assert gone == "down"
print("done")
"""

NOT_WATCHED = """
NO_RIGHTS = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all", *COMMAND)
with uwsgi("--processes", "2") as shop, uwsgi("--processes", "1", stats=False):
    for command, reason in ((COMMAND, "not_configured"), (NO_RIGHTS, "rights")):
        with exporter("--stats", f"shop=unix://{shop.stats}", command=command) as running:
            wait_until(lambda: reasons(running), what="what is not watched")
            assert reasons(running) == {reason: 1}
            assert running.scrape()[f'uwsgi_exporter_servers_not_watched{{reason="{reason}"}}'] == 1
            assert len(seen(running, "stats")) == 1
            assert "seen, not watched" in running.get("/servers")[1]
print("done")
"""

FORGED = """
folder = tempfile.mkdtemp(prefix="found-")
os.chmod(folder, 0o777)
forged = [
    subprocess.Popen(
        [sys.executable, hostile_master.__file__, json.dumps({"ids": ((65534,) * 3, (65534,) * 3), **does})],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )
    for does in [{"claims": {"arg": 2 << 30}}, {"epoll": (400, 400)}, {"documents": (folder, 6)}, *[{}] * 10]
]
for each in forged:
    each.stdout.readline()
with uwsgi("--processes", "2", stats=False), exporter("--stats", "file:///nowhere", "--discover") as running:
    wait_until(lambda: seen(running, "kernel"), what="the real one")
    assert [each["name"].partition("@")[2] for each in listed(running)["servers"]] == ["", "root"]
    assert reasons(running) == {"unreadable": len(forged)}
    with exporter("--stats", "file:///nowhere") as running:
        wait_until(lambda: reasons(running), what="what is not watched")
        assert reasons(running) == {"not_configured": len(forged) + 1}
for each in forged:
    each.stdin.close()
print("done")
"""


@pytest.mark.parametrize("scene", [WATCHED, NOT_WATCHED, FORGED], ids=["watched", "not watched", "forged"])
def test_a_machine(scene):
    """With `--discover`, each is watched, by its stats or the kernel; one that ends has no metrics, and one that is
    configured is down. Without it, or without the rights, it is listed with the reason. What looks like a uWSGI is not
    shown, and delays nothing."""
    assert python_in("--pid --mount-proc", BEGIN + scene).split()[-1] == "done"
