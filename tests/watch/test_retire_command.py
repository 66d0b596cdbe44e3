"""`uwsgi-headroom retire` beside an exporter that writes: a name that its history does not know is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.test_database import opened
from tests.support import stored_days
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.store.record import Minute
from uwsgi_headroom.store.retired import read_retired
from uwsgi_headroom.watch.retire_command import run


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Path]:
    """A history file of the server `shop`, to which a writer has a connection."""
    path = tmp_path / "history.sqlite"
    stored_days.write(path, "shop", time.time() - 600, days=0.02)
    database = opened(path)
    database.write([Minute("other", int(time.time()) // 60, None, [])], time.time())
    assert Path(f"{path}-wal").exists()
    yield path
    database.close()


def test_a_server_of_the_history_is_retired(written: Path) -> None:
    """It needs no --force."""
    assert run(["shop"], str(written), None, force=False) == 0
    assert set(read_retired(written)) == {"shop"}


@pytest.mark.parametrize(("name", "hint"), [("shp", "did you mean 'shop'?"), ("zzz", "add --force for those")])
def test_a_name_that_the_history_does_not_know_is_refused(written: Path, name: str, hint: str) -> None:
    """None of the names is noted then, so that the command can be repeated; with --force all are."""
    with pytest.raises(HeadroomError, match=f"has no server '{name}'") as refused:
        run(["shop", name], str(written), None, force=False)
    assert hint in str(refused.value)
    assert set(read_retired(written)) == set()
    assert run(["shop", name], str(written), None, force=True) == 0
    assert set(read_retired(written)) == {"shop", name}
