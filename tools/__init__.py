"""Development tools: environments, generated files, benchmarks and whole-project checks; never installed."""

import app  # noqa: F401  # refuses a Python that is too old, with a clear message
