"""All rows by theme, each with an expectation that was written before its first run. A twin with a name is a row."""

from tools.scenarios.rows import complaints, coroutines, queues, threads, waits, way_in, workers
from tools.scenarios.scenario import Scenario, Twin

_THEMES = (threads, coroutines, queues, workers, waits, complaints, way_in)

ROWS: tuple[Scenario, ...] = tuple(
    each
    for theme in _THEMES
    for row in theme.ROWS
    for each in (row, row.healthy() if isinstance(row.twin, Twin) and row.twin.name else None)
    if each
)

assert len({row.name for row in ROWS}) == len(ROWS), "two rows have the same name"


def find_twin(row: Scenario) -> Scenario | None:
    """The healthy twin of a sick row; None for a healthy one, or if there is none."""
    return next(each for each in ROWS if each.name == row.twin) if isinstance(row.twin, str) else row.healthy()


def find_rows(names: list[str]) -> list[Scenario]:
    """The rows whose name contains one of the texts, or all for no text. Raises LookupError for a text in no name."""
    for name in names:
        if not any(name.lower() in row.name.lower() for row in ROWS):
            raise LookupError(f"no scenario has {name!r} in its name")
    return [row for row in ROWS if not names or any(name.lower() in row.name.lower() for name in names)]
