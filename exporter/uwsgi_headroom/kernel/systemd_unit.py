"""The systemd unit of a process, by its cgroup: `/system.slice/uwsgi.service` is `uwsgi.service`."""

from __future__ import annotations

import re
from pathlib import Path

from uwsgi_headroom.kernel import procfs

_UNIT = re.compile(r"^[0-9]+:(?:name=systemd)?:.*/([\w@.\\:-]+\.service)(?:/|$)", re.MULTILINE | re.ASCII)


def find_systemd_unit(pid: int, root: Path = Path("/")) -> str | None:
    """The innermost service that a process is in; None where it is in none, has ended, or is not visible here.

    See systemd.unit(5) and cgroups(7); `root` is where `/proc` is.
    """
    try:
        found = _UNIT.search(procfs.read_text(root, f"proc/{pid}/cgroup"))
    except (OSError, ValueError):
        return None
    return found[1] if found else None
