"""A record survives its bytes, and bytes that are not a record are refused."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import windows
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.window import RouteWindow, WorkerWindow
from uwsgi_headroom.response_times.bins import EARLIER_BOUNDS, Bins
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store import codec
from uwsgi_headroom.store.codec import CHECKSUM_BYTES, decode_numbers, decode_record, encode_numbers, encode_record
from uwsgi_headroom.store.record import Levels, Record, merge_records


class Texts:
    """Numbers texts, as the table of the file does."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)

    def by_number(self) -> dict[int, str]:
        return dict(enumerate(self.texts))


SLO = Slo(1.0, 0.99)


def full_record(slo: Slo | None = SLO) -> Record:
    """A record in which everything is known."""
    workers = [
        WorkerWindow(
            worker_id=number,
            requests=number * 1000,
            static_requests=3,
            running_time=12.3456,
            busy_seconds=12.5,
            up_seconds=60.0,
            cpu_seconds=None if number == 2 else 3.25,
            respawns=1,
            lost=0,
            resident_bytes=123_456_789,
            resident_growth=-4096,
            interpreter_lock_seconds=0.0,
        )
        for number in (1, 2)
    ]
    window = windows.window(
        60.0, *workers, cpu=(1.5, 0.25, None), waits={"cpu": 0.5, "sleep": 3.0}, backends={"db": 1.0}, socket=2.5
    )
    bins = Bins((slo.threshold,) if slo else ())
    counts = [0.0] * len(bins)
    counts[20:23] = [10.25, 100.5, 3.0]
    return Record(
        until=60.0,
        window=window,
        response_times=ResponseTimeWindow(bins, 0.2, 114, counts, [each / 10 for each in counts]),
        routes=RouteWindow(60.0, {"GET /": 12.0, "other": 1.5}),
        levels=Levels(2.0, 10**10, 5 * 10**7, True, False, slo),
    )


@given(st.lists(st.integers(-(2**70), 2**70)))
def test_numbers(numbers: list[int]) -> None:
    """Any whole numbers survive."""
    assert decode_numbers(encode_numbers(numbers)) == numbers


@pytest.mark.parametrize("slo", [None, Slo(1.0, 0.99), Slo(0.037, 0.95)])
def test_a_record_survives(slo: Slo | None) -> None:
    """Everything is as before, to a tenth of a millisecond and a hundredth of a request."""
    record, texts = full_record(slo), Texts()
    again = decode_record(encode_record(record, texts.number), texts.by_number())
    assert again.window == record.window
    assert again.levels == record.levels
    assert again.routes == record.routes
    assert record.response_times
    assert again.response_times
    assert again.response_times.requests == 114
    assert again.response_times.counts == pytest.approx(record.response_times.counts, abs=0.006)
    assert again.response_times.doubt == pytest.approx(record.response_times.doubt, abs=0.006)
    assert again.response_times.bins.edges == record.response_times.bins.edges


EARLIER = bytes.fromhex(
    "04809f49c2b8028290dfc04a82c2d72f0402a29c01e0ec78809f49809f49809f4900000000000400000000000000000000000000000002"
    "00d08603020000829f49c0ee6de0a71200829f49000402c0cf240480dddb010206809f490402d00f060200809f4982890f92a10feafb03"
    "02acb4de75ff3f04a01f060200809f4982890f92a10f0002acb4de75ff3fe601a01fb80228068210849d01d804cc018e0e9d0f829f4904"
    "0880d30e0ab0ea01f3285651"
)
"""`full_record()`, as a program of the layout before wrote it."""


def test_a_record_of_the_layout_before() -> None:
    """It is read as it was, without a checksum (version 1.0.0) too; quantities that it does not have are unknown."""
    texts = dict(enumerate(["socket", "cpu", "sleep", "db", "GET /", "other"]))
    for data in (EARLIER, b"\x02" + EARLIER[1:-CHECKSUM_BYTES]):
        again, record = decode_record(data, texts), full_record()
        assert again.window == record.window
        assert (again.levels, again.routes) == (record.levels, record.routes)
        assert again.response_times
        assert again.response_times.bins.edges == Bins((SLO.threshold,), EARLIER_BOUNDS).edges
        assert sum(again.response_times.counts) == 113.75


def test_a_record_of_the_layout_before_merges() -> None:
    """With the records of this program: a request stays on its side of each bound that both have."""
    texts = dict(enumerate(["socket", "cpu", "sleep", "db", "GET /", "other"]))
    earlier, now = decode_record(EARLIER, texts), full_record()
    assert earlier.response_times
    merged = merge_records([earlier, now]).response_times
    assert merged
    assert merged.bins.edges == Bins((SLO.threshold,)).edges
    for bound in (*EARLIER_BOUNDS, SLO.threshold):
        parts = [part for part in (earlier.response_times, now.response_times) if part]
        below = [sum(part.counts[: part.bins.find(bound) + 1]) for part in parts]
        assert sum(merged.counts[: merged.bins.find(bound) + 1]) == pytest.approx(sum(below))


def test_a_record_of_a_later_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quantities that this program does not know, of the server and of each worker, are left out."""
    record, texts = full_record(), Texts()
    with monkeypatch.context() as later:
        count = codec._COUNT
        more = [codec._Figure("requests", count), codec._Figure("lost", count)]
        later.setattr(codec, "_SERVER", [*codec._SERVER, codec._Figure("reloads", count)])
        later.setattr(codec, "_WORKER", [*codec._WORKER, *more])
        data = encode_record(record, texts.number)
    again = decode_record(data, texts.by_number())
    assert again.window == record.window
    assert (again.levels, again.routes) == (record.levels, record.routes)


def test_unknown_is_not_zero() -> None:
    """What is unknown is None again."""
    record = Record(60.0, windows.window(60.0, windows.worker(1, 5, each=None, up=60.0)))
    again = decode_record(encode_record(record, Texts().number), {})
    assert again == record
    assert again.window.overflows is None
    assert again.window.workers[0].running_time is None


def test_a_minute_of_eight_workers_is_small() -> None:
    """The size that the documentation names."""
    record = full_record()
    (one, _) = record.window.workers
    data = encode_numbers(())  # an empty list has no bytes
    assert data == b""
    more = Record(60.0, windows.window(60.0, *[one] * 8, socket=1.0), record.response_times, None, record.levels)
    assert len(encode_record(more, Texts().number)) < 500


def test_damaged_bytes_are_refused() -> None:
    """Any truncation and four thousand random changes are a record or a HistoryFileError, and nothing else; records of
    version 1.0.0, which have no checksum, as well."""
    texts = Texts()
    data = encode_record(full_record(), texts.number)
    for end in range(len(data)):
        with pytest.raises(HistoryFileError):
            decode_record(data[:end], texts.by_number())
    chance, refused = random.Random(1), 0
    for number in range(4000):
        damaged = bytearray(data if number % 2 else b"\x02" + EARLIER[1:-CHECKSUM_BYTES])
        for _ in range(chance.randint(1, 5)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            decode_record(bytes(damaged), texts.by_number())
        except HistoryFileError:
            refused += 1
    assert refused > 400


def test_a_record_of_sockets_of_single_workers() -> None:
    """Which workers take requests from which socket survives; such a record has a layout of its own, and others stay as
    they were."""
    record, texts = full_record(), Texts()
    mapped = replace(record, levels=replace(record.levels, socket_holders={"a.sock": (1,), "b.sock": (2, 3)}))
    data = encode_record(mapped, texts.number)
    assert decode_record(data, texts.by_number()).levels == mapped.levels
    assert (decode_numbers(data[:1]), decode_numbers(encode_record(record, texts.number)[:1])) == ([4], [3])


@pytest.mark.parametrize("settings", [{}, {"listen": "info", "max_requests_delta": "warning"}])
@pytest.mark.parametrize("holders", [None, {"a.sock": (1,), "b.sock": (2, 3)}])
def test_a_record_of_reviewed_settings(settings: dict[str, str], holders: dict[str, tuple[int, ...]] | None) -> None:
    """The rules survive, also where none has anything to say, which is not the same as unknown."""
    record, texts = full_record(), Texts()
    reviewed = replace(record, levels=replace(record.levels, socket_holders=holders, settings=settings))
    data = encode_record(reviewed, texts.number)
    assert decode_record(data, texts.by_number()).levels == reviewed.levels
    assert decode_numbers(data[:1]) == [5]
    assert set(texts.texts) >= set(settings)


@pytest.mark.parametrize("settings", [None, {}, {"listen": "info"}])
@pytest.mark.parametrize("holders", [None, {"a.sock": (1,), "b.sock": (2, 3)}])
def test_a_record_of_a_server_with_another_limit(
    settings: dict[str, str] | None, holders: dict[str, tuple[int, ...]] | None
) -> None:
    """The code survives, with or without settings and sockets; the code of a forgotten text is no code."""
    record, texts = full_record(), Texts()
    levels = replace(record.levels, socket_holders=holders, settings=settings, limited_by="loop_held")
    data = encode_record(replace(record, levels=levels), texts.number)
    assert decode_record(data, texts.by_number()).levels == levels
    assert decode_numbers(data[:1]) == [6]
