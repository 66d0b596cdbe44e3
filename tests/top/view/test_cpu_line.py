"""The line about CPU in use, in the terminal."""

from __future__ import annotations

import pytest

from tools.support.scripted_watch import ScriptedWatch
from tools.support.simulated_server import Server
from uwsgi_headroom.top.view.pages import finding_lines


@pytest.mark.parametrize(
    ("idle", "line"), [(0.25, "CPUs in use: 0.00 by the workers, 1.75 by others; 0.25 idle."), (None, None)]
)
def test_cpu_in_use(idle: float | None, line: str | None) -> None:
    """One line has the three parts; there is none if the kernel does not report them."""
    watch = ScriptedWatch().seconds(Server(idle=idle, others=1.75), 5)
    text = [str(part) for part in finding_lines(watch.document(), 100, 0.0)]
    assert [part for part in text if part.startswith("CPUs in use")] == ([line] if line else [])
