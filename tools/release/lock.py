"""`make lock`: writes deploy/requirements.txt, the versions that packages bundle, with the hashes of their wheels."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tools import commands
from tools.commands import CommandError
from tools.environments import ROOT, SetupError
from tools.progress import show_step
from tools.release.bundle import LOCK, PYTHONS
from tools.release.environment import release_tools

EXTRAS = ("top", "login")
HEADER = (
    f"# The versions that packages bundle: the requirements of setup.cfg with the extras {' and '.join(EXTRAS)}, for "
    f"Python {PYTHONS[0]} and\n# newer. Written by `make lock`: do not edit.\n"
)


def main() -> str | None:
    """Writes the lock file; returns a message about what is missing."""
    lowest = tuple(map(int, PYTHONS[0].split(".")))
    if sys.version_info[:2] != lowest:
        return f"make lock: run it with Python {PYTHONS[0]} (PYTHON=python{PYTHONS[0]}), the lowest of the packages"
    try:
        tools = release_tools()
        with tempfile.TemporaryDirectory(prefix="headroom-lock-") as scratch, show_step("choosing versions"):
            made = Path(scratch) / "requirements.txt"
            extras = [f"--extra={extra}" for extra in EXTRAS]
            # Nothing of this machine's index goes into the file.
            silent = ["--no-header", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host"]
            pinned = ["--generate-hashes", "--strip-extras", "--quiet", *silent, "--no-emit-options", *extras]
            compile_command = [str(tools.program("pip-compile")), *pinned, "--output-file", str(made), "setup.cfg"]
            commands.run_command(compile_command, cwd=ROOT)
            (ROOT / LOCK).write_text(HEADER + made.read_text())
    except (SetupError, CommandError) as error:
        return f"\nmake lock: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main())
