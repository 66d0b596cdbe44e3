"""The recommended ini file: the chosen setting, and every other line as it was."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tune.test_ini import NAMES, VALUES, write
from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.tune.application.ini import TUNED, edit_ini, make_diff, read_ini
from uwsgi_headroom.tune.application.variant import Variant

SHOP = """\
[uwsgi]
; how many
workers=4
  threads  =  8
module = a
[other]
processes = 1
"""


def edit(directory: Path, text: str, chosen: Variant) -> str:
    return edit_ini(read_ini(write(directory, text), cpus=2, environment={}), chosen)


def test_values_are_replaced_where_they_are(tmp_path: Path) -> None:
    """With the spelling and the spaces of the line."""
    after = edit(tmp_path, SHOP, Variant(Setting(8, 2)))
    assert after == SHOP.replace("workers=4", "workers=8").replace("threads  =  8", "threads  =  2")


def test_options_are_added_beside_the_setting(tmp_path: Path) -> None:
    """In the section that uWSGI reads."""
    after = edit(tmp_path, SHOP, Variant(Setting(4, 8), thunder_lock=True, listen=1024))
    assert after == SHOP.replace("threads  =  8\n", "threads  =  8\nlisten = 1024\nthunder-lock = true\n")


def test_options_are_removed(tmp_path: Path) -> None:
    """All lines of them."""
    text = "[uwsgi]\nthunder-lock\nprocesses = 4\ncheaper = 2\nthunder-lock = 1\n"
    assert edit(tmp_path, text, Variant(Setting(4, 1))) == "[uwsgi]\nprocesses = 4\n"


def test_an_option_of_an_included_file_is_overridden(tmp_path: Path) -> None:
    """The included file may belong to other servers as well."""
    base = write(tmp_path, "[uwsgi]\nthunder-lock = true\nprocesses = 4\n", "base.ini")
    after = edit(tmp_path, f"[uwsgi]\nini = {base}\n", Variant(Setting(2, 1)))
    assert after == f"[uwsgi]\nini = {base}\nprocesses = 2\nthunder-lock = false\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "module = a"])
def test_the_diff_can_be_applied(tmp_path: Path, ending: str, last: str) -> None:
    """With and without a line break at the end, and with those of Windows."""
    before = ending.join(["[uwsgi]", "processes = 4", "threads = 8", last])
    after = edit(tmp_path, before, Variant(Setting(8, 2), thunder_lock=True))
    diff = make_diff(before, after, tmp_path / "shop.ini")
    command = ["git", "apply", "--whitespace=nowarn"]
    done = subprocess.run(command, cwd=tmp_path, input=diff.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "shop.ini").read_bytes() == after.encode()


SETTINGS = st.builds(Setting, st.integers(1, 64), st.integers(1, 64))
VARIANTS = st.builds(Variant, SETTINGS, thunder_lock=st.booleans(), listen=st.none() | st.integers(101, 4096))


@settings(max_examples=60)
@given(st.lists(st.tuples(NAMES | st.sampled_from(["processes", "workers", "threads"]), VALUES), max_size=8), VARIANTS)
def test_only_the_setting_changes(
    tmp_path_factory: pytest.TempPathFactory, options: list[tuple[str, str]], chosen: Variant
) -> None:
    """The edited file has the chosen setting, and all its other lines, in their order."""
    lines = [f"{name} = {'3' if name in TUNED else value}" for name, value in options]
    text = "\n".join(["; before", "[uwsgi]", "module = a", *lines, "[other]", "threads = 5", ""])
    path = write(tmp_path_factory.getbasetemp(), text)
    ini = read_ini(path, cpus=2, environment={})
    after = edit_ini(ini, chosen)
    assert read_ini(path, cpus=2, environment={}, text=after).present == chosen
    others = [line for line in text.split("\n") if line.split(" = ")[0] not in TUNED]
    assert [line for line in after.split("\n") if line.split(" = ")[0] not in TUNED] == others
