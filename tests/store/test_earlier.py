"""A file of version 1.0.0 is read, and converted while the exporter writes to it; an unreleased one is refused."""

import gzip
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.store.test_codec import full_record
from tests.store.test_database import NOON, minute, opened
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.response_times.bins import EARLIER_BOUNDS
from uwsgi_headroom.store import database as database_module
from uwsgi_headroom.store.file import HistoryFile, open_to_write, refuse_foreign
from uwsgi_headroom.store.record import DAY, TIERS, Record

ROWS = 19
"""Of each server of the files: 17 minutes, a quarter and an hour of 15."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.sqlite"


def unpack(name: str, path: Path) -> bytes:
    """Write a file as the program of that time did; its bytes."""
    content = gzip.decompress(Path(__file__).with_name(f"{name}.sqlite.gz").read_bytes())
    path.write_bytes(content)
    return content


def read_all(path: Path) -> list[Record]:
    with HistoryFile(path, NOON + DAY) as file:
        records = [record for tier in TIERS for record in file.records("shop", 0, NOON + DAY, tier.seconds)]
        assert file.damaged == 0
        assert [event.time for event in file.events("shop", 0, NOON + DAY)] == [NOON + 300]
    return records


def test_a_file_of_version_1_0_0(path):
    """Each minute is as it was written, in the bins of now; a request stays on its side of each bound of that time."""
    unpack("version_1", path)
    first, *_, hour = read_all(path)
    record = full_record()
    assert first.window == replace(record.window, until=NOON + 60.0)
    assert (first.levels, first.routes) == (record.levels, record.routes)
    assert hour.window.seconds == 900
    for times, parts in ((first.response_times, 1), (hour.response_times, 15)):
        assert times.bins.edges == record.response_times.bins.edges
        below = [sum(times.counts[: times.bins.find(bound) + 1]) for bound in EARLIER_BOUNDS]
        assert below == pytest.approx([113.75 * parts if bound > 0.01 else 0 for bound in EARLIER_BOUNDS])


def test_it_is_converted_once(path, monkeypatch):
    """A part with each write, while all is read as before; then its texts are gone. What is damaged stays as it is."""
    unpack("version_1", path)
    monkeypatch.setattr(database_module, "_CONVERTED", 5)
    before = read_all(path)
    database = opened(path)
    for _ in range(6):
        database.write([], NOON + 1020.0)
        assert read_all(path) == before
    assert database._execute("SELECT count(*) FROM records WHERE substr(data, 1, 1) = x'02'") == [(0,)]
    assert database._execute("SELECT name FROM sqlite_master WHERE name = 'texts'") == []
    database._execute("UPDATE records SET data = x'02ff' WHERE tier = 60 AND slot = ?", NOON // 60 + 3)
    database.write([minute(18, route="GET /")], NOON + 1080.0)
    with HistoryFile(path, NOON + DAY) as file:
        ends = [(record.until - NOON) / 60 for record in file.records("shop", 0, NOON + DAY, 60)]
        assert (ends, file.damaged) == ([1, 2, *range(4, 19)], 1)


def test_a_file_that_was_never_released(path):
    """It is refused with a sentence that says what to do, and stays as it is."""
    content = unpack("unreleased", path)
    for use in (open_to_write, refuse_foreign, lambda path: HistoryFile(path, NOON)):
        with pytest.raises(
            HistoryFileError, match=r"was not released; move it away, and the exporter begins a new one"
        ):
            use(path)
    assert path.read_bytes() == content
