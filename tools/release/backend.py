"""Builds the project with setuptools, after it has written the manual pages that setup.cfg installs.

What an earlier build left in build/lib would be packed too, also modules that are no longer there: it is removed.

pip and `build` run it in an environment that has only setuptools: the command line needs no other package.
"""

import runpy
import shutil
import sys
from pathlib import Path

from setuptools.build_meta import *  # type: ignore[import-untyped,unused-ignore]  # noqa: F403  (the hooks of PEP 517)

ROOT = Path(__file__).resolve().parents[2]
shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
sys.path.insert(0, str(ROOT / "exporter"))
runpy.run_path(str(ROOT / "tools" / "man_pages.py"), run_name="__main__")
