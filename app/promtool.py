"""promtool, which tests the alert rules: the one of the machine, or Debian's, unpacked beside the project.

The package is unpacked and not installed: that needs no root, and starts no Prometheus on the machine.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from app import commands
from app.commands import CommandError
from app.progress import step


def ensure(directory: Path) -> bool:
    """Whether `promtool` is on PATH or in `directory`; it is put there if apt can have it."""
    if shutil.which("promtool") or (directory / "promtool").is_file():
        return True
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return False
    try:
        with step("unpacking promtool from Debian's prometheus"), tempfile.TemporaryDirectory() as name:
            temporary = Path(name)
            commands.run(["apt-get", "download", "prometheus"], cwd=temporary)
            package = next(temporary.glob("prometheus_*.deb"))
            commands.run(["dpkg-deb", "--extract", package, temporary])
            shutil.copy2(temporary / "usr" / "bin" / "promtool", directory / "promtool")
    except (CommandError, OSError, StopIteration):
        return False
    return True
