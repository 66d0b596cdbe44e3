"""A record survives its bytes, records merge, and bytes that are not a record are refused."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.support import windows
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.window import RouteWindow, WorkerWindow
from uwsgi_headroom.response_times.bins import EARLIER_BOUNDS, Bins
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store import codec
from uwsgi_headroom.store.codec import CHECKSUM_BYTES, decode_numbers, decode_record, encode_numbers, encode_record
from uwsgi_headroom.store.record import Levels, Record, RunningMerge, merge_records


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
def test_numbers(numbers):
    """Any whole numbers survive."""
    assert decode_numbers(encode_numbers(numbers)) == numbers


@pytest.mark.parametrize("slo", [None, Slo(1.0, 0.99), Slo(0.037, 0.95)])
def test_a_record_survives(slo):
    """Everything is as before, to a tenth of a millisecond and a hundredth of a request."""
    record, texts = full_record(slo), Texts()
    again = decode_record(encode_record(record, texts.number), texts.by_number())
    assert again.window == record.window
    assert again.levels == record.levels
    assert again.routes == record.routes
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


def test_a_record_of_the_layout_before():
    """It is read as it was, without a checksum (version 1.0.0) too; quantities that it does not have are unknown."""
    texts = dict(enumerate(["socket", "cpu", "sleep", "db", "GET /", "other"]))
    for data in (EARLIER, b"\x02" + EARLIER[1:-CHECKSUM_BYTES]):
        again, record = decode_record(data, texts), full_record()
        assert again.window == record.window
        assert (again.levels, again.routes) == (record.levels, record.routes)
        assert again.response_times.bins.edges == Bins((SLO.threshold,), EARLIER_BOUNDS).edges
        assert sum(again.response_times.counts) == 113.75


def test_a_record_of_the_layout_before_merges():
    """With the records of this program: a request stays on its side of each bound that both have."""
    texts = dict(enumerate(["socket", "cpu", "sleep", "db", "GET /", "other"]))
    earlier, now = decode_record(EARLIER, texts), full_record()
    assert earlier.response_times
    merged = merge_records([earlier, now]).response_times
    assert merged.bins.edges == Bins((SLO.threshold,)).edges
    for bound in (*EARLIER_BOUNDS, SLO.threshold):
        parts = [part for part in (earlier.response_times, now.response_times) if part]
        below = [sum(part.counts[: part.bins.find(bound) + 1]) for part in parts]
        assert sum(merged.counts[: merged.bins.find(bound) + 1]) == pytest.approx(sum(below))


def test_a_record_of_a_later_program(monkeypatch):
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


def test_unknown_is_not_zero():
    """What is unknown is None again."""
    record = Record(60.0, windows.window(60.0, windows.worker(1, 5, each=None, up=60.0)))
    again = decode_record(encode_record(record, Texts().number), {})
    assert again == record
    assert again.window.overflows is None
    assert again.window.workers[0].running_time is None


def test_a_minute_of_eight_workers_is_small():
    """The size that the documentation names."""
    record = full_record()
    (one, _) = record.window.workers
    data = encode_numbers(())  # an empty list has no bytes
    assert data == b""
    more = Record(60.0, windows.window(60.0, *[one] * 8, socket=1.0), record.response_times, None, record.levels)
    assert len(encode_record(more, Texts().number)) < 500


def test_damaged_bytes_are_refused():
    """They are a record or a HistoryFileError, those of version 1.0.0 without a checksum as well."""
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


def test_a_record_of_sockets_of_single_workers():
    """It survives which workers take requests from which socket, in a layout of its own."""
    record, texts = full_record(), Texts()
    mapped = replace(record, levels=replace(record.levels, socket_holders={"a.sock": (1,), "b.sock": (2, 3)}))
    data = encode_record(mapped, texts.number)
    assert decode_record(data, texts.by_number()).levels == mapped.levels
    assert (decode_numbers(data[:1]), decode_numbers(encode_record(record, texts.number)[:1])) == ([4], [3])


@pytest.mark.parametrize("settings", [{}, {"listen": "info", "max_requests_delta": "warning"}])
@pytest.mark.parametrize("holders", [None, {"a.sock": (1,), "b.sock": (2, 3)}])
def test_a_record_of_reviewed_settings(settings, holders):
    """The rules survive, also where none has anything to say, which is not the same as unknown."""
    record, texts = full_record(), Texts()
    reviewed = replace(record, levels=replace(record.levels, socket_holders=holders, settings=settings))
    data = encode_record(reviewed, texts.number)
    assert decode_record(data, texts.by_number()).levels == reviewed.levels
    assert decode_numbers(data[:1]) == [5]
    assert set(texts.texts) >= set(settings)


@pytest.mark.parametrize("settings", [None, {}, {"listen": "info"}])
@pytest.mark.parametrize("holders", [None, {"a.sock": (1,), "b.sock": (2, 3)}])
def test_a_record_of_a_server_with_another_limit(settings, holders):
    """The code survives, with or without settings and sockets; the code of a forgotten text is no code."""
    record, texts = full_record(), Texts()
    levels = replace(record.levels, socket_holders=holders, settings=settings, limited_by="loop_held")
    data = encode_record(replace(record, levels=levels), texts.number)
    assert decode_record(data, texts.by_number()).levels == levels
    assert decode_numbers(data[:1]) == [6]


def test_sums_and_last_levels():
    """Counts and times add up; threads and memory are those at the end."""
    first, second = full_record(), full_record()
    second = replace(
        second, until=120.0, levels=replace(second.levels, cpus=8.0), window=replace(second.window, configured=16)
    )
    merged = merge_records([first, second])
    assert merged.until == 120.0
    assert merged.levels.cpus == 8.0
    assert merged.window.configured == 16
    assert merged.window.seconds == 120.0
    assert [worker.requests for worker in merged.window.workers] == [2000, 4000]
    assert merged.window.workers[0].cpu_seconds == 6.5
    assert merged.window.workers[1].cpu_seconds is None
    assert merged.window.queue_seconds == {"socket": 5.0}
    assert merged.window.waits.seconds == {"cpu": 60.0, "sleep": 360.0}
    assert merged.routes.seconds == {"GET /": 24.0, "other": 3.0}
    assert merged.response_times.requests == 228
    assert sum(merged.response_times.counts) == pytest.approx(227.5)


def test_what_is_known_of_a_part():
    """Waits are known for the time that was measured; a worker's time is known only if it always was."""
    known = Record(60.0, windows.window(60.0, windows.worker(1, 10, busy=30.0, up=60.0), waits={"cpu": 1.0}))
    unknown = Record(120.0, windows.window(60.0, windows.worker(1, 10, busy=None, up=60.0)))
    merged = merge_records([known, unknown])
    assert merged.window.waits.observed_seconds == 60.0
    assert merged.window.workers[0].busy_seconds is None
    assert merged.window.workers[0].requests == 20


def test_a_minute_without_the_use_by_others():
    """A quarter of an hour has the use of CPUs in the minutes in which all of it was known."""
    known = Record(60.0, windows.window(60.0, cpu=(1.0, 2.0, 0.5)))
    unknown = Record(120.0, windows.window(60.0, cpu=(1.5, 2.5, None)))
    assert merge_records([known, unknown]).window.cpu == known.window.cpu
    both = merge_records([unknown, unknown]).window.cpu
    assert (both.measured_seconds, both.own_seconds, both.others_seconds) == (120.0, 180.0, None)


def test_workers_and_sockets_that_come_and_go():
    """A worker of one part has its own work; a socket of one part is not known for the whole time."""
    merged = merge_records(
        [
            Record(60.0, windows.window(60.0, windows.worker(1, 10, up=60.0), old=5.0)),
            Record(120.0, windows.window(60.0, windows.worker(1, 10, up=60.0), windows.worker(2, 7, up=60.0), new=1.0)),
        ]
    )
    assert [(worker.worker_id, worker.requests) for worker in merged.window.workers] == [(1, 20), (2, 7)]
    assert merged.window.queue_seconds == {}


def test_an_objective_that_changed():
    """Requests move to the bins of the last part, and none is lost."""
    merged = merge_records([full_record(None), full_record(Slo(0.7, 0.9))])
    assert sum(merged.response_times.counts) == pytest.approx(227.5)
    assert 0.7 in merged.response_times.bins.edges


def rounded(value: Any) -> Any:
    """A record in built-in types, with nine digits: from Python 3.12 on, a sum of floats depends on how it is split."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, Struct):
        return {name: rounded(getattr(value, name)) for name in value.__struct_fields__}
    return [rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def test_one_by_one():
    """Records that are merged as they come are the same as together, and few are kept."""
    records = [replace(full_record(), until=60.0 * number) for number in range(1, 201)]
    merge = RunningMerge()
    for record in records:
        merge.add(record)
        assert len(merge.records) <= 64
    one, other = merge_records(merge.records), merge_records(records)
    assert one.response_times.interval == pytest.approx(other.response_times.interval)
    assert rounded(replace(one, response_times=None)) == rounded(replace(other, response_times=None))
    assert one.response_times.counts == other.response_times.counts


def test_of_nothing():
    """There is no record without parts, and one part is itself."""
    record = full_record()
    assert merge_records([record]) is record
    with pytest.raises(ValueError, match="no records"):
        merge_records([])
