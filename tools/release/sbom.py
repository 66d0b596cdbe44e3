"""Writes the list of everything that packages bundle, with licences and dependencies: CycloneDX, as JSON."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

from tools import commands
from tools.environments import Environment
from tools.release import bundle
from tools.release.source import Source

PYTHON = "3.13"


def build_sbom(source: Source, wheel: Path, tools: Environment, target: Path) -> Path:
    """Writes the bill of materials into `target`; returns its path.

    cyclonedx-bom lists what is installed for a Python, so the wheels are unpacked into an environment without pip.
    """
    environment = source.scratch / "sbom"
    commands.run_command([tools.program("python"), "-m", "venv", "--without-pip", environment])
    (modules,) = environment.glob("lib/python*/site-packages")
    downloads = source.scratch / "sbom-wheels"
    downloads.mkdir()
    others = bundle.download_wheels(tools, source.root / bundle.LOCK, PYTHON, "amd64", downloads)
    for archive in (wheel, *others):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(modules)
    made = target / f"uwsgi-headroom-{source.version}.cdx.json"
    words = ["environment", "--output-reproducible", "--mc-type", "application", "--of", "JSON", "--sv", "1.6"]
    where = ["--pyproject", str(_described(source)), "-o", str(made), str(environment)]
    commands.run_command([tools.program("cyclonedx-py"), *words, *where])
    shutil.rmtree(environment)
    os.utime(made, (source.epoch, source.epoch))
    return made


def _described(source: Source) -> Path:
    """Writes a pyproject.toml with the name and version, which setup.cfg has and cyclonedx-bom does not read."""
    path = source.scratch / "pyproject.toml"
    path.write_text(f'[project]\nname = "uwsgi-headroom"\nversion = "{source.version}"\n')
    return path
