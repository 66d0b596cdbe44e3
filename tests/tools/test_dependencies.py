"""The ranges in setup.cfg, and what docs/how-to-add.md says was tested of them; without a network."""

from __future__ import annotations

from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest

from tools.dependencies.environments import LIMITS, SUBSET, lowest_packages, newest_packages
from tools.dependencies.ranges import Dependency, numbers, read_dependencies
from tools.dependencies.table import WHY, read_rows, render
from tools.environments import ROOT

DEPENDENCIES = read_dependencies()
BY_NAME = {each.name: each for each in DEPENDENCIES}


def test_the_table_is_about_the_ranges_of_setup_cfg() -> None:
    """A row for each dependency, with its range; the lowest version is what was tested, and the newest is allowed."""
    rows = read_rows()
    assert rows.keys() == BY_NAME.keys()
    for name, (use, allowed, lowest, newest, licence, why) in rows.items():
        each = BY_NAME[name]
        assert use == (f"`[{each.extra}]`" if each.extra else "all")
        assert allowed == each.range
        assert numbers(lowest) == numbers(each.lowest)
        assert each.allows(newest)
        assert licence
        assert why == WHY[name]


def test_pinned_to_the_minor_version_that_was_tested() -> None:
    """starlette changes what it sends in minor versions: its range ends behind the newest one that was tested."""
    rows = read_rows()
    tested, below = (
        [int(number) for number in version.split(".")[:2]]
        for version in (rows["starlette"][3], BY_NAME["starlette"].below)
    )
    assert below == [tested[0], tested[1] + 1]


def test_what_is_installed_here_is_allowed() -> None:
    """And the table's licence is that of the metadata, for what is installed."""
    found = {name: metadata.version(name) for name in BY_NAME if is_installed(name)}
    assert "starlette" in found
    assert {name: version for name, version in found.items() if not BY_NAME[name].allows(version)} == {}


def is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def test_tests_exist() -> None:
    """Those that the command runs."""
    assert [path for path in (*SUBSET, *chain.from_iterable(LIMITS.values())) if not (ROOT / path).exists()] == []


def test_ranges(tmp_path: Path) -> None:
    """Two ends each, of installation and extras; anything else is a mistake."""
    path = tmp_path / "setup.cfg"
    path.write_text(
        "[options]\ninstall_requires =\n    # a comment\n    one >= 1.2, < 2\n"
        "[options.extras_require]\nreport =\n    Two>=0.37,<1.11\ntest =\n    three\n"
    )
    one, two = read_dependencies(path)
    assert (one, two) == (Dependency("one", "", "1.2", "2"), Dependency("Two", "report", "0.37", "1.11"))
    assert [one.allows(version) for version in ("1.1", "1.2", "1.2.0", "1.99.1", "2", "2.0.0")] == [0, 1, 1, 1, 0, 0]
    assert [two.allows(version) for version in ("0.37.0", "1.2", "1.10.0", "1.11.0")] == [1, 1, 1, 0]
    assert lowest_packages([one])[0] == "one==1.2"
    assert newest_packages([one])[0] == "one>=1.2,<2"
    row = render([one], {"one": "1.2.0"}, {"one": ("1.9", "MIT")}) if WHY.setdefault("one", "why") else ""
    del WHY["one"]
    assert "| one | all | ≥ 1.2, < 2 | 1.2.0 | 1.9 | MIT | why |\n" in row
    for line in ("one", "one >= 1", "one < 2", "one == 1.2", "one >= 1, < 2; python_version < '3'"):
        path.write_text(f"[options]\ninstall_requires =\n    {line}\n[options.extras_require]\n")
        with pytest.raises(ValueError, match="is not a range"):
            read_dependencies(path)
