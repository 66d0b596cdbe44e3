"""What `make lint` and `make test` need before they can begin."""

from __future__ import annotations

import sys

from app import environments, promtool
from app.commands import CommandError
from app.environments import SetupError

EXTRAS = "demo,lint,test"


def main(argv: list[str]) -> str | None:
    """Prepare for `lint` (project and tools) or `test` (uWSGI and promtool, too); returns what is missing."""
    try:
        project = environments.project(EXTRAS)
        if argv == ["test"]:
            environments.uwsgi_for_tests()
            if not promtool.ensure(project.path / "bin"):
                print(
                    "  promtool is missing, so the tests of the alert rules are skipped.\n"
                    "  On Debian and Ubuntu: apt-get install --no-install-recommends prometheus"
                )
    except (SetupError, CommandError) as error:
        return f"\nmake {argv[0]}: {error}"
    except KeyboardInterrupt:
        return "\nstopped"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
