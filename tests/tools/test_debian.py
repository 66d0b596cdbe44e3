"""Debian's packages and roots, or why there are none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import commands, debian, debian_root
from tools.commands import CommandError
from tools.debian_root import Machine, UnavailableError, archive, unavailable
from tools.environments import SetupError

# Both stand-ins only copy: a package is a directory with its programs.
APT_GET = """\
#!/bin/sh
echo "$@" >> {notes}
for package; do :; done
[ "$package" = update ] && exit 0
[ -d {archive}/"$package" ] || { echo "E: Unable to locate package $package"; exit 100; }
echo {archive}/"$package" > "$package"_1_all.deb
"""
DPKG_DEB = """\
#!/bin/sh
read package < "$2"
/bin/mkdir -p "$3"/usr/share
/bin/cp -R "$package"/bin "$3"/usr
/bin/cp -R "$package"/share "$3"/usr/share/prometheus
"""

# Programs like Debian's: a server that listens on the given address after reading its data from the compiled-in path,
# and a tool that takes a file to check.
SERVER = f"""\
#!{sys.executable} -IS
import http.server, re, sys
print(open("/usr/share/prometheus/DATA").read())
(port,) = re.findall(r"--web.listen-address=127.0.0.1:(\\d+)", " ".join(sys.argv)) or sys.exit()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
"""
TOOL = """\
#!/bin/sh
case "$1" in check*) exit ;; esac
exit 2
"""


BIN = "venv/bin"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with only apt, whose archive is a folder; the directory to unpack into is `venv/bin`."""
    for name in ("path", "archive", "venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    apt_get = APT_GET.replace("{notes}", str(tmp_path / "notes")).replace("{archive}", str(tmp_path / "archive"))
    program(tmp_path / "path" / "apt-get", apt_get)
    program(tmp_path / "path" / "dpkg-deb", DPKG_DEB)
    package(tmp_path, "prometheus", "web/alerts.html", prometheus=SERVER, promtool=TOOL)
    templates = {"prometheus-alertmanager": SERVER, "amtool": TOOL}
    package(tmp_path, "prometheus-alertmanager", "alertmanager/default.tmpl", **templates)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    return tmp_path


def package(machine: Path, name: str, data: str, **programs: str) -> None:
    folder = machine / "archive" / name
    for each, text in programs.items():
        program(folder / "bin" / each, text.replace("DATA", data))
    (folder / "share" / data).parent.mkdir(parents=True)
    (folder / "share" / data).write_text(f"the data of {name}")


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def unpacked(machine: Path) -> set[str]:
    return {path.name for path in (machine / BIN).iterdir()}


def asked(machine: Path) -> list[str]:
    notes = machine / "notes"
    return [line.split("Timeout=5 ")[-1] for line in notes.read_text().splitlines()] if notes.exists() else []


def test_programs_of_the_machine_are_used(machine):
    """Programs under upstream's and Debian's names are used, and apt is not called."""
    for name in ("prometheus", "promtool", "alertmanager", "amtool"):
        program(machine / "path" / name)
    debian.ensure_programs(machine / BIN)
    assert debian.find_program("alertmanager", machine / BIN) == machine / "path" / "alertmanager"
    (machine / "path" / "alertmanager").rename(machine / "path" / "prometheus-alertmanager")
    debian.ensure_programs(machine / BIN)
    assert debian.find_program("alertmanager", machine / BIN) == machine / "path" / "prometheus-alertmanager"
    assert asked(machine) == []
    assert unpacked(machine) == set()


def test_what_is_missing_is_unpacked_once(machine):
    """Nothing is installed, and programs that the machine has are not unpacked."""
    program(machine / "path" / "promtool")
    assert debian.missing_programs(machine / BIN) == ["prometheus", "alertmanager", "amtool"]
    debian.ensure_programs(machine / BIN)
    debian.ensure_programs(machine / BIN)
    assert asked(machine) == ["download prometheus", "download prometheus-alertmanager"]
    assert unpacked(machine) == {"prometheus", "prometheus-alertmanager", "amtool"}
    assert debian.missing_programs(machine / BIN) == []
    assert debian.find_program("alertmanager", machine / BIN) == machine / BIN / "prometheus-alertmanager"


def test_package_that_apt_does_not_have_is_named(machine):
    (machine / "archive" / "prometheus-alertmanager").rename(machine / "gone")
    with pytest.raises(SetupError) as error:
        debian.ensure_programs(machine / BIN)
    lines = str(error.value).splitlines()
    assert lines[0].startswith("this machine lacks alertmanager, amtool, ")
    assert lines[0].endswith("E: Unable to locate package prometheus-alertmanager")
    assert lines[1].endswith("apt-get install --no-install-recommends prometheus-alertmanager")


def test_root_fetches_the_lists_of_packages_of_a_fresh_container(machine, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (machine / "archive" / "prometheus").rename(machine / "gone")
    with pytest.raises(SetupError):
        debian.ensure_programs(machine / BIN, ["prometheus"])
    assert asked(machine) == ["download prometheus", "update", "download prometheus"]


def test_unpacked_program_has_its_data_anywhere(machine):
    """Unpacked programs find their data without an installation: Alertmanager its templates, Prometheus its pages."""
    debian.ensure_programs(machine / BIN)
    (machine / "archive").rename(machine / "gone")
    for name, data in (("alertmanager", "prometheus-alertmanager"), ("prometheus", "prometheus")):
        place = debian.find_program(name, machine / BIN)
        ran = subprocess.run([place, "show"], cwd="/", capture_output=True, text=True, check=True)
        assert ran.stdout == f"the data of {data}\n"


def test_promtool_may_be_in_a_package_of_its_own(machine):
    (machine / "archive" / "prometheus" / "bin" / "promtool").unlink()
    package(machine, "promtool", "none", promtool=TOOL)
    debian.ensure_programs(machine / BIN, ["prometheus", "promtool"])
    assert unpacked(machine) == {"prometheus", "promtool"}
    assert asked(machine) == ["download prometheus", "download promtool"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("promtool", "#!/bin/sh\necho libc.so.6 is too old; exit 127\n", "libc.so.6 is too old"),
        ("prometheus", '#!/bin/sh\n[ "$1" = --version ] || exit 1\n', "prometheus ended (status 1) without output"),
        ("prometheus", SERVER.replace("DATA", "not-packed"), "prometheus ended (status 1). Its log ends with:"),
    ],
    ids=["no library", "only its version", "no data"],
)
def test_program_that_does_not_work_here_is_missing(machine, name, text, reason):
    program(machine / "archive" / "prometheus" / "bin" / name, text)
    with pytest.raises(SetupError) as error:
        debian.ensure_programs(machine / BIN, [name])
    assert str(error.value).splitlines()[0] == f"this machine lacks {name}, and cannot unpack Debian's: {reason}"
    assert unpacked(machine) == set()


def test_machine_without_apt_is_told_what_is_missing(machine, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SetupError) as error:
        debian.ensure_programs(machine / BIN)
    assert "this machine lacks prometheus, promtool, alertmanager, amtool, " in str(error.value)
    assert "apt-get install --no-install-recommends prometheus prometheus-alertmanager\n" in str(error.value)
    assert "https://prometheus.io/download/" in str(error.value)


DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n'
MINT = 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_CODENAME="wilma"\n'
FEDORA = "ID=fedora\nVERSION_ID=41\n"

TARGETS = """\
Other|nodistro|main|https://packages.example.org/
Debian|bookworm-security|main|http://one.example.org/debian-security/
Debian|bookworm-updates|main|http://one.example.org/debian/
Debian|bookworm|main|http://one.example.org/debian/
Debian|bookworm|contrib|http://one.example.org/debian/
Debian|trixie|main|http://two.example.org/debian/
"""


@pytest.fixture
def able(monkeypatch):
    """Simulates a machine that has everything needed."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(commands, "run_command", lambda command, cwd=None: None)


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("os_release", [DEBIAN, MINT, "ID=ubuntu\n"])
def test_debian_ubuntu_and_what_is_like_them_can(os_release):
    assert unavailable(os_release) is None


@pytest.mark.usefixtures("able")
def test_why_a_root_cannot_be_made(monkeypatch):
    assert unavailable(FEDORA) == "this machine is neither Debian nor Ubuntu"
    assert unavailable("") == "this machine is neither Debian nor Ubuntu"

    def refuse(command, cwd=None):
        raise CommandError(" ".join(command), "unshare: unshare failed: Operation not permitted\n")

    monkeypatch.setattr(commands, "run_command", refuse)
    assert unavailable(DEBIAN) == "namespaces are refused: unshare: unshare failed: Operation not permitted"
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("git", "nsenter") else name)
    assert unavailable(DEBIAN) == "this machine has no git, nsenter"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root" in (unavailable(DEBIAN) or "")


def test_the_archive_is_that_of_the_machine():
    assert archive(TARGETS, "bookworm") == ("http://one.example.org/debian/", ["contrib", "main"])
    assert archive(TARGETS, "trixie") == ("http://two.example.org/debian/", ["main"])
    assert archive(TARGETS, "forky")[0] == "http://one.example.org/debian/"


@pytest.mark.parametrize("targets", ["", "Other|nodistro|main|https://packages.example.org/\n", "E: what?\n"])
def test_without_an_archive_it_says_so(targets):
    """The error covers a machine with other archives only, and unreadable output of apt."""
    with pytest.raises(UnavailableError, match="apt knows no archive"):
        archive(targets, "bookworm")


@pytest.mark.usefixtures("able")
def test_a_root_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    """debootstrap's last line is the reason, and no incomplete root is left behind."""

    def run(command, cwd=None):
        if "debootstrap" in command:
            command[-2].mkdir()
            raise CommandError("debootstrap", "I: Retrieving\nE: Failed getting release file\n")

    monkeypatch.setattr(commands, "run_command", run)
    monkeypatch.setattr(debian_root, "targets", lambda: TARGETS)
    with (
        pytest.raises(UnavailableError, match="no root of bookworm can be made: E: Failed getting release file"),
        debian_root.copied("bookworm", tmp_path),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("able")
def test_a_copy_is_removed_whatever_happens(tmp_path, monkeypatch):
    """A copy left by a killed run is removed, too; that of a running check, and the root itself, stay."""
    (tmp_path / "bookworm").mkdir()
    ended, going = tmp_path / "copy-4194305", tmp_path / "copy-1"  # the first is larger than any pid
    ended.mkdir()
    going.mkdir()
    monkeypatch.setattr(commands, "run_command", lambda command, cwd=None: command[-1].mkdir())
    monkeypatch.setattr(debian_root, "_connect", lambda copy: None)

    def interrupted():
        with debian_root.copied("bookworm", tmp_path) as copy:
            assert copy.is_dir()
            assert not ended.exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bookworm", "copy-1"]


def test_a_copy_gets_the_ways_into_the_network(tmp_path, monkeypatch):
    """A copy gets pip's configuration and apt's proxy, and no other setting of apt."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "own.pem"))
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "own.pem").write_text("certificate\n")
    (tmp_path / "home/.config/pip").mkdir(parents=True)
    (tmp_path / "home/.config/pip/pip.conf").write_text("[global]\n")
    (tmp_path / "apt-config").write_text(
        "#!/bin/sh\necho 'APT::Sandbox \"x\";'\necho 'Acquire::http::Proxy \"http://proxy.example.org\";'\n"
        "echo 'Acquire::IndexTargets \"\";'\n"
    )
    (tmp_path / "apt-config").chmod(0o755)
    copy = tmp_path / "copy"
    (copy / "etc/apt/apt.conf.d").mkdir(parents=True)
    debian_root._connect(copy)
    assert (copy / "etc/xdg/pip/pip.conf").read_text() == "[global]\n"
    assert (copy / "etc/apt/apt.conf.d/99machine").read_text() == 'Acquire::http::Proxy "http://proxy.example.org";\n'
    assert (copy / str(tmp_path / "own.pem").lstrip("/")).read_text() == "certificate\n"


def test_a_command_gets_a_clean_environment_and_the_ways_into_the_network(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.example.org")
    monkeypatch.setenv("PIP_INDEX_URL", "http://index.example.org")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    bare = Machine(Path("/root-of-it"), SimpleNamespace(pid=7))
    words = bare.command(["make", "demo"])
    assert words[-2:] == ["make", "demo"]
    assert {"https_proxy=http://proxy.example.org", "PIP_INDEX_URL=http://index.example.org"} <= set(words)
    assert {"/root-of-it", "HOME=/root"} <= set(words)
    assert not any("PYTHONPATH" in word for word in words)
