"""The commands and options that the command line accepts, and its messages for mistakes."""

from __future__ import annotations

import pytest

from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.arguments.parser import UsageError
from uwsgi_headroom.check.request import Threshold


def refused(*arguments: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        make_command_line().parse(arguments)
    return caught.value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("chekc",), "unknown command chekc; did you mean check?"),
        (("xyzzy",), "unknown command xyzzy"),
        (("/run/a.stats",), "unknown command /run/a.stats; did you mean uwsgi-headroom check /run/a.stats?"),
        (("check", "/a", "--fromat", "json"), "unknown option --fromat; did you mean --format?"),
        (("check", "/a", "--fromat=json"), "unknown option --fromat; did you mean --format?"),
        (("--web.listen-adress", ":1"), "unknown option --web.listen-adress; did you mean --web.listen-address?"),
        (("serve", "/run/a.stats"), "unexpected argument: /run/a.stats; did you mean --stats /run/a.stats?"),
        (("discover", "now"), "unexpected argument: now"),
        (("check", "/a", "--seconds", "abc"), "argument --seconds: expected 2 to 3600 seconds, not abc"),
        (("top", "--interval", "0"), "argument --interval: expected 0.25 to 60 seconds, not 0"),
        (("check", "/a", "--min-headroom", "1:2"), "the critical minimum is above the warning minimum"),
        (("check", "/a", "--max-queue-wait", "2s:1s"), "the critical maximum is below the warning maximum"),
        (("check", "/a", "--max-queue-wait", "soon"), "WARNING or WARNING:CRITICAL, such as 100ms:2s, not soon"),
        (("check", "/a", "--max-queue-wait", ":"), "WARNING or WARNING:CRITICAL, such as 100ms:2s, not :"),
    ],
)
def test_a_mistake_is_named_with_what_was_meant(arguments: tuple[str, ...], message: str) -> None:
    """Messages contain no names of the code, but the option that was probably meant."""
    error = refused(*arguments)
    assert message in str(error)
    assert "invalid _" not in str(error)


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (("check", "/a", "--nonsense"), "usage: uwsgi-headroom check "),
        (("--nonsense",), "usage: uwsgi-headroom serve "),
        (("nonsense",), "usage: uwsgi-headroom [-h]"),
    ],
)
def test_the_usage_is_that_of_the_command(arguments: tuple[str, ...], usage: str) -> None:
    """A mistyped option of a command is answered with the usage of that command."""
    assert refused(*arguments).usage.startswith(usage)


@pytest.mark.parametrize(
    ("text", "expected"), [("2", Threshold(2.0, None)), ("2:1.2", Threshold(2.0, 1.2)), (":1.2x", Threshold(None, 1.2))]
)
def test_a_minimum(text: str, expected: Threshold) -> None:
    """Either half may be left out."""
    assert make_command_line().parse(["check", "/a", "--min-headroom", text]).min_headroom == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("250ms", Threshold(0.25, None)), ("0.1:2s", Threshold(0.1, 2.0)), (":2", Threshold(None, 2.0))],
)
def test_a_maximum(text: str, expected: Threshold) -> None:
    """Times are in seconds, or milliseconds with their unit."""
    assert make_command_line().parse(["check", "/a", "--max-response-time", text]).max_response_time == expected


def test_without_a_command_it_serves() -> None:
    """Options alone belong to serve, and only the first word can be the name of a command."""
    options = make_command_line().parse(["--stats", "check"])
    assert (options.command, options.stats) == ("serve", ["check"])
    assert make_command_line().parse([]).command == "serve"
