"""Checks of the project as a whole, run by hand and by continuous integration; nothing here is installed."""

import app  # noqa: F401  # refuses a Python that is too old, in words
