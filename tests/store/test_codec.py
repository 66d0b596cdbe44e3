"""A record survives its bytes and merges, and what is no record is refused."""

import random
import tarfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.store.test_database import NOON
from tests.support import windows
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.response_times.bins import BUCKET_BOUNDS, Bins
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.window import RouteWindow, WorkerWindow
from uwsgi_headroom.store.codec import MOST_NAMES, decode_record, encode_record
from uwsgi_headroom.store.file import HistoryFile, open_to_write, refuse_foreign
from uwsgi_headroom.store.record import Levels, Record, RunningMerge, merge_records

SLO = Slo(1.0, 0.99)


def full_record(slo: Slo | None = SLO) -> Record:
    known = {"static_requests": 3, "running_time": 12.3456, "busy_seconds": 12.5, "up_seconds": 60.0, "respawns": 1}
    known |= {"lost": 0, "resident_bytes": 123_456_789, "resident_growth": -4096, "interpreter_lock_seconds": 0.0}
    workers = [
        WorkerWindow(worker_id=number, requests=number * 1000, cpu_seconds=cpu, **known)
        for number, cpu in ((1, 3.25), (2, None))
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


@pytest.mark.parametrize("slo", [None, Slo(1.0, 0.99), Slo(0.037, 0.95)])
def test_a_record_survives(slo):
    record = full_record(slo)
    again = decode_record(encode_record(record))
    assert again.window == record.window
    assert again.levels == record.levels
    assert again.routes == record.routes
    assert again.response_times.requests == 114
    assert again.response_times.counts == pytest.approx(record.response_times.counts, abs=0.006)
    assert again.response_times.doubt == pytest.approx(record.response_times.doubt, abs=0.006)
    assert again.response_times.bins.edges == record.response_times.bins.edges


def parts_of(record: Record) -> list[Any]:
    return msgspec.msgpack.decode(zlib.decompress(encode_record(record)))


def compressed(parts: object) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(parts))


def test_a_record_of_another_program():
    """Quantities that this program does not know are left out, and those that the other did not know are unknown."""
    record = full_record()
    workers = tuple(replace(worker, write_errors=3, lock_seconds=0.0) for worker in record.window.workers)
    known = replace(record, window=replace(record.window, workers=workers, refused=3, file_lock_seconds=1.0))
    later, earlier = parts_of(known), parts_of(known)
    for part in (later[3], later[4], *later[8]):
        part += [7, 8]
    for part, width in ((earlier[4], 11), *((part, 12) for part in earlier[8])):
        del part[width:]
    assert decode_record(compressed(later)).window == known.window
    assert decode_record(compressed(earlier)).window == record.window


def test_unknown_is_not_zero():
    record = Record(60.0, windows.window(60.0, windows.worker(1, 5, each=None, up=60.0)))
    again = decode_record(encode_record(record))
    assert again == record


def test_names_of_a_record_are_bounded():
    routes = RouteWindow(60.0, {f"GET /{number}": float(number) for number in range(1000)})
    again = decode_record(encode_record(replace(full_record(), routes=routes)))
    assert sorted(again.routes.seconds.values()) == list(range(1000 - MOST_NAMES, 1000))
    # A minute of eight workers is small: most bytes of what the documentation names are for figures that differ.
    record = full_record()
    window = replace(record.window, workers=record.window.workers * 4)
    assert len(encode_record(replace(record, window=window))) < 300


def test_damaged_bytes_are_refused():
    """Cut, followed by others, or no bytes at all; a bit that changed leaves the record as it is, or is noticed."""
    data = encode_record(full_record())
    cut = [data[:end] for end in range(len(data))]
    for each in (*cut, data * 2, data + b"x", zlib.compress(bytes(10**8)), None, "x"):
        with pytest.raises(HistoryFileError):
            decode_record(each)
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        with suppress(HistoryFileError):
            assert decode_record(bytes(flipped)) == decode_record(data)


def test_wrong_figures_are_refused():
    """With a checksum that is right, bytes are a record or a HistoryFileError."""
    packed, dice, refused = zlib.decompress(encode_record(full_record())), random.Random(1), 0
    for number in range(8000):
        changed = bytearray(packed)
        for _ in range(dice.randint(1, 5)):
            place = dice.randrange(1, len(changed))
            changed[place : place + dice.randrange(2)] = dice.randbytes(dice.randrange(12) if number % 4 == 1 else 1)
        try:
            decode_record(zlib.compress(changed))
        except HistoryFileError:
            refused += 1
    assert refused > 800


HOLDERS = {"a.sock": (1,), "b.sock": (2, 3)}


@pytest.mark.parametrize("holders", [None, HOLDERS])
@pytest.mark.parametrize("limit", [None, "loop_held"])
def test_levels_of_a_record(holders, limit):
    record = full_record()
    levels = replace(record.levels, socket_holders=holders, limited_by=limit)
    assert decode_record(encode_record(replace(record, levels=levels))).levels == levels


def test_sums_and_last_levels():
    """Counts and times add up; threads and memory are those at the end."""
    first = full_record()
    levels, window = replace(first.levels, cpus=8.0), replace(first.window, configured=16)
    second = replace(first, until=120.0, levels=levels, window=window)
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
    # A quarter of an hour has the use of CPUs in the minutes in which all of it was known.
    known = Record(60.0, windows.window(60.0, cpu=(1.0, 2.0, 0.5)))
    unknown = Record(120.0, windows.window(60.0, cpu=(1.5, 2.5, None)))
    assert merge_records([known, unknown]).window.cpu == known.window.cpu
    both = merge_records([unknown, unknown]).window.cpu
    assert (both.measured_seconds, both.own_seconds, both.others_seconds) == (120.0, 180.0, None)


def test_workers_and_sockets_that_come_and_go():
    """A worker of one part has its own work; a socket of one part is not known for the whole time."""
    one, two = windows.worker(1, 10, up=60.0), windows.worker(2, 7, up=60.0)
    first, second = windows.window(60.0, one, old=5.0), windows.window(60.0, one, two, new=1.0)
    merged = merge_records([Record(60.0, first), Record(120.0, second)])
    assert [(worker.worker_id, worker.requests) for worker in merged.window.workers] == [(1, 20), (2, 7)]
    assert merged.window.queue_seconds == {}


def test_an_objective_that_changed_loses_no_request():
    merged = merge_records([full_record(None), full_record(Slo(0.7, 0.9))])
    assert sum(merged.response_times.counts) == pytest.approx(227.5)
    assert 0.7 in merged.response_times.bins.edges


def test_one_by_one():
    """Records that are merged as they come are the same as together, and few are kept."""
    records = [replace(full_record(), until=60.0 * number) for number in range(1, 201)]
    merge = RunningMerge()
    for record in records:
        merge.add(record)
        assert len(merge.records) <= 64
    assert encode_record(merge_records(merge.records)) == encode_record(merge_records(records))
    assert merge_records(records[:1]) is records[0]


def unpack(name: str, path: Path) -> bytes:
    with tarfile.open(Path(__file__).with_name("earlier_versions.tar.gz")) as files:
        content = files.extractfile(f"{name}.sqlite").read()
    path.write_bytes(content)
    return content


def test_bounds_of_version_1_0():
    """Dashboards and objectives name them: they stay bounds of the histogram."""
    assert {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0} <= set(BUCKET_BOUNDS)


@pytest.mark.parametrize("version", ["unreleased", "version_1"])
def test_a_file_of_an_earlier_version(path, version):
    """It is refused with a sentence that says what to do, and stays as it is."""
    content = unpack(version, path)
    for use in (open_to_write, refuse_foreign, lambda path: HistoryFile(path, NOON)):
        with pytest.raises(HistoryFileError, match=r"move it away, and the exporter begins a new one"):
            use(path)
    assert path.read_bytes() == content
