"""The demo application with its Fibonacci module compiled by Cython. The import fails if it is not compiled."""

from __future__ import annotations

import sys

import compiled_fibonacci  # type: ignore[import-not-found]

if not compiled_fibonacci.__file__.endswith(".so"):
    raise ImportError(f"{compiled_fibonacci.__file__} is not compiled")
sys.modules["app.fibonacci"] = compiled_fibonacci  # before app.api imports it

from app import api  # noqa: E402

if vars(api)["fibonacci"] is not compiled_fibonacci:
    raise ImportError("app.api uses another module")
application = api.app
