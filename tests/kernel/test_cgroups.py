"""The cgroups of a process: from trees of `/proc` and `/sys` (see fixtures/README.md)."""

from pathlib import Path

import pytest

from uwsgi_headroom.kernel.cgroups import Cgroups, find_cgroups

FIXTURES = Path(__file__).with_name("fixtures")


@pytest.mark.parametrize(
    ("tree", "version", "folders"),
    [
        ("v1_quota", 1, ["cpu", "cpu/site", "cpu/site/app", "cpu/site/app/worker"]),
        ("v1_container", 1, ["cpu"]),
        ("v2_quota", 2, ["", "web.slice", "web.slice/app.service", "web.slice/app.service/workers"]),
        ("v2_host_mount", 2, ["", "app"]),
    ],
)
def test_levels(tree: str, version: int, folders: list[str]) -> None:
    """The levels go from the root of the mount down to the process's own cgroup."""
    cgroups = find_cgroups(4242, "cpu", FIXTURES / tree)
    top = FIXTURES / tree / "sys/fs/cgroup"
    assert (cgroups.version, [Path(folder) for folder in cgroups.folders]) == (
        version,
        [top / name for name in folders],
    )


def test_each_controller_has_its_own_version() -> None:
    """On a hybrid host a controller that version 1 lacks belongs to version 2."""
    cgroups = find_cgroups(4242, "hugetlb", FIXTURES / "hybrid_quota")
    assert cgroups.version == 2
    assert all("unified" in folder for folder in cgroups.folders)


@pytest.mark.parametrize("tree", ["v1_neighbour", "v2_neighbour"])
def test_neighbouring_container(tree: str) -> None:
    """A cgroup that is not mounted here is an error, which is different from a process without cgroups."""
    with pytest.raises(FileNotFoundError, match="not mounted here"):
        find_cgroups(4242, "cpu", FIXTURES / tree)


def test_no_cgroups(tmp_path: Path) -> None:
    """A kernel without the controller has no levels."""
    (tmp_path / "proc/4242").mkdir(parents=True)
    (tmp_path / "proc/4242/cgroup").write_text("3:pids:/\n")
    assert find_cgroups(4242, "cpu", tmp_path) == Cgroups(0)
