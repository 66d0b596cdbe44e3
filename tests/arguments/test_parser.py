"""Arguments of the commands: rows, their parsers, and mistakes."""

import argparse

import pytest

from uwsgi_headroom.arguments.commands import SETTING_FLAGS, make_command_line
from uwsgi_headroom.arguments.parser import Flag, Parser, UsageError
from uwsgi_headroom.check.request import Threshold
from uwsgi_headroom.config.settings import FLAGS

KINDS = (
    (Flag("--once", ""), [], False),
    (Flag("--once", ""), ["--once"], True),
    (Flag("-n --number NUMBER", "", parse=int, default=1), [], 1),
    (Flag("-n --number NUMBER", "", parse=int, default=1), ["-n", "2"], 2),
    (Flag("--web.config.file FILE", ""), ["--web.config.file=/a"], "/a"),
    (Flag("--log PATH", "", is_repeatable=True), [], []),
    (Flag("--log PATH", "", is_repeatable=True), ["--log", "a", "--log=b"], ["a", "b"]),
    (Flag("--waits true|false", "", is_optional=True), [], None),
    (Flag("--waits true|false", "", is_optional=True), ["--waits"], "true"),
    (Flag("--waits true|false", "", is_optional=True), ["--waits=no"], "no"),
    (Flag("--format", "", values=("text", "json")), ["--format", "json"], "json"),
    (Flag("--level LEVEL", "", values=("info",), is_checked=False), ["--level", "loud"], "loud"),
    (Flag("server NAME", ""), ["shop"], "shop"),
    (Flag("addresses ADDRESS", "", is_repeatable=True), [], []),
    (Flag("addresses ADDRESS", "", is_repeatable=True), ["a", "b"], ["a", "b"]),
    (Flag("names NAME", "", extra={"nargs": "+"}), ["a"], ["a"]),
)


@pytest.mark.parametrize(("flag", "words", "value"), KINDS, ids=lambda each: getattr(each, "form", str(each)))
def test_a_row_is_parsed(flag, words, value):
    assert vars(Parser(flags=(flag,)).parse_args(words)) == {flag.name: value}


@pytest.mark.parametrize(
    ("flag", "words", "message"),
    [
        (Flag("--once", ""), ["--once=1"], "ignored explicit argument"),
        (Flag("--format", "", values=("text", "json")), ["--format", "xml"], "invalid choice: 'xml'"),
        (Flag("--log PATH", ""), ["--log"], "expected one argument"),
        (Flag("server NAME", ""), [], "the following arguments are required: NAME"),
        (Flag("names NAME", "", extra={"nargs": "+"}), [], "the following arguments are required: NAME"),
        (Flag("--ini FILE", "", extra={"required": True}), [], "the following arguments are required: --ini"),
    ],
)
def test_a_row_refuses_other_words(flag, words, message):
    """A missing value, a value too many and a value that the row does not list are errors."""
    with pytest.raises(UsageError, match=message):
        Parser(flags=(flag,)).parse_args(words)


def test_the_form_of_a_row():
    """The short name comes first and the metavar last. Settings keep their names; help needs its flag."""
    assert [flag.name for flag in SETTING_FLAGS] == [setting.name for setting in FLAGS]
    parser = Parser(flags=(Flag("--format FORMAT", ""),), add_help=False)
    assert parser.parse_known_args(["--help"]) == (argparse.Namespace(format=None), ["--help"])
    seen = [
        (flag.names, flag.name, flag.metavar) for flag in (Flag("-h --help", ""), Flag("addresses [N=]ADDRESS", ""))
    ]
    assert seen == [(("-h", "--help"), "help", ""), ((), "addresses", "[N=]ADDRESS")]


def test_each_flag_of_a_command_has_a_row():
    """The rows of a parser are all that argparse knows, so that what is made from the rows lacks no flag."""
    for parser in make_command_line().commands.values():
        assert [flag.names for flag in parser.flags] == [tuple(each.option_strings) for each in parser._actions]


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
def test_a_mistake_is_named_with_what_was_meant(arguments, message):
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
def test_the_usage_is_that_of_the_command(arguments, usage):
    assert refused(*arguments).usage.startswith(usage)


@pytest.mark.parametrize(
    ("text", "expected"), [("2", Threshold(2.0, None)), ("2:1.2", Threshold(2.0, 1.2)), (":1.2x", Threshold(None, 1.2))]
)
def test_a_minimum(text, expected):
    assert make_command_line().parse(["check", "/a", "--min-headroom", text]).min_headroom == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("250ms", Threshold(0.25, None)), ("0.1:2s", Threshold(0.1, 2.0)), (":2", Threshold(None, 2.0))],
)
def test_a_maximum(text, expected):
    """Times are in seconds, or milliseconds with their unit."""
    assert make_command_line().parse(["check", "/a", "--max-response-time", text]).max_response_time == expected


def test_without_a_command_it_serves():
    """Options alone belong to serve, and only the first word can be the name of a command."""
    options = make_command_line().parse(["--stats", "check"])
    assert (options.command, options.stats) == ("serve", ["check"])
    assert make_command_line().parse([]).command == "serve"
