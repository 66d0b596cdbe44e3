"""`python3 -m alerts`: write the rule files, or with `--check` say which of the written ones have drifted.

Other thresholds, other files: `python3 -m alerts --set uneven_ratio=2 --out /etc/prometheus/rules`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from alerts import files
from tools import generated_files

RULES = Path(__file__).parent / "rules"


def main(argv: list[str] | None = None) -> int:
    """Write or check the rule files."""
    return generated_files.write_or_check("alerts", __doc__, RULES, files.render, argv)


if __name__ == "__main__":
    sys.exit(main())
