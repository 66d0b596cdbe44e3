"""`make machine TRIAL=cgroup`: boots a Debian with a kernel of its own in an emulator, and runs a trial in it.

Needs root and qemu-system. Makes a Debian root, once; puts HEAD into it, makes a disk of it, boots that without KVM,
and prints what the trial says on the serial console. A trial is a script in tools/machine/trials/; two run in a copy of
a root, without a boot. The status is 0 if each of its expectations holds, and 75 if the trial cannot run here.

The machine has one CPU, whose clock counts instructions: a busy host does not slow it down. It is true for states,
system calls, sockets, cgroups and rights, and not for cost, waits for a CPU, or response times.
"""

import argparse
import contextlib
import hashlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import commands, debian_root
from tools.commands import CommandError, show_step
from tools.debian_root import UnavailableError, expect, machine
from tools.environments import ROOT, Environment

TRIALS = Path(__file__).parent / "trials"

BOOT = ("systemd-sysv", "dbus", "udev", "initramfs-tools", "ca-certificates", "python3", "python3-venv", "curl")
USED = ("uwsgi", "uwsgi-plugin-python3", "procps", "iproute2", "logrotate")
BESIDES = {"container": ("podman", "crun"), "rights": ("apparmor",)}
"""What a trial needs besides; debootstrap cannot order these packages."""

FROM_PYPI = {"tests": ("pytest", "pytest-xdist", "hypothesis", "flask", "pyte")}
"""What else goes into the virtual environment."""

WITHOUT_BOOT = ("demo", "package")
"""Trials of a root in namespaces of their own, which need a network and no kernel."""

ENDED = "# the trial has ended"

_DISK_MB, _MEMORY_MB = 3000, 1500


@dataclass(frozen=True)
class Arch:
    """How a machine of an architecture is emulated. kernel: its package."""

    kernel: str
    program: str
    options: tuple[str, ...]
    console: str


ARCHES = {
    "amd64": Arch("linux-image-amd64", "qemu-system-x86_64", ("-cpu", "max"), "ttyS0"),
    "arm64": Arch("linux-image-arm64", "qemu-system-aarch64", ("-M", "virt", "-cpu", "cortex-a72"), "ttyAMA0"),
}

UNIT = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStartPre=/bin/tar -x -C /mnt -f /dev/vdb
ExecStart=/bin/bash -c 'exec bash /mnt/$(sed "s/.*trial=//; s/,/ /g" /proc/cmdline)'
ExecStopPost=/bin/sh -c 'echo "ENDED" >/dev/console; systemctl poweroff --force'
StandardOutput=file:/dev/console
StandardError=inherit
TimeoutStartSec=infinity
"""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.machine", description=__doc__)
    names = sorted(path.stem for path in TRIALS.glob("*.sh") if path.stem != "common")
    parser.add_argument("trial", choices=names)
    parser.add_argument("words", nargs="*", help="for the trial: files of tests")
    parser.add_argument("--suite", default="trixie", help="of Debian (default %(default)s)")
    parser.add_argument("--arch", choices=sorted(ARCHES), default="amd64", help="(default %(default)s)")
    parser.add_argument("--kernel", default="", metavar="SUITE", help="the kernel of another suite, such as bullseye")
    parser.add_argument("--minutes", type=float, default=40.0, help="the longest time of it all (default 40)")
    parser.add_argument("--cached", action="store_true", help="do not make a root of Debian, which takes minutes")
    given = parser.parse_args(argv)
    return debian_root.run_check("machine", lambda: within(given.minutes, lambda: check(given)))


def within(minutes: float, run: Callable[[], object]) -> None:
    """Raises UnavailableError after these minutes: a busy machine is no fault of what is tried."""

    def stop(*_: object) -> None:
        raise UnavailableError(f"the trial did not end within {minutes:g} minutes")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 60 * minutes)
    try:
        run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def check(given: argparse.Namespace) -> None:
    """Raises FailedError if the trial fails, UnavailableError if it cannot run here."""
    trial, suite, arch, began = given.trial, given.suite, ARCHES[given.arch], time.monotonic()
    boots = trial not in WITHOUT_BOOT
    needed = (arch.program, "qemu-img", "mkfs.ext4") if boots else ()
    if missing := [each for each in needed if not shutil.which(each)]:
        raise UnavailableError(f"this machine has no {', '.join(missing)}: apt-get install qemu-system qemu-utils")
    if given.cached and not (debian_root.cache() / (f"{suite}-{given.arch}" if boots else suite)).exists():
        raise UnavailableError(f"no root of {suite} was made here yet: make machine TRIAL={trial}")
    script = ",".join((f"{trial}.sh", *given.words))
    run = boot(find_disk(suite, given.arch, trial, given.kernel), script, arch) if boots else enter(suite, trial)
    held = judge(run)
    took = f"after {time.monotonic() - began:.0f} s"
    print(f"machine: {held} expectations of the trial {trial} hold on {suite}, {given.arch}, {took}")


def find_disk(suite: str, name: str, trial: str, kernel: str) -> Path:
    """The directory with a disk that has HEAD, and with its kernel; made once for HEAD."""
    arch, besides, wheels = ARCHES[name], BESIDES.get(trial, ()), FROM_PYPI.get(trial, ())
    disk = "-".join(("disk", suite, name, *besides, *wheels[:1], *filter(None, [kernel])))
    trees = ("HEAD:exporter", "HEAD:deploy", "HEAD:tests")[: 2 + bool(wheels)]
    commits = subprocess.check_output(["git", "-c", "safe.directory=*", "rev-parse", *trees], cwd=ROOT)
    key = hashlib.sha256(commits).hexdigest()[:12]
    place = debian_root.cache() / f"{disk}-{key}"
    if place.exists():
        return place
    for old in place.parent.glob(f"{disk}-{'?' * len(key)}"):
        shutil.rmtree(old)
    with debian_root.copied(suite, debian_root.cache(), (*BOOT, arch.kernel, *USED), name) as root:
        debian_root.copy_source(root)
        with machine(root) as inside:
            try:
                install(root, arch, wheels)
            except CommandError:
                update(inside)
                raise
            with contextlib.suppress(CommandError):  # a foreign Python may not run
                inside.run("python3", "-m", "compileall", "-q", "/opt/uwsgi-headroom")
            if kernel:
                besides = (*besides, f"{arch.kernel}/{kernel}")
                sources = root / "etc/apt/sources.list"
                sources.write_text(sources.read_text() + sources.read_text().replace(suite, kernel))
                commands.run_command(["find", root / "boot", "-type", "f", "-delete"])
            if besides:
                update(inside)
                quiet = ("-qq", "-y", "--allow-downgrades")
                inside.run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *quiet, "install", *besides)
        units = root / "etc/systemd/system"
        (units / "trial.service").write_text(UNIT.replace("ENDED", ENDED))
        (units / "graphical.target.wants").mkdir()
        (units / "graphical.target.wants/trial.service").symlink_to("../trial.service")
        (units / f"serial-getty@{arch.console}.service").symlink_to("/dev/null")
        (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n")
        (root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
        part = place.with_name(f"{disk}-incomplete--")  # as long as a key: goes with the old ones
        shutil.copytree(root / "boot", part)
        with show_step("making the disk"):
            commands.run_command(["qemu-img", "create", "-q", part / "disk.img", f"{_DISK_MB}M"])
            commands.run_command(["mkfs.ext4", "-q", "-d", root, part / "disk.img"])
    part.rename(place)
    return place


def install(root: Path, arch: Arch, wheels: Sequence[str]) -> None:
    """Makes a virtual environment with the source of a root, with this machine's pip: no program of the root runs."""
    own, platform = Environment(debian_root.cache() / "pip"), arch.program.removeprefix("qemu-system-")
    own.ensure()
    (library,) = root.glob("usr/lib/python3.*")
    environment = root / "opt/uwsgi-headroom"
    site = environment / "lib" / library.name / "site-packages"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").symlink_to("/usr/bin/python3")
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
    options = ["-q", "--disable-pip-version-check", "--only-binary=:all:", f"--python-version={library.name[6:]}"]
    options += [f"--platform={oldest}_{platform}" for oldest in ("manylinux_2_28", "manylinux2014")]
    with show_step("pip install of HEAD"):
        commands.run_command(
            [own.program("python"), "-m", "pip", "install", *options, "--target", site, root / "srv/source", *wheels]
        )
    program = shutil.move(site / "bin/uwsgi-headroom", environment / "bin/uwsgi-headroom")
    commands.run_command(["sed", "-i", "1s,.*,#!/opt/uwsgi-headroom/bin/python,", program])


def boot(place: Path, script: str, arch: Arch) -> Iterator[str]:
    """The lines of the serial console, until the machine is off."""
    commands.run_command(["tar", "-c", "-C", TRIALS, "-f", place / "trials.tar", "."])
    image, ram = next(place.glob("vmlinuz-*")), next(place.glob("initrd.img-*"))
    options = f"root=/dev/vda rw console={arch.console} quiet no_timer_check mitigations=off kpti=off"
    options += f" systemd.show_status=false trial={script}"  # mitigations are slow here
    fixed = ["-icount", "shift=2,sleep=off", "-smp", "1", "-nographic", "-nodefaults", "-serial", "stdio", "-snapshot"]
    command = ["nice", "-n", "5", arch.program, *arch.options, *fixed, "-m", str(_MEMORY_MB)]
    command += ["-kernel", str(image), "-initrd", str(ram), "-append", options]
    for disk in ("disk.img", "trials.tar"):
        command += ["-drive", f"file={place}/{disk},if=virtio,format=raw,cache=unsafe"]
    return _read(command)


def enter(suite: str, trial: str) -> Iterator[str]:
    """The lines of a trial in a root of a suite: as root, in namespaces of its own."""
    with debian_root.copied(suite, debian_root.cache()) as root, machine(root) as inside:
        debian_root.copy_source(root)
        clone = ["git", "clone", "--quiet", "--bare", "--depth=1", "--upload-pack=git -c safe.directory=* upload-pack"]
        commands.run_command([*clone, f"file://{ROOT}", root / "srv/source.git"])
        inside.run("chown", "--recursive", debian_root.USER, "/srv/source.git")
        update(inside)
        if (ROOT / "dist").is_dir():
            shutil.copytree(ROOT / "dist", root / "srv/dist")
        yield from _read(inside.command(["bash", f"/srv/source/tools/machine/trials/{trial}.sh"]))
        yield ENDED


def update(inside: debian_root.Machine) -> None:
    """Raises UnavailableError if apt reaches no archive: no trial fails by that."""
    try:
        inside.run("apt-get", "-qq", "-o", "APT::Update::Error-Mode=any", "update")
    except CommandError as error:
        raise UnavailableError(f"no packages can be fetched: {error.last_line}") from error


def _read(command: list[str]) -> Iterator[str]:
    """The lines that a command prints, until it ends; or the iterator, and with it the command."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ran:
        try:
            for line in ran.stdout or ():
                yield _CONTROLS.sub("", line.decode(errors="replace")).rstrip()
        finally:
            ran.kill()


_CONTROLS = re.compile(r"\x1b\[[0-9;?!]*[A-Za-z]|[\r\x07]|\x1b\][^\x07]*\x07|\x1bc")


def judge(lines: Iterable[str]) -> int:
    """Prints what a trial says; returns how many expectations hold. Raises FailedError if one does not, or if the trial
    did not end."""
    held, failed, ended = 0, [], False
    try:
        for line in lines:
            print(f"  {line}", flush=True)
            held += line.startswith("ok - ")
            failed += [line] if line.startswith("not ok - ") else []
            ended |= line.startswith(ENDED)
    finally:  # also if its time is over before its end
        expect(not failed, "\n".join(failed))
    expect(ended and held, "the trial did not end")
    return held


if __name__ == "__main__":
    sys.exit(main())
