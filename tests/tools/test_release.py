"""What a release packs: archives, the chart, Debian's package, and what their metadata says."""

import configparser
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from email.utils import formatdate
from importlib.metadata import requires
from pathlib import Path

import pytest
import yaml

from tools.environments import ROOT, SetupError
from tools.release import bundle, deb, distributions
from tools.release.__main__ import add_checksum
from tools.release.bundle import EXTRAS, HEADER, LOCK, MACHINES, PYTHONS
from tools.release.source import MODULE, Source, rewrite_tar_gz, sign, version_of, write_tar_gz
from tools.release.try_standalone import total
from uwsgi_headroom import __version__
from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.config import precedence

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def folder(path: Path, mode: int, time: int) -> Path:
    for name in ("b/program", "a.txt"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(name)
        (path / name).chmod(mode | (0o100 if name == "b/program" else 0))
        os.utime(path / name, (time, time))
    return path


def test_an_archive_depends_on_contents_alone(tmp_path):
    """Other times, permissions of the umask and places give the same bytes; another content does not."""
    first, second = tmp_path / "first.tar.gz", tmp_path / "deep" / "second.tar.gz"
    second.parent.mkdir()
    write_tar_gz(folder(tmp_path / "one", 0o644, 1), "top", 1000, first)
    write_tar_gz(folder(tmp_path / "deep/two", 0o600, 2), "top", 1000, second)
    assert first.read_bytes() == second.read_bytes()
    (tmp_path / "one/a.txt").write_text("else")
    write_tar_gz(tmp_path / "one", "top", 1000, second)
    assert first.read_bytes() != second.read_bytes()


def test_an_archive_has_sorted_names_one_time_and_no_users(tmp_path):
    """What `tar -tv` shows is the same everywhere."""
    made = tmp_path / "made.tar.gz"
    write_tar_gz(folder(tmp_path / "one", 0o600, 1), "top", 1000, made)
    rewrite_tar_gz(made, 2000, tmp_path / "scratch")
    with tarfile.open(made) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == ["top/a.txt", "top/b", "top/b/program"]
    assert {(member.mtime, member.uid, member.uname) for member in members} == {(2000, 0, "")}
    assert [oct(member.mode) for member in members] == ["0o644", "0o755", "0o755"]


def chart_source(tmp_path: Path, version: str) -> Source:
    root = tmp_path / "source"
    folder = root / distributions.CHART
    (folder / "ci").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(f'name: uwsgi-headroom\nversion: {version}\nappVersion: "1.2.3"\n')
    (folder / ".helmignore").write_text("# tests\nci/\n*.orig\n")
    (folder / "ci/values.yaml").write_text("")
    (folder / "values.yaml").write_text("")
    module = root / "exporter/uwsgi_headroom/__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text('__version__ = "1.2.3"\n')
    return Source(root, 1000, "0" * 40, tmp_path)


def test_the_publisher_is_one_variable(tmp_path, monkeypatch):
    """A release has the contact and the addresses; without the variable, a commit stays as it is."""
    paths = [Path(name) for name in ("README.md", "SECURITY.md", "setup.cfg", MODULE, "deploy/debian/debian/control")]
    paths.append(distributions.CHART / "Chart.yaml")
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, tmp_path / path)
    source, url = Source(tmp_path, 1000, "0" * 40, tmp_path), "https://git.example.org/headroom"
    monkeypatch.delenv("PUBLISHER", raising=False)
    sign(source)
    assert [(tmp_path / path).read_text() for path in paths] == [(ROOT / path).read_text() for path in paths]
    monkeypatch.setenv("PUBLISHER", f"Jane Doe <jane@example.org> {url}/")
    sign(source)
    texts = [(tmp_path / path).read_text() for path in paths]
    assert f"]({url}/blob/v{__version__}/docs/start.md)" in texts[0]
    assert f"name = uwsgi-headroom\nurl = {url}\nversion" in texts[2]
    assert f"\nHomepage: {url}\n\nPackage" in texts[4]
    assert yaml.safe_load(texts[5])["home"] == url
    assert "Write to jane@example.org, not" in texts[1]
    assert f"]({url}/raw/v{__version__}/app/pictures/page.png)" in texts[0]
    assert set(re.findall(r"\]\((\w+:|.)", texts[0])) == {"https:"}
    assert f"Jane Doe <jane@example.org>  {formatdate(0)}" in deb.changelog("2.0.0", 0)
    monkeypatch.setenv("PUBLISHER", "jane@example.org")
    with pytest.raises(SetupError, match="PUBLISHER is not NAME"):
        sign(source)


def test_the_chart_is_packed_without_what_helm_ignores(tmp_path):
    """Its name is its directory, as Helm demands."""
    with pytest.raises(SetupError, match=r"version is 1\.2\.2, not 1\.2\.3"):
        distributions.build_chart(chart_source(tmp_path / "other", "1.2.2"), tmp_path)
    with pytest.raises(SetupError, match="templates/x"):
        distributions.ignored("templates/x\n")
    made = distributions.build_chart(chart_source(tmp_path, "1.2.3"), tmp_path)
    assert made.name == "uwsgi-headroom-1.2.3.tgz"
    with tarfile.open(made) as tar:
        assert {member.name for member in tar if member.isfile()} == {
            f"uwsgi-headroom/{name}" for name in (".helmignore", "Chart.yaml", "values.yaml")
        }


def test_a_packed_chart_has_copies(tmp_path):
    """What a link of the chart leads to is in the archive as files; a link that leads nowhere is refused."""
    source = chart_source(tmp_path, "1.2.3")
    (source.root / "rules").mkdir()
    (source.root / "rules/a.yaml").write_text("groups: []\n")
    link = source.root / distributions.CHART / "files"
    link.symlink_to("../../../rules")
    with tarfile.open(distributions.build_chart(source, tmp_path)) as tar:
        assert tar.getmember("uwsgi-headroom/files/a.yaml").isfile()
        assert tar.getmember("uwsgi-headroom/files").isdir()
    link.unlink()
    link.symlink_to("../../nowhere")
    with pytest.raises(SetupError, match=r"uwsgi-headroom/files: there is no \.\./\.\./nowhere"):
        distributions.lay_out(source.root, tmp_path / "other")


def test_checksums_are_those_of_sha256sum(tmp_path):
    """One line for each file, sorted by name; that of a later file is added, and the last one counts."""
    sums = tmp_path / "SHA256SUMS"
    for name, text in (("b", "1"), ("c", "2"), ("a", "3"), ("b", "4")):
        (tmp_path / name).write_text(text)
        add_checksum(sums, tmp_path / name)
    last = {"a": b"3", "b": b"4", "c": b"2"}
    assert sums.read_text() == "".join(f"{hashlib.sha256(last[name]).hexdigest()}  {name}\n" for name in "abc")


def commands(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    lines = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    return [command.strip() for line in lines for command in re.split(r"&&|\n", line)]


def test_workflows_and_pages_name_what_there_is():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    found = [command for workflow in WORKFLOWS for command in commands(workflow)]
    made = {command.split()[1] for command in found if command.startswith("make ")}
    assert {"release", "release-twice"} <= made <= targets
    scripts = {command.split()[1] for command in found if command.startswith("bash ")}
    assert ".ci/run" in scripts
    modules = {name.replace(".", "/") + ".py" for name in re.findall(r"python3 -m ([\w.]+)", " ".join(found))}
    assert [path for path in scripts | modules if not (ROOT / path).is_file()] == []
    for name in ("debian", "standalone", "systemd"):
        chapters = re.findall(r"^## (.+)$", (ROOT / "deploy" / name / "README.md").read_text(), re.MULTILINE)
        wanted = ["Prerequisites", "Installation", "Customization", "Verification"]
        assert [chapter for chapter in chapters if chapter in wanted] == wanted


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_only_read(workflow):
    """The token of a workflow reads; a job that writes says so itself. Actions are pinned, no secret is named."""
    text = workflow.read_text()
    document = yaml.safe_load(text)
    assert document["permissions"] == {"contents": "read"}
    writers = [name for name, job in document["jobs"].items() if "permissions" in job]
    assert writers == (["draft"] if workflow.name == "release.yml" else [])
    assert "secrets." not in text
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|[0-9a-f]{40})", used) for used in re.findall(r"uses: (\S+)", text))


DEBIAN = ROOT / "deploy/debian/debian"
UNIT = (ROOT / "deploy/systemd/uwsgi-headroom.service").read_text()


def test_the_package_fits_its_unit():
    """Its program and its configuration are those of the unit, and valid. Only a purge deletes the history."""
    (command,) = re.findall(r"^ExecStart=(.+)$", deb.unit_for_package(UNIT), re.MULTILINE)
    words = command.split()
    assert words[0] == "/usr/bin/uwsgi-headroom"
    assert words[words.index("--config") + 1] == "/etc/uwsgi-headroom/uwsgi-headroom.yml"
    options = make_command_line().parse(["serve", "--config", str(DEBIAN / "uwsgi-headroom.yml")])
    config = precedence.resolve_config(options)
    assert [str(host) for host, _ in config.listen] == ["127.0.0.1"]
    assert [server.pattern for server in config.servers] == ["/run/uwsgi/app/*/stats", "/run/uwsgi/*.stats"]
    script = (DEBIAN / "uwsgi-headroom.postrm").read_text()
    purge = script[script.index('if [ "$1" = purge ]') : script.index("fi\n")]
    assert script.count("rm -rf") == purge.count("rm -rf") == 2
    assert total('a_total{x="1"} 2\na_total{x="2"} 3\na_totals 5\nb 1\n', "a_total") == 5


@pytest.mark.parametrize(
    "unit",
    [
        "[Service]\nExecStart=/usr/local/bin/uwsgi-headroom\n",
        UNIT.replace("/opt/uwsgi-headroom/bin/", "/opt/else/bin/"),
    ],
)
def test_a_unit_with_another_command_is_refused(unit):
    with pytest.raises(SetupError):
        deb.unit_for_package(unit)


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_maintainer_scripts_are_shell_that_stops_at_errors(name):
    """Each script parses, stops at the first error, and leaves debhelper a place for its parts."""
    script = DEBIAN / f"uwsgi-headroom.{name}"
    lines = script.read_text().splitlines()
    assert lines[:2] == ["#!/bin/sh", "set -e"]
    assert "#DEBHELPER#" in lines
    subprocess.run(["sh", "-n", script], check=True)


@pytest.mark.skipif(not shutil.which("dpkg-parsechangelog"), reason="needs dpkg-dev: apt-get install dpkg-dev")
def test_the_changelog_is_one_that_dpkg_reads(tmp_path):
    """dpkg finds the version and the time of the commit."""
    path = tmp_path / "changelog"
    path.write_text(deb.changelog("1.2.3", 86400))
    fields = ["-SVersion", "-STimestamp"]
    said = [subprocess.check_output(["dpkg-parsechangelog", "-l", path, field], text=True) for field in fields]
    assert said == ["1.2.3\n", "86400\n"]


def test_platforms_are_those_of_old_enough_systems():
    """pip gets no platform with a newer glibc than the package promises, newest first."""
    names = bundle.platforms("arm64")
    assert names[0] == f"manylinux_2_{bundle.GLIBC}_aarch64"
    assert "manylinux2014_aarch64" in names
    control = (DEBIAN / "control").read_text()
    assert f"libc6 (>= 2.{bundle.GLIBC})" in control
    with pytest.raises(SetupError, match="riscv64"):
        bundle.platforms("riscv64")


def wheel(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return path


def test_wheels_of_two_pythons_stand_side_by_side(tmp_path):
    """Different files of one name are refused."""
    for python in ("311", "312"):
        made = wheel(
            tmp_path / f"{python}.whl", **{f"p__c.{python}.so": python, "p__a.py": "", "p.dist-info__WHEEL": python}
        )
        bundle.unpack_wheel(made, tmp_path / "tree")
    assert sorted(path.name for path in (tmp_path / "tree").rglob("*.*") if path.is_file()) == [
        "a.py",
        "c.311.so",
        "c.312.so",
    ]
    bundle.unpack_wheel(wheel(tmp_path / "one.whl", **{"p__a.py": "1"}), tmp_path / "one")
    with pytest.raises(SetupError, match=re.escape("p/a.py")):
        bundle.unpack_wheel(wheel(tmp_path / "two.whl", **{"p__a.py": "2"}), tmp_path / "one")


CONTROL = (DEBIAN / "control").read_text()
_PIN = re.compile(r"^([a-z0-9-]+)==(\S+) \\$", re.MULTILINE)


def setup() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_what_metadata_says():
    """Versions, pins within ranges, licences, and what Debian depends on."""
    assert version_of((ROOT / "exporter/uwsgi_headroom/__init__.py").read_text()) == __version__
    assert int(__version__.split(".")[0]) >= 1
    assert not setup().has_option("metadata", "project_urls")
    assert not setup().has_option("metadata", "url")
    extras = {found[1] for line in requires("uwsgi-headroom") or [] if (found := re.search(r'extra == "(\w+)"', line))}
    assert "top" in extras
    assert "://" not in (ROOT / LOCK).read_text()
    pins = dict(_PIN.findall((ROOT / LOCK).read_text()))
    for line in setup().get("options", "install_requires").splitlines():
        if found := re.match(r"([\w-]+) >= ([\d.]+), < ([\d.]+)$", line):
            name, low, high = found.groups()
            assert numbers(low) <= numbers(pins[name.lower()]) < numbers(high), name
    text = (DEBIAN / "copyright").read_text().lower().replace("_", "-")
    assert [name for name in dict(_PIN.findall((ROOT / LOCK).read_text())) if name not in text] == []
    low, high = PYTHONS[0], PYTHONS[-1].split(".")
    assert f"python3 (>= {low}), python3 (<< 3.{int(high[1]) + 1})" in CONTROL
    assert f"Architecture: {' '.join(MACHINES)}\n" in CONTROL
    unit = (ROOT / "deploy/systemd/uwsgi-headroom.service").read_text()
    assert ("ExecReload=/bin/kill " in unit) == ("\nRecommends: procps\n" in CONTROL)


def test_everything_that_the_exporter_requires_is_bundled():
    """The lock file pins each requirement of setup.cfg and of the bundled extras, each with hashes."""
    lock = (ROOT / LOCK).read_text()
    pins = dict(_PIN.findall(lock))
    needed = setup().get("options", "install_requires").splitlines()
    for extra in EXTRAS:
        needed += setup().get("options.extras_require", extra, fallback="").splitlines()
    names = {re.split(r"[ <>=]", line)[0].lower() for line in needed if line and not line.startswith("#")}
    assert names <= set(pins)
    assert lock.startswith(HEADER)
    assert all(block.count("--hash=sha256:") >= 1 for block in re.split(_PIN, lock)[3::3])


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
