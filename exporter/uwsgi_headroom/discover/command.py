"""Runs `discover`."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from uwsgi_headroom.discover.find import FoundMaster, find_masters
from uwsgi_headroom.discover.launch import Launch, read_launch
from uwsgi_headroom.discover.report import render_report
from uwsgi_headroom.discover.steps import Plan, find_reader, plan, plan_reader
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.terminal_text import print_lines


def run(user: str | None = None) -> int:
    """Print the uWSGI masters on this machine, with steps for those without a stats server. user: that runs the
    exporter. Returns the exit status: 1 if no master has a stats server. Raises HeadroomError for an unknown user."""
    try:
        reader = find_reader(user)
    except KeyError:
        raise HeadroomError(f"this machine has no user {user!r}") from None
    masters = asyncio.run(find_masters())
    launches = {pid: read_launch(master) for pid, master in {master.pid: master for master in masters}.items()}
    masters = [_with_whole_path(master, launches.get(master.pid)) for master in masters]
    # Also those that have stats: at their next reload, they would take the socket of a line in a file that they share.
    files = Counter(launch.identity for launch in launches.values() if launch)

    def plan_for(master: FoundMaster, name: str) -> Plan:
        if master.address:
            return plan_reader(master, reader)
        launch = launches[master.pid]
        if launch is None:
            return Plan(why_none="it has ended, or this user may not see how it was started")
        return plan(launch, name, reader, alike=files[launch.identity] if launch.identity else 1)

    print_lines(render_report(masters, plan_for))
    return 0 if any(master.address for master in masters) else 1


def _with_whole_path(master: FoundMaster, launch: Launch | None) -> FoundMaster:
    """Name the configuration file by its whole path, whose directory may name the application."""
    return replace(master, configuration=str(launch.file)) if launch and launch.file else master
