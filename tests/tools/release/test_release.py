"""Archives, the chart, checksums: the same bytes for the same contents. Workflows call what there is."""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
from pathlib import Path

import pytest
import yaml

from tools.environments import SetupError
from tools.release import distributions
from tools.release.__main__ import add_checksum, checksums
from tools.release.source import Source, rewrite_tar_gz, write_tar_gz

ROOT = Path(__file__).resolve().parents[3]
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


def test_the_chart_is_packed_without_what_helm_ignores(tmp_path):
    """Its name is its directory, as Helm demands. A chart of another version is refused, and so is a path in
    .helmignore."""
    with pytest.raises(SetupError, match=r"version is 1\.2\.2, not 1\.2\.3"):
        distributions.build_chart(chart_source(tmp_path, "1.2.2"), tmp_path)
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
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    expected = "".join(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in "ab")
    assert checksums([tmp_path / "b", tmp_path / "a"]) == expected
    sums = tmp_path / "SHA256SUMS"
    for name, text in (("b", "1"), ("c", "2"), ("a", "3"), ("b", "4")):
        (tmp_path / name).write_text(text)
        add_checksum(sums, tmp_path / name)
    assert sums.read_text() == checksums([tmp_path / name for name in "abc"])


def commands(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    lines = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    return [command.strip() for line in lines for command in re.split(r"&&|\n", line)]


def test_workflows_call_what_there_is():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    found = [command for workflow in WORKFLOWS for command in commands(workflow)]
    made = {command.split()[1] for command in found if command.startswith("make ")}
    assert {"release", "release-twice"} <= made <= targets
    scripts = {command.split()[1] for command in found if command.startswith("bash ")}
    assert ".ci/run" in scripts
    modules = {name.replace(".", "/") + ".py" for name in re.findall(r"python3 -m ([\w.]+)", " ".join(found))}
    assert [path for path in scripts | modules if not (ROOT / path).is_file()] == []


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


def test_each_way_has_the_four_chapters():
    """The README of each folder in deploy/ that this page of installation names has them, in this order."""
    for name in ("debian", "standalone", "systemd"):
        chapters = re.findall(r"^## (.+)$", (ROOT / "deploy" / name / "README.md").read_text(), re.MULTILINE)
        wanted = ["Prerequisites", "Installation", "Customization", "Verification"]
        assert [chapter for chapter in chapters if chapter in wanted] == wanted
