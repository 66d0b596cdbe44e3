"""Known messages are found in a log, and nothing of any other text leaves it."""

import re
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.uwsgi_log.capture import read_captured
from uwsgi_headroom.uwsgi_log.messages import BY_CODE, HEAD, MESSAGES, advise, describe, index
from uwsgi_headroom.uwsgi_log.scan import LONGEST_LINE, Found, Scanner, count_requests

REQUEST = (
    "[pid: 4711|app: 0|req: 1/2] 10.0.0.7 () {28 vars in 316 bytes} [Wed Nov 25 18:54:16 2026] GET /?key=1 => "
    "generated 3 bytes in 5 msecs (HTTP/1.1 200) 2 headers in 64 bytes (1 switches on core 0)"
)


DATE = "Wed Nov 25 18:54:16 2026 - "
"""Before all lines with `log-date`, and before some without."""

SAMPLES: dict[str, tuple[str, ...]] = {}
for _line in re.sub(
    r"^#.*\n", "", Path(__file__).with_name("samples.txt").read_text(), flags=re.MULTILINE
).splitlines():
    _code, _, _text = _line.partition(": ")
    _text = _text.replace("<date>", DATE).replace("<space>", " ").replace("\\n", "\n")
    SAMPLES[_code] = (*SAMPLES.get(_code, ()), _text)


def scan(*lines):
    return Scanner().scan("".join(f"{line}\n" for line in lines).encode())


def codes(*lines):
    counted = Counter()
    for seen, count in scan(*lines).items():
        counted[seen.code] += count
    return counted


@pytest.mark.parametrize("text", [pytest.param(text, id=version) for version, text in read_captured().items()])
def test_lines_of_each_version_are_recognized(text):
    lines = text.splitlines()
    assert [sum(codes(line).values()) for line in lines] == [1] * len(lines)
    assert len(codes(*lines)) == len(lines) >= 35


@pytest.mark.parametrize(
    ("size", "code"),
    [
        *[(size, "http_on_uwsgi_socket") for size in (21573, 21327, 16709, 21589, 21569, 21584, 19525, 20306)],
        *[(size, "head_too_large") for size in (21572, 21574, 215730, 1573, 32769)],
    ],
)
def test_a_size_that_is_letters(size, code):
    """That of GET, POST, HEAD, PUT, PATCH, OPTIONS, DELETE and PROXY; a size beside them is that of headers."""
    (found,) = Scanner().scan(f"invalid request block size: {size} (max 4096)...skip\n".encode())
    assert (found.code, found.limit) == (code, 4096 if code == "head_too_large" else None)


def test_there_are_samples_of_every_message():
    assert list(SAMPLES) == [message.code for message in MESSAGES]
    assert len(MESSAGES) >= 40
    for message in MESSAGES:
        for pattern in message.patterns:
            undated = [line.removeprefix(DATE) for line in SAMPLES[message.code]]
            assert any(re.match(pattern, line.encode()) for line in undated), (message.code, pattern)


UNDATED = ("traceback", "status_5xx", "status_4xx", "status_3xx")
"""Python writes the one, and uWSGI the other; both without a date before it."""


@pytest.mark.parametrize("code", SAMPLES)
@pytest.mark.parametrize("date", ["", DATE, "2026-11-25 18:54:16 - ", "[25/Nov/2026:18:54:16 +0000] - "])
def test_each_sample_is_found(code, date):
    for sample in SAMPLES[code]:
        lines = [date + line.removeprefix(DATE) for line in sample.split("\n")]
        if code in UNDATED and date:
            lines = sample.split("\n")
        assert codes(date + REQUEST, *lines, date + REQUEST) == {code: 1}, sample
    numbers = {"killed_by_signal": {"worker": 2, "pid": 4711, "signal": 11}, "head_too_large": {"limit": 4096}}
    if code in numbers:
        assert Found(code, **numbers[code]) in scan(SAMPLES[code][0])


def test_only_the_end_of_a_request_is_its_status():
    end = "(HTTP/1.1 500) 2 headers in 64 bytes (1 switches on core 0)"
    forged = [REQUEST.replace("/?key=1", f"/{end}"), REQUEST.replace("()", end), f"hello {end}", f"{end} [pid: 1", end]
    assert not scan(*forged, REQUEST)
    assert codes(*forged, REQUEST.replace("1.1 200", "1.1 500"), REQUEST) == {"status_5xx": 1}
    assert not scan(*[REQUEST.replace("1.1 200", f"1.1 {status}") for status in ("402", "50", "5000", "600")])
    assert not scan(REQUEST, "", "hello", "worker 3 says hello", "DAMN it", "[WARN", "x" * 100_000)


def test_the_line_of_a_request_has_its_numbers():
    """Process, application (-1 if none was called), counters, and bytes of the response; all such lines are counted."""
    failed = REQUEST.replace("1.1 200", "1.1 500")
    refused = failed.replace("app: 0|req: 1/2", "app: -1|req: -1/2")
    lines = "".join(f"{line}\n" for line in (refused, failed, REQUEST, refused)).encode()
    called = Found("status_5xx", pid=4711, request=(0, 1, 2, 67))
    assert Scanner().scan(lines) == {called: 1, called._replace(request=(-1, -1, 2, 67)): 2}
    assert (count_requests(lines), count_requests(lines[1:]), count_requests(b"a [pid: 1|\n")) == (4, 3, 0)


FAILED = (
    "Traceback (most recent call last):",
    '  File "/srv/shop/wsgi.py", line 12, in <module>',
    "    import secret_module",
    '  File "<frozen importlib._bootstrap>", line 1176, in _find_and_load',
    "ModuleNotFoundError: No module named 'secret_module'",
    "unable to load app 0 (mountpoint='') (callable not found or import error)",
)


def test_a_failed_start_has_its_exception_and_place():
    """The type, and the last two parts of the last file with its line; neither if it is not plain."""
    frame = f'  File "/srv/{SECRET} x/{SECRET}?.py", line 1, in f'
    assert scan(FAILED[0], frame, f"{SECRET} {SECRET}: x") == {Found("traceback"): 1}
    place = "ModuleNotFoundError at shop/wsgi.py:12"
    assert scan(*FAILED) == {Found("traceback", place=place): 1, Found("application_not_loaded", place=place): 1}
    # A traceback goes on in the next block, and ends where lines were left out.
    for cut in range(1, len(FAILED)):
        scanner, seen = Scanner(), Counter[Found]()
        for part in (FAILED[:cut], FAILED[cut:]):
            seen += scanner.scan("".join(f"{line}\n" for line in part).encode())
        assert seen == scan(*FAILED)
    scanner = Scanner()
    scanner.scan("".join(f"{line}\n" for line in FAILED[:3]).encode())
    scanner.forget()
    assert scanner.scan(f"ValueError: x\n{FAILED[-1]}\n".encode()) == {Found("application_not_loaded"): 1}


def test_the_user_of_an_access_log_begins_no_message():
    """In an access log of the same file, a user may choose his name: only a date may stand before a message."""
    message = SAMPLES["killed_by_signal"][0]
    assert not scan(f"10.0.0.7 - {message}", f"::1 - {message}", f"2001:db8:12:34::7 - {message}", f"a - b - {message}")
    assert codes(f"18:54:16 - {message}") == {"killed_by_signal": 1}


SECRET = "Zx9Qw7Vb3"
_SECRETS = ("{}", "/?token={}", "Cookie: {}", "10.{}.0.7", '"{}"', "\0{}", "{}\x1b[2J", " - ")
_WORDS = st.sampled_from([each.format(SECRET) for each in _SECRETS])


@st.composite
def _hostile_lines(draw):
    """A known message with a secret put in at any place, or a secret wherever uWSGI has a text of its user's."""
    line = draw(st.sampled_from([each for samples in SAMPLES.values() for each in samples] + list(FAILED)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(line)))
        line = line[:place] + draw(_WORDS) + line[place + draw(st.integers(0, 6)) :]
    return line.encode() + draw(st.binary(max_size=8)).replace(SECRET.encode(), b"")


@given(st.lists(_hostile_lines(), max_size=20))
def test_nothing_but_known_words_comes_out(lines):
    """Only words of the table, numbers, and an exception's type, file and line, which are plain."""
    place = re.compile(r"[A-Za-z_][\w.]{0,100}( E[A-Z0-9]+)?( at ([\w.-]{1,60}/)?[\w.-]{1,60}:\d{1,7})?", re.ASCII)
    for seen in Scanner().scan(b"\n".join(lines) + b"\n"):
        assert seen.code in BY_CODE
        assert all(number is None or isinstance(number, int) for number in seen[1:5])
        assert not seen.place or place.fullmatch(seen.place)
        if not seen.place:
            assert SECRET not in describe(seen.code, seen.worker, seen.signal, seen.limit) + advise(
                seen.code, seen.limit
            )


def test_patterns_begin_with_plain_bytes():
    """Lines are found by the first bytes of a pattern, so these are no choice and no repetition."""
    for head, rows in index().items():
        assert len(head) == HEAD
        for _, pattern in rows:
            assert not set(head) & set(b"?+{}^$|\\"), pattern.pattern
            assert pattern.match(head) or not pattern.fullmatch(head[:-1])


@pytest.mark.parametrize("code", SAMPLES)
def test_patterns_take_linear_time(code):
    for sample in SAMPLES[code]:
        head = sample.removeprefix(DATE)
        for cut in range(HEAD, len(head), 7):
            lines = (head[:cut] + head[cut - 1] * 200_000 + "\n").encode()
            began = time.thread_time()
            Scanner().scan(lines)
            assert time.thread_time() - began < 0.2, (code, cut)


def test_words_are_sentences():
    for message in MESSAGES:
        assert message.says, message.code
        assert not message.says.endswith("."), message.code
        assert "{" not in describe(message.code), message.code
        assert "{" not in advise(message.code), message.code
        if message.role in ("rejected", "failed", "setting"):
            assert message.harm.endswith("."), message.code
            assert message.change.endswith("."), message.code
    assert LONGEST_LINE < 10_000
