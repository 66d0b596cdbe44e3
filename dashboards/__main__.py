"""`python3 -m dashboards`: writes the dashboards, or with `--check` lists those that differ from the generated ones.

With your own thresholds, which you must give to `python3 -m alerts` too:
`python3 -m dashboards --set uneven_ratio=2 --out /var/lib/grafana/dashboards`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dashboards import files
from tools import generated_files

OUT = Path(__file__).parent / "out"


def main(argv: list[str] | None = None) -> int:
    """Writes or checks the dashboards."""
    return generated_files.write_or_check("dashboards", __doc__, OUT, files.render, argv)


if __name__ == "__main__":
    sys.exit(main())
