"""`python3 -m alerts`: writes the rule files, or with `--check` lists those that differ from the generated ones.

With your own thresholds: `python3 -m alerts --set uneven_ratio=2 --out /etc/prometheus/rules`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from alerts import files
from tools import generated_files

RULES = Path(__file__).parent / "rules"


def main(argv: list[str] | None = None) -> int:
    """Writes or checks the rule files."""
    return generated_files.write_or_check("alerts", __doc__, RULES, files.render, argv)


if __name__ == "__main__":
    sys.exit(main())
