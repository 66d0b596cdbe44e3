"""How often a CPU quota stops a server: from `cpu.stat` files that these tests write."""

from pathlib import Path

import pytest

from uwsgi_headroom.kernel.cgroups import Cgroups, name_levels
from uwsgi_headroom.kernel.cpus import Counts, GroupQuota, ThrottleCounts, Throttling, UsableCpus, read_counts
from uwsgi_headroom.record import Quota

V2 = "usage_usec 900\nuser_usec 500\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}\nnr_bursts 0\n"
V1 = "nr_periods {}\nnr_throttled {}\nthrottled_time {}\n"


class Group:
    """A cgroup with a quota, whose counts the test sets."""

    def __init__(self, path: Path, name: str, cpus: float) -> None:
        self.path, self.quota = path, GroupQuota(cpus, None, str(path), name)

    def count(self, periods: int, throttled: int, microseconds: int) -> None:
        self.path.write_text(V2.format(periods, throttled, microseconds))


def cpus(*groups: Group) -> UsableCpus:
    quotas = tuple(group.quota for group in groups)
    return UsableCpus(min(quota.cpus for quota in quotas), "quota", 8, 4, None, quotas)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (V2.format(100, 43, 1_500_000), Counts(100, 43, 1.5)),
        (V1.format(100, 43, 1_500_000_000), Counts(100, 43, 1.5)),
        ("usage_usec 900\n", None),  # the cpu controller is not enabled there
        ("nr_periods many\nnr_throttled 1\nthrottled_usec 1\n", None),
        ("", None),
    ],
)
def test_both_versions_are_read(tmp_path: Path, text: str, counts: Counts | None) -> None:
    """Version 2 counts microseconds and version 1 nanoseconds; a file without counts says nothing."""
    (tmp_path / "cpu.stat").write_text(text)
    assert read_counts(str(tmp_path / "cpu.stat")) == counts
    assert read_counts(str(tmp_path / "gone")) is None


def test_the_level_that_throttles_most_is_named(tmp_path: Path) -> None:
    """Growth is that of one level, since the first reading, and so is the quota, though another one is tighter."""
    pod, container = Group(tmp_path / "pod", "/pod", 2.0), Group(tmp_path / "container", "/pod/app", 1.0)
    pod.count(1000, 500, 7_000_000)
    container.count(10, 0, 0)
    counts = ThrottleCounts()
    assert counts.read(cpus(pod, container)) == Throttling(Quota("/pod/app", 1.0, 4))
    pod.count(1050, 520, 8_500_000)
    container.count(40, 1, 1000)
    assert counts.read(cpus(pod, container)) == Throttling(Quota("/pod", 2.0, 4), 50, 20, 1.5)
    container.count(60, 1, 1000)
    assert counts.read(cpus(pod, container)) == Throttling(Quota("/pod", 2.0, 4), 70, 20, 1.5), "it throttled last"


def test_a_cgroup_that_was_made_anew_adds_nothing(tmp_path: Path) -> None:
    """Its counts begin at 0 again: totals never decrease."""
    group, counts = Group(tmp_path / "stat", "/app", 1.0), ThrottleCounts()
    group.count(100, 50, 100)
    counts.read(cpus(group))
    group.count(3, 1, 100)
    assert counts.read(cpus(group)) == Throttling(Quota("/app", 1.0, 4))
    group.count(5, 2, 1_000_100)
    assert counts.read(cpus(group)) == Throttling(Quota("/app", 1.0, 4), 2, 1, 1.0)


def test_without_a_quota_or_its_counts_nothing_is_known(tmp_path: Path) -> None:
    """No quota, or a kernel without counts, is not the same as a quota that never stops anybody."""
    counts = ThrottleCounts()
    assert counts.read(UsableCpus(4, "host", 8, 4, None)) is None
    assert counts.read(cpus(Group(tmp_path / "gone", "/app", 1.0))) is None


def test_levels_have_the_names_of_the_kernel() -> None:
    """The top of a mount may be the root or any cgroup: a container sees its own as `/`."""
    assert name_levels(Cgroups(2, ("/cg", "/cg/a", "/cg/a/b"), "/a/b")) == ["/", "/a", "/a/b"]
    assert name_levels(Cgroups(2, ("/cg", "/cg/b"), "/a/b")) == ["/a", "/a/b"]
    assert name_levels(Cgroups(1, ("/cg",), "/")) == ["/"]
