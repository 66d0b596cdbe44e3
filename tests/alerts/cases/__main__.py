"""`python3 -m tests.alerts.cases`: write the test files that are made from cases."""

from __future__ import annotations

from tests.alerts.cases.files import made

if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text)
