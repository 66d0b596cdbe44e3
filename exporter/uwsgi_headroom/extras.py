"""What to type to add the packages of an extra, in the way in which this program was installed.

No index has this package, so the advice names the packages that are missing and never the extra. The Debian package,
the one-file program and the image have `top` and `login`; what else is missing there cannot be added to them.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

REQUIREMENTS = {
    "rich": "rich>=13.7,<16",
    "bcrypt": "bcrypt>=3.2,<6",
}
"""The modules of the extras, and their requirements in setup.cfg."""

DEBIAN = Path("/usr/lib/uwsgi-headroom")
"""Where the Debian package has its modules, for each of its versions of Python (deploy/debian)."""

CONTAINER = Path("/opt/uwsgi-headroom/healthcheck.py")
"""A file that only the image has (deploy/container/Containerfile)."""

ELSEWHERE = "which cannot be added to {}; install uwsgi-headroom into a virtual environment (docs/installation.md)"


def describe_missing(modules: Iterable[str]) -> str:
    """Return what is missing and what to type, such as `rich: pipx inject uwsgi-headroom 'rich>=13.7,<16'`."""
    names = list(modules)
    packages = shlex.join(REQUIREMENTS[name] for name in names)
    return f"{', '.join(names)}{_advise(packages)}"


def _advise(packages: str) -> str:
    if getattr(sys, "frozen", False):
        return f", {ELSEWHERE.format('this one-file program')}"
    if CONTAINER.exists() and Path(sys.prefix) == CONTAINER.parent:
        return f", {ELSEWHERE.format('this image')}"
    if Path(__file__).parents[1] == DEBIAN:
        # Debian's python3 takes no packages of pip's (PEP 668), and Debian 12 has too old ones. The modules of the
        # package run in an environment of the same Python, so no clone is needed.
        return (
            f": python3 -m venv ~/headroom && ~/headroom/bin/pip install {packages}, then run "
            f"PYTHONPATH={DEBIAN} ~/headroom/bin/python -m uwsgi_headroom instead of uwsgi-headroom"
        )
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        return f": pipx inject {shlex.quote(Path(sys.prefix).name)} {packages}"
    return f": {shlex.quote(sys.executable)} -m pip install {packages}"
