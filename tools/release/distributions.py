"""Builds the wheel and the source distribution, and checks both."""

from __future__ import annotations

import os
from pathlib import Path

from tools import commands
from tools.environments import Environment
from tools.release.archives import rewrite_tar_gz
from tools.release.source import Source


def build_distributions(source: Source, tools: Environment, target: Path) -> list[Path]:
    """Writes the wheel and the sdist into `target`; returns their paths. Raises `CommandError` if a check fails.

    setuptools gives the wheel's files the time SOURCE_DATE_EPOCH, but not the sdist's, which is therefore packed again.
    """
    python = str(tools.program("python"))
    build = [python, "-m", "build", "--no-isolation", "--outdir", str(target), str(source.root)]
    # The umask of the build becomes the permissions of the files that setuptools writes.
    plain = ["sh", "-c", 'umask 022 && exec "$@"', "sh"]
    commands.run_command([*plain, "env", f"SOURCE_DATE_EPOCH={source.epoch}", "PYTHONDONTWRITEBYTECODE=1", *build])
    name = f"uwsgi_headroom-{source.version}"
    wheel, sdist = target / f"{name}-py3-none-any.whl", target / f"{name}.tar.gz"
    rewrite_tar_gz(sdist, source.epoch, source.scratch / "sdist")
    for path in (wheel, sdist):
        os.utime(path, (source.epoch, source.epoch))
    commands.run_command([python, "-m", "twine", "check", "--strict", wheel, sdist])
    commands.run_command([tools.program("check-wheel-contents"), wheel])
    return [wheel, sdist]
