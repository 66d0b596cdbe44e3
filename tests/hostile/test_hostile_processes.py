"""The exporter beside a uWSGI of another user that makes it slow to look at: no other server loses anything."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.support.bad_servers import counted_server
from tests.support.exporter import exporter, peak_resident_bytes
from tests.support.real_uwsgi import wait_until
from tools.environments import ROOT

pytestmark = pytest.mark.integration

SECONDS = 8.0
GIB = 1 << 30

CASES = {
    "descriptors": ["descriptors=20000", "workers=16", "replaced=1"],
    "epolls": ["members=19000"],
    "command line": [f"claimed={2 * GIB}"],
    "many workers": ["workers=64", "replaced=1"],
    "locked": ["locked=1"],
}


@contextlib.contextmanager
def hostile(folder, *words):
    """Runs that server; the address of its stats. Skips what this machine or user cannot do."""
    is_locked = "locked=1" in words
    if is_locked and (os.geteuid() != 0 or not os.path.exists("/dev/fuse")):
        pytest.skip("needs root and FUSE (/dev/fuse), to keep a process's memory map locked")
    command = [*(["unshare", "--mount"] if is_locked else []), sys.executable, "-m", "tests.hostile.hostile_master"]
    process = subprocess.Popen(
        [*command, str(folder / "stats"), *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    try:
        if process.stdout.readline() != "ready\n":
            process.kill()
            reason = process.stderr.read()
            if "mount:" in reason or "prctl:" in reason:
                pytest.skip(f"this machine does not let it: {reason}")
            raise AssertionError(reason)
        yield str(folder / "stats")
    finally:
        process.kill()
        process.communicate()


def samples(running, server, metric="uwsgi_exporter_samples_total"):
    series = running.scrape(timeout=20)
    return sum(value for name, value in series.items() if re.match(rf'{metric}{{.*server="{server}"', name))


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_uwsgi(case, tmp_path):
    """The good server is sampled as often as beside a good one, and the exporter answers, stays small and ends."""
    with contextlib.ExitStack() as stack:
        good = stack.enter_context(counted_server())
        address = stack.enter_context(hostile(tmp_path, *CASES[case]))
        running = stack.enter_context(exporter("--stats", f"good={good.address}", "--stats", f"bad={address}"))
        wait_until(lambda: samples(running, "bad") and len(good.reads), what="the first samples")
        before, began, health = samples(running, "good"), time.monotonic(), list[float]()
        while time.monotonic() < began + SECONDS:
            asked = time.monotonic()
            assert running.get("/-/healthy", timeout=20)[0] == 200
            health.append(time.monotonic() - asked)
            time.sleep(0.1)
        seconds = time.monotonic() - began
        assert samples(running, "good") - before > 0.5 * 5 * seconds
        assert samples(running, "good", "uwsgi_exporter_sample_gap_seconds_total") == 0
        assert len(health) > 0.3 * seconds / 0.1
        assert peak_resident_bytes(running.pid) < 100_000_000
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == -signal.SIGTERM
