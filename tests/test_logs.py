"""The log, and the writer behind it."""

import asyncio
import contextlib
import io
import os
import queue
import signal
import subprocess
import sys
import unicodedata
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom import interrupts
from uwsgi_headroom.clock import within
from uwsgi_headroom.logs import BackgroundWriter
from uwsgi_headroom.numbers import BYTES, SECONDS, parse_number, parse_quantity
from uwsgi_headroom.terminal_text import bar, downsample, escape_text, print_lines, sparkline, wrap

SCRIPT = """
import logging, sys
from uwsgi_headroom import logs
logs.configure("info", sys.argv[1])
for number in range(int(sys.argv[2])):
    logging.info("a line", extra={"fields": {"number": number, "padding": "x" * 100}})
print("done", flush=True)
"""


def command(style, lines, more=""):
    return [sys.executable, "-c", SCRIPT + more, style, str(lines)]


def logged(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=True, timeout=60).stderr


def test_the_last_lines_get_out():
    """After another `configure`, in the other style."""
    lines = logged("logfmt", 500).splitlines()
    assert len(lines) == 500
    assert 'level=info msg="a line" number=499' in lines[-1]
    assert '"msg": "a line", "number": 0' in logged("json", 1)
    more = 'logs.configure("warning", "json"); logging.info("quiet"); logging.warning("loud")'
    first, last = logged("logfmt", 1, more).splitlines()
    assert 'msg="a line"' in first
    assert '"level": "warning", "msg": "loud"' in last


def test_nobody_waits_for_a_full_pipe():
    """If nobody reads, lines that do not fit into the pipe are dropped, and the program continues and ends."""
    reader, writer = os.pipe()
    try:
        done = subprocess.run(command("logfmt", 5000), stdout=subprocess.PIPE, stderr=writer, check=True, timeout=60)
    finally:
        os.close(reader)
        os.close(writer)
    assert done.stdout == b"done\n"


def test_dropped_lines_are_counted():
    reader, writer = os.pipe()
    program = command("logfmt", 5000, "sys.stdin.readline(); logging.info('after')")
    with (
        subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writer) as running,
        open(reader, "rb") as pipe,
    ):
        os.close(writer)
        assert running.stdin is not None
        assert running.stdout.readline() == b"done\n"
        for _ in range(1000):  # reading makes room for as many lines
            pipe.readline()
        running.stdin.write(b"\n")
        running.stdin.close()
        last = pipe.read().decode().splitlines()[-1]
    assert "msg=after lines_dropped=" in last


MORE_THAN_A_PIPE_HOLDS = b"x" * 1_000_000
PATIENCE = 60.0


@contextlib.contextmanager
def written(**options):
    """A pipe: the file of its reading end, and a writer at the other one."""
    reader, descriptor = os.pipe()
    try:
        with open(reader, "rb") as file:
            yield file, BackgroundWriter(descriptor, "test", **options)
    finally:
        os.close(descriptor)


def fits(writer, text):
    try:
        writer.put(text)
    except queue.Full:
        return False
    return True


def test_texts_are_written_in_order():
    """A text larger than the pipe is written whole, as the reader makes room."""
    with written() as (reader, writer):
        for text in (b"one ", b"two ", b"three"):
            writer.put(text)
        writer.finish(PATIENCE)
        assert not writer.busy
        assert reader.read(len(b"one two three")) == b"one two three"
    with written() as (reader, writer):
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        writer.put(b"end")
        assert reader.read(len(MORE_THAN_A_PIPE_HOLDS) + 3) == MORE_THAN_A_PIPE_HOLDS + b"end"


def test_it_is_busy_while_nobody_reads():
    """`finish` gives up after its timeout; when the reader continues, the text still arrives."""
    with written() as (reader, writer):
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        writer.finish(0.01)
        assert writer.busy
        assert reader.read(len(MORE_THAN_A_PIPE_HOLDS)) == MORE_THAN_A_PIPE_HOLDS
        writer.finish(PATIENCE)
        assert not writer.busy


def test_a_bounded_writer_refuses_what_does_not_fit():
    """Two texts may wait behind the one in progress; accepted texts are written, and then there is room again."""
    with written(most_waiting=2) as (reader, writer):
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        accepted = sum(fits(writer, b"y") for _ in range(3))
        assert 1 <= accepted <= 2
        expected = MORE_THAN_A_PIPE_HOLDS + b"y" * accepted
        assert reader.read(len(expected)) == expected
        writer.finish(PATIENCE)
        writer.put(b"z")
        assert reader.read(1) == b"z"


def test_what_a_writer_does_by_default():
    """It refuses nothing, and ignores a failed write."""
    with written() as (reader, writer):
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        for _ in range(5000):
            writer.put(b"y")
        assert reader.read(len(MORE_THAN_A_PIPE_HOLDS) + 5000) == MORE_THAN_A_PIPE_HOLDS + b"y" * 5000
    with written() as (reader, writer):
        reader.close()
        writer.put(b"one")
        writer.finish(PATIENCE)
        assert not writer.busy


def test_a_reader_that_is_gone_is_reported():
    """Each failed write is reported once, including those of waiting texts, and the writer continues."""
    failures = []
    with written(on_failure=lambda: failures.append("gone")) as (reader, writer):
        reader.close()
        writer.put(b"one")
        writer.put(b"two")
        writer.finish(PATIENCE)
    assert failures == ["gone", "gone"]
    assert not writer.busy


ANY_TEXT = st.text(st.characters(exclude_categories=[]))
DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
WITHOUT_WIDTH = "\u00ad\u034f\u115f\u180e\u200b\u200c\u200d\u2060\u3164\ufe0f\ufeff\uffa0\U000e0041\U000e0100"
CONTROLS = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)])) + "\u2028\u2029\udc9b"


def harmless(text):
    """Whether a terminal shows each character of a text where it is written."""
    return not set(text) & set(DIRECTIONS + WITHOUT_WIDTH + CONTROLS) and not any(
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text
    )


@given(ANY_TEXT)
def test_whatever_a_name_holds_its_text_is_harmless(text):
    """No character that moves the cursor, breaks the line, changes its direction or is hidden gets through, even in a
    paragraph."""
    assert harmless(escape_text(text))
    assert all(map(harmless, wrap(f"Worker {text} is busy.", 60, "   ")))


@pytest.mark.parametrize("character", sorted(DIRECTIONS + WITHOUT_WIDTH + CONTROLS))
def test_each_dangerous_character_is_escaped(character):
    """The escape is a backslash and the character's number or letter; the surrounding text stays."""
    escaped = escape_text(f"a{character}b")
    assert harmless(escaped)
    assert escaped.startswith("a\\")
    assert escaped.endswith("b")
    assert escaped.encode().decode("unicode_escape") == f"a{character}b"


def test_where_a_line_breaks():
    """Between words, but a command and a figure with its unit stay together. Escapes are those that people know."""
    assert escape_text("\x1b]0;x\x07\n\u202e") == "\\x1b]0;x\\x07\\n\\u202e"
    text = "First see what they wait for: run `sudo program check /run/uwsgi/shop.stats`, then decide."
    assert any("`sudo program check /run/uwsgi/shop.stats`," in line for line in wrap(text, 50, "-> ", "   "))
    assert all(len(line) <= 30 for line in wrap(text, 30, "-> ", "   "))
    assert wrap("a" * 16 + " 43 % of it", 20) == ["a" * 16, "43 % of it"]


@given(st.text(st.characters(categories=["Lu", "Ll", "Nd", "Po", "Sm"])))
def test_text_that_can_be_read_stays(text):
    assert escape_text(text) == text


@given(st.lists(ANY_TEXT, max_size=4), st.sampled_from(["utf-8", "ascii", "latin-1"]))
def test_a_line_is_printed_as_one_line(lines, encoding):
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    print_lines(lines, output)
    output.seek(0)
    printed = output.read().split("\n")
    assert printed.pop() == ""
    assert len(printed) == len(lines)
    assert all(map(harmless, printed))


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(1, 40))
def test_a_bar_is_as_long_as_its_part(value, of, cells):
    """A bar is never longer than its cells, and full if the value is the whole or more."""
    drawn = bar(value, of, cells)
    assert len(drawn) <= cells
    if 0 < of <= value:
        assert drawn == "█" * cells


def test_a_spark_has_gaps_where_nothing_is_known():
    """The largest value is the highest bar, unless a maximum is given."""
    assert sparkline([0.0, None, 4.0, 8.0]) == "▁ ▅█"
    assert sparkline([1.0, 20.0], 10.0) == "▁█"
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([]) == ""
    assert downsample([1.0, 3.0, None, 5.0], 2) == [2.0, 5.0]
    assert downsample([9.0, 1.0, 3.0, None, None], 3) == [9.0, 2.0, None]
    assert downsample([1.0, 2.0], 5) == [1.0, 2.0]
    assert downsample([], 5) == []


@pytest.mark.parametrize(("text", "number"), [("0.5", 0.5), ("20", 20.0), ("1e1", 10.0), (" 7 ", 7.0)])
def test_a_number_in_range(text, number):
    assert parse_number(text, 0.5, 20) == number


@pytest.mark.parametrize("text", ["0.49", "20.1", "-5", "nan", "inf", "-inf", "", "often", "5s", "0x10"])
def test_what_is_no_number_in_range(text):
    """NaN is in no range."""
    with pytest.raises(ValueError, match=rf"{text}'?$"):
        parse_number(text, 0.5, 20)


def test_a_number_with_its_unit():
    """What has none, or another one, is in no bounds."""
    assert [parse_quantity(text, SECONDS) for text in ("250ms", " 1.5m ", ".5 h")] == [0.25, 90.0, 1800.0]
    assert parse_quantity("1.5GB", BYTES) == 1.5e9
    for text in ("", "5", "s", "-5s", "1e3s", "5 min", "1.s", "\N{ARABIC-INDIC DIGIT ONE}s", "9" * 5000 + "s"):
        assert isnan(parse_quantity(text, SECONDS)), text


async def after(seconds, result):
    await asyncio.sleep(seconds)
    if isinstance(result, Exception):
        raise result
    return result


def test_a_result_an_error_and_a_timeout():
    """They are those of the work; after the time, the work has ended, too."""
    assert asyncio.run(within(60, after(0, "done"))) == "done"
    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(within(60, after(0, ValueError("wrong"))))
    ended = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(within(0.01, work()))
    assert ended == [True]


@pytest.mark.parametrize("turns", range(8))
def test_a_cancellation_at_any_moment_is_kept(turns):
    """Also if the work ends in the same turn of the loop, as that of clients without a pause does."""

    async def scenario():
        ready = asyncio.Event()

        async def client():
            await within(60, ready.wait())
            await asyncio.sleep(60)

        task = asyncio.ensure_future(client())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ready.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=30)
        return task.cancelled()

    assert asyncio.run(scenario())


@pytest.fixture(autouse=True)
def _the_handler_of_the_tests_stays():
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_pythons_own_handler_steps_aside():
    """Python's handler is restored when the block ends, even by an error."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(ModuleNotFoundError), interrupts.ending_the_process():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        raise ModuleNotFoundError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda _signal, _frame: None])
def test_another_handler_stays(handler):
    signal.signal(signal.SIGINT, handler)
    with interrupts.ending_the_process():
        assert signal.getsignal(signal.SIGINT) == handler
    assert signal.getsignal(signal.SIGINT) == handler
