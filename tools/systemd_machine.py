"""`make systemd-machine`: checks the systemd unit in a container that runs systemd as its first process.

Needs root and podman. Makes a minimal Debian root, installs systemd, HEAD and a uWSGI in it, boots it, and does what
deploy/systemd/README.md says. Takes about four minutes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import commands, debian_root
from tools.commands import CommandError, show_step
from tools.debian_root import UnavailableError, expect, machine, wait_for
from tools.environments import ROOT

BOOT_SECONDS = 60.0
END_SECONDS = 30.0

_PROGRAMS = ("podman", "runc")
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv", "curl", "procps")
PROGRAMS = {"/opt/uwsgi-headroom": "/srv/source", "/opt/uwsgi": "pyuwsgi"}
"""The exporter of HEAD and a uWSGI, by the place of their virtual environments."""

# systemd manages cgroups itself, and limits of open files may not be raised here.
_CONTAINERS = """[containers]
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
"""


def main(argv: list[str] | None = None) -> int:
    return debian_root.check_suite("systemd_machine", __doc__, _check, argv)


def refuse_without_podman() -> None:
    """Raises `UnavailableError` if no container can be run here."""
    if missing := [program for program in _PROGRAMS if not shutil.which(program)]:
        raise UnavailableError(f"this machine has no {', '.join(missing)}: apt-get install podman runc netavark")


def _check(suite: str) -> None:
    refuse_without_podman()
    with debian_root.copied(suite, debian_root.cache()) as copy:
        _install(copy)
        with booted_machine(copy) as booted:
            for sentence, check in CHECKS.items():
                with show_step(sentence):
                    check(booted)
    print("systemd-machine: the unit does what its README says")


def _install(copy: Path) -> None:
    """Installs systemd, the exporter of HEAD with its units as the README says, and a uWSGI with a unit."""
    install_programs(copy, PACKAGES, PROGRAMS)
    units = copy / "etc" / "systemd" / "system"
    for unit in ("uwsgi-headroom.service", "uwsgi-headroom.socket"):
        shutil.copyfile(copy / "srv" / "source" / "deploy" / "systemd" / unit, units / unit)
    for path, text in FILES.items():
        (copy / path).write_text(text)


def install_programs(copy: Path, packages: Sequence[str], programs: Mapping[str, str]) -> None:
    """Installs Debian's packages, then Python's, each in a virtual environment at a place of its own."""
    copy_source(copy)
    with machine(copy) as bare:
        bare.install(*packages)
        for place, package in programs.items():
            with show_step(f"pip install {package}"):
                bare.run("python3", "-m", "venv", place)
                bare.run(f"{place}/bin/pip", "install", "-q", package)


def copy_source(copy: Path) -> None:
    """Writes the files of HEAD to /srv/source of a root."""
    source = copy / "srv" / "source"
    source.mkdir(exist_ok=True)
    archive = subprocess.run(
        ["git", "-c", "safe.directory=*", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)


@contextlib.contextmanager
def booted_machine(copy: Path) -> Iterator[Booted]:
    """Boots the root in a container without a network. Raises `UnavailableError` if systemd does not start here."""
    place = Path(tempfile.mkdtemp(prefix="headroom-"))  # podman wants a short path
    name = f"uwsgi-headroom-{os.getpid()}"
    settings = place / "containers.conf"
    settings.write_text(_CONTAINERS)
    podman = ["env", f"CONTAINERS_CONF={settings}", "podman", "--storage-driver=vfs"]
    podman += [f"--root={place}/storage", f"--runroot={place}/run"]
    options = ["--privileged", "--systemd=always", "--network=none", f"--name={name}", "--rootfs"]
    try:
        with show_step("booting systemd in a container"):
            try:
                commands.run_command([*podman, "run", "--detach", *options, str(copy), "/sbin/init"])
            except CommandError as error:
                raise UnavailableError(f"podman cannot run a container: {error.last_line}") from error
            booted = Booted([*podman, "exec", name], [*podman, "restart", "--time=20", name])
            await_boot(booted)
        yield booted
    finally:
        subprocess.run([*podman, "rm", "--force", "--time=3", name], capture_output=True, check=False)
        _await_end(place)
        shutil.rmtree(place, ignore_errors=True)


def _await_end(place: Path) -> None:
    """Waits for the processes that clean up after the container: they would make their directories again."""
    end = time.monotonic() + END_SECONDS
    while is_named(place) and time.monotonic() < end:
        time.sleep(0.2)


def is_named(place: Path) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if os.fsencode(place) in (process / "cmdline").read_bytes():
                return True
    return False


def await_boot(booted: Booted) -> None:
    """Waits until systemd has started. Raises `UnavailableError` if it does not."""
    end = time.monotonic() + BOOT_SECONDS
    while (state := booted.output("systemctl is-system-running || true").strip()) not in ("running", "degraded"):
        if time.monotonic() > end:
            raise UnavailableError(f"systemd does not start in a container here: {state or 'no answer'}")
        time.sleep(0.5)


MOST_EXPOSED = 2.0
"""The highest exposure that `systemd-analyze security` may find, 0 to 10."""

STOP_SECONDS = 10.0  # measured 0.15 on an idle machine
WAIT_SECONDS = 90.0  # on a busy machine, Python alone may take half a minute to start
WATCHDOG_SECONDS = 30.0
SHORT_WATCHDOG_SECONDS = 15.0
STILL_SECONDS = 30.0  # until a sampler counts as standing still, with a turn

_CONFIG = "/etc/uwsgi-headroom.yml"
_WELL = "servers:\n  - stats: /run/uwsgi/*.stats\n"
_METRICS = "curl -s --max-time 60 127.0.0.1:9238/metrics"
_UNIT = "uwsgi-headroom"

FILES = {
    "etc/uwsgi-headroom.yml": _WELL,
    "etc/systemd/system/shop.service": """[Service]
User=www-data
RuntimeDirectory=uwsgi
ExecStart=/opt/uwsgi/bin/uwsgi --master --processes 2 --threads 2 --die-on-term --http-socket 127.0.0.1:8080 \
--stats /run/uwsgi/shop.stats --chmod-socket=660 --wsgi-file /srv/shop.py
""",
    "srv/shop.py": """def application(environment, start_response):
    start_response("200 OK", [])
    return [b"ok"]
""",
    # The exporter with a bug: its reads hang, or it blocks its event loop, from the time that a file exists. It also
    # expects a server soon.
    "srv/faulty.py": """import asyncio, os, sys, time
from uwsgi_headroom import __main__, source
from uwsgi_headroom.watch import expected, globbed

expected.LONG_ENOUGH = globbed.LONG_ENOUGH = 2.0  # seconds
read = source.read_document

async def faulty(*arguments, **more):
    while os.path.exists("/srv/hang"):
        await asyncio.sleep(0.1)
    while os.path.exists("/srv/block"):
        time.sleep(0.1)
    return await read(*arguments, **more)

source.read_document = faulty
sys.exit(__main__.main())
""",
    "srv/requests.py": """import sys, time
from pathlib import Path
from uwsgi_headroom.store.file import HistoryFile

with HistoryFile(Path("/var/lib/uwsgi-headroom/history.sqlite"), time.time()) as file:
    print(sum(worker.requests for record in file.records("shop", 0, 1e11, 60) for worker in record.window.workers))
""",
}
"""Files of the container, by path, with their text."""

_FAULTY = f"""mkdir -p /etc/systemd/system/{_UNIT}.service.d
cat > /etc/systemd/system/{_UNIT}.service.d/faulty.conf <<END
[Service]
WatchdogSec={SHORT_WATCHDOG_SECONDS:g}
ExecStart=
ExecStart=/opt/uwsgi-headroom/bin/python /srv/faulty.py --config {_CONFIG}
END
systemctl daemon-reload; systemctl restart {_UNIT}"""


@dataclass(frozen=True)
class Booted:
    """A booted container. command: the words that run a command in it; restart: the command that boots it again."""

    command: Sequence[str]
    restart: Sequence[str] = ()

    def output(self, script: str) -> str:
        """Runs a shell script; returns its output. Raises `FailedError` if it fails."""
        ran = subprocess.run([*self.command, "sh", "-c", script], capture_output=True, text=True, check=False)
        expect(not ran.returncode, f"this ended with {ran.returncode}: {script}\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    def show(self, name: str) -> str:
        """A property of the exporter's unit."""
        return self.output(f"systemctl show {_UNIT} -p {name} --value").strip()

    def metric(self, pattern: str) -> float:
        """The value of the only series that matches."""
        found = re.findall(rf"^{pattern}(?:\{{[^}}]*\}})? (\S+)$", self.output(_METRICS), re.MULTILINE)
        expect(len(found) == 1, f"{len(found)} series match {pattern}")
        return float(found[0])

    def wait(self, ready: Callable[[], object], seconds: float, what: str) -> None:
        """Waits until `ready`. Raises `FailedError` after these seconds, with the unit's state and log."""
        log = f"systemctl status --no-pager --full {_UNIT} || true; journalctl -n 40 --no-pager"
        wait_for(ready, seconds, what, lambda: self.output(log))


def _verify(booted: Booted) -> None:
    said = booted.output(f"systemd-analyze verify {_UNIT}.service {_UNIT}.socket 2>&1")
    expect(not said.strip(), f"systemd-analyze verify: {said}")
    said = booted.output(f"systemd-analyze security --no-pager {_UNIT}.service || true")
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    expect(exposure and float(exposure[1]) <= MOST_EXPOSED, f"exposure is above {MOST_EXPOSED}: {said}")


def _start(booted: Booted) -> None:
    booted.output("systemctl start shop; while ! [ -S /run/uwsgi/shop.stats ]; do sleep 0.2; done")
    booted.output(f"systemctl start {_UNIT}")
    expect(booted.show("ActiveState") == "active", "systemctl start returns before READY")
    booted.wait(lambda: booted.show("StatusText") == "1 server watched", WAIT_SECONDS, "the status names the server")
    booted.wait(lambda: booted.metric(r'uwsgi_up\{server="shop"\}') == 1, WAIT_SECONDS, "shop can be read")
    expect(booted.metric("uwsgi_listen_queue_length") == 0, "the listen queue is not known")
    user = booted.output(f"ps -o user= -p {booted.show('MainPID')}").strip()
    expect(user not in ("root", "www-data"), f"the exporter runs as {user}")


def _figures(booted: Booted) -> None:
    """An exporter of the same user and group, without the sandbox, has the same series."""
    plain = _METRICS.replace("9238", "9239")
    properties = "-p DynamicUser=yes -p SupplementaryGroups=www-data -p Environment=UWSGI_HEADROOM_HISTORY=/tmp/history"
    program = "/opt/uwsgi-headroom/bin/uwsgi-headroom --web.listen-address 127.0.0.1:9239"
    booted.output(f"systemd-run --quiet --unit=plain {properties} {program} --config {_CONFIG}")
    booted.wait(lambda: "uwsgi_up" in booted.output(f"{plain} || true"), WAIT_SECONDS, "an exporter without a sandbox")
    booted.output("curl -s 127.0.0.1:8080/ > /dev/null; sleep 12")  # some figures are read every few seconds
    series = [
        set(re.findall(r"^(\w+(?:\{.*?\})?) ", booted.output(scrape), re.MULTILINE)) for scrape in (_METRICS, plain)
    ]
    booted.output("systemctl stop plain")
    expect(len(series[0]) > 100, f"only {len(series[0])} series")
    expect(series[0] == series[1], f"the sandbox changes the series: {sorted(series[0] ^ series[1])}")


def _waits(booted: Booted) -> None:
    place = f"/etc/systemd/system/{_UNIT}.service.d/waits.conf"
    known = "uwsgi_wait_observed_seconds_total"
    expect(known not in booted.output(_METRICS), "waits are known without rights")
    booted.output(f"install -D -m 644 /srv/source/deploy/systemd/waits.conf {place}")
    booted.output(f"systemctl daemon-reload; systemctl restart {_UNIT}")
    booted.wait(lambda: known in booted.output(_METRICS), WAIT_SECONDS, "waits are known")
    booted.output(f"rm {place}; systemctl daemon-reload; systemctl restart {_UNIT}")


def _history(booted: Booted) -> None:
    expected = 0
    for turn in (0, 1, 2):
        booted.output("for i in 1 2 3 4 5 6 7 8 9 10; do curl -s 127.0.0.1:8080/ > /dev/null; done; sleep 1")
        began = time.monotonic()
        booted.output(f"systemctl stop {_UNIT}")
        expect(time.monotonic() - began < STOP_SECONDS, "systemctl stop takes too long")
        kept = int(booted.output("/opt/uwsgi-headroom/bin/python /srv/requests.py"))
        expected = expected + 10 if turn else kept
        expect(kept == expected >= 10, f"the history has {kept} of {expected} requests after restart {turn}")
        booted.output(f"systemctl start {_UNIT}; sleep 1")


def _reload(booted: Booted) -> None:
    pid, samples = booted.show("MainPID"), booted.metric("uwsgi_exporter_samples_total")
    booted.output(f"printf '{_WELL}  - gone=/nowhere\n' > {_CONFIG}; systemctl reload {_UNIT}")
    status = "2 servers watched, 1 cannot be read"
    booted.wait(lambda: booted.show("StatusText") == status, WAIT_SECONDS, "the new server is watched")
    expect(booted.show("MainPID") == pid, "the reload started another process")
    expect(booted.metric(r'uwsgi_exporter_samples_total\{server="shop"\}') > samples, "the reload lost the totals")
    booted.output(f"echo 'nonsense: 1' >> {_CONFIG}; systemctl reload {_UNIT}")
    booted.wait(
        lambda: f"{_CONFIG}:4: unknown key" in booted.show("StatusText"), WAIT_SECONDS, "the broken file is reported"
    )
    booted.output(f"printf '{_WELL}' > {_CONFIG}; systemctl reload {_UNIT}")
    booted.wait(lambda: booted.show("StatusText") == "1 server watched", WAIT_SECONDS, "the file is read again")
    expect(booted.show("ActiveState") == "active", "the reload does not end")


def _socket(booted: Booted) -> None:
    booted.output(f"systemctl stop {_UNIT}; systemctl start {_UNIT}.socket")
    expect(booted.show("ActiveState") == "inactive", "the exporter runs without the socket's first request")
    booted.metric("uwsgi_up")
    expect(booted.show("ActiveState") == "active", "a request does not start the exporter")
    scrapes = f"for i in $(seq 40); do {_METRICS} -o /dev/null -w '%{{http_code}}\n' || true; done"
    answers = booted.output(f"systemctl --no-block restart {_UNIT}; {scrapes}").split()
    expect(set(answers) == {"200"}, f"scrapes during a restart: {' '.join(answers)}")


def _await_restart(booted: Booted, seconds: float, what: str) -> None:
    restarts = int(booted.show("NRestarts"))
    booted.wait(
        lambda: int(booted.show("NRestarts")) > restarts,
        seconds + WAIT_SECONDS,
        f"the watchdog ends an exporter {what}",
    )
    booted.output("rm -f /srv/hang /srv/block")
    booted.wait(lambda: booted.show("ActiveState") == "active", WAIT_SECONDS, "it starts again")
    expect(booted.metric("uwsgi_up") in (0, 1), "it serves again")


def _stopped(booted: Booted) -> None:
    booted.output(f"kill -STOP {booted.show('MainPID')}")
    _await_restart(booted, WATCHDOG_SECONDS, "that was stopped")


def _hanging(booted: Booted) -> None:
    booted.output(_FAULTY)
    booted.output(f"touch /srv/hang; {_METRICS} > /dev/null")
    _await_restart(booted, SHORT_WATCHDOG_SECONDS + STILL_SECONDS, "whose sampling hangs while it answers")
    expect("sampling stands still" in booted.output(f"journalctl -u {_UNIT} --no-pager"), "the log gives no reason")


def _blocked(booted: Booted) -> None:
    booted.output("touch /srv/block")
    _await_restart(booted, SHORT_WATCHDOG_SECONDS, "whose event loop is blocked")
    where = booted.output(f"journalctl -u {_UNIT} --no-pager -o cat")
    expect("/srv/faulty.py" in where, "the log does not say where the blocked exporter stood")


def _retire(booted: Booted) -> None:
    """Of an exporter that expects servers after 2 s; otherwise one that is gone is forgotten after ten minutes."""

    def is_up(value: int) -> bool:
        return f'uwsgi_up{{server="shop"}} {value}' in booted.output(_METRICS)

    booted.output("systemctl restart shop")
    booted.wait(lambda: is_up(1), WAIT_SECONDS, "shop can be read")
    booted.output("sleep 8; systemctl stop shop")
    booted.wait(lambda: is_up(0), WAIT_SECONDS, "shop is down")
    booted.output("/opt/uwsgi-headroom/bin/uwsgi-headroom retire shop")
    booted.wait(lambda: "uwsgi_up{" not in booted.output(_METRICS), WAIT_SECONDS, "shop is forgotten")


def _journal(booted: Booted) -> None:
    log = booted.output(f"journalctl -u {_UNIT} --no-pager -o cat")
    expect("level=info" in log, "the journal has no lines of the exporter")
    expect("Traceback" not in log, f"the journal has a traceback:\n{log}")


CHECKS: dict[str, Callable[[Booted], None]] = {
    "systemd-analyze verify and security": _verify,
    "start: ready, figures, listen queue, a user of its own": _start,
    "the sandbox hides no figure": _figures,
    "waits.conf shows what threads wait for": _waits,
    "stop and start again lose no history": _history,
    "reload: totals stay, a broken file is reported": _reload,
    "the socket starts it, and refuses nothing in a restart": _socket,
    "the watchdog restarts a stopped exporter": _stopped,
    "the watchdog restarts one whose sampling hangs": _hanging,
    "the watchdog restarts one that is blocked": _blocked,
    "root retires a server that is gone": _retire,
    "the journal has no traceback": _journal,
}
"""Each check, by what it shows."""


if __name__ == "__main__":
    sys.exit(main())
