"""Creates .venv-release, the environment with the tools of a release."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tools.environments import ROOT, Environment
from tools.progress import show_step

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def release_tools(root: Path = ROOT) -> Environment:
    """Returns the environment; installs it again when the list of tools has changed."""
    environment = Environment(root / ".venv-release")
    environment.ensure()
    of = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if not environment.holds("release", of):
        with show_step("installing the tools of a release"):
            environment.install("release", of, ["--requirement", str(REQUIREMENTS)], cwd=root)
    return environment
