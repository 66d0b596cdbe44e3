"""Lets other users reach the programs of a root whose home is closed, in a mount namespace of this command alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_INSIDE = "HEADROOM_RIGHTS_INSIDE"


def enter_own_namespace(arguments: Sequence[str]) -> None:
    """Start this command again in a mount namespace of its own, unless it runs in one; the caller's mounts stay."""
    if os.environ.get(_INSIDE):
        return
    command = ["unshare", "--mount", sys.executable, "-m", "tools.rights", *arguments]
    os.execvpe(command[0], command, {**os.environ, _INSIDE: "1"})


def open_ways(paths: Sequence[Path]) -> None:
    """Mount an open directory over each closed one on the way to these paths, with nothing in it but the paths."""
    for closed in dict.fromkeys(filter(None, map(_closed_parent, paths))):
        below = [path for path in paths if path.is_relative_to(closed)]
        stage = Path(tempfile.mkdtemp(prefix="headroom-rights-"))
        for number, path in enumerate(below):
            (stage / str(number)).mkdir()
            _mount("--bind", str(path), str(stage / str(number)))
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(closed))
        for number, path in enumerate(below):
            path.mkdir(parents=True, exist_ok=True)
            _mount("--move", str(stage / str(number)), str(path))
            (stage / str(number)).rmdir()
        stage.rmdir()


def _closed_parent(path: Path) -> Path | None:
    """The uppermost directory on the way to a path that other users may not pass."""
    return next((parent for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001), None)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
