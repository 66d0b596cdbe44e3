"""Finds the systemd unit of a process by its cgroup: `/system.slice/uwsgi.service` is `uwsgi.service`."""

from __future__ import annotations

import re
from pathlib import Path

from uwsgi_headroom.kernel import procfs

_UNIT = re.compile(r"^[0-9]+:(?:name=systemd)?:.*/([\w@.\\:-]+\.service)(?:/|$)", re.MULTILINE | re.ASCII)


def find_systemd_unit(pid: int, root: Path = Path("/")) -> str | None:
    """The innermost service of a process; None if the process is in no service, has ended, or is hidden.

    See systemd.unit(5) and cgroups(7). `root` is the parent directory of `/proc`.
    """
    try:
        found = _UNIT.search(procfs.read_text(root, f"proc/{pid}/cgroup"))
    except (OSError, ValueError):
        return None
    return found[1] if found else None
