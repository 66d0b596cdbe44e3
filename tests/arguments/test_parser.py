"""Arguments of the commands: rows, their parsers, and mistakes."""

import argparse
import contextlib
import shutil
import subprocess

import pytest

from tests.support.driven_top import driven
from uwsgi_headroom.arguments.commands import SETTING_FLAGS, SHELLS, make_command_line
from uwsgi_headroom.arguments.completion import render_script
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
    (Flag("-o --once", ""), ["-o", "--no-once"], False),
    (Flag("--[no-]waits", "", extra={"default": None}), [], None),
    (Flag("--[no-]waits", ""), ["--no-waits"], False),
    (Flag("--[no-]waits", ""), ["--waits", "false"], False),
    (Flag("--[no-]waits", ""), ["--waits=TRUE"], True),
    (Flag("-o --output FILE", "", aliases=("--out",)), ["--out=a"], "a"),
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
        (Flag("--once", ""), ["--once", "1"], "unexpected argument: 1"),
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
    parser = Parser(flags=(Flag("--format FORMAT", ""),))
    assert parser.parse_known_args(["--help"]) == (argparse.Namespace(format=None), ["--help"])
    seen = [
        (flag.names, flag.name, flag.metavar) for flag in (Flag("-h --help", ""), Flag("addresses [N=]ADDRESS", ""))
    ]
    assert seen == [(("-h", "--help"), "help", ""), ((), "addresses", "[N=]ADDRESS")]


def test_each_flag_of_a_command_has_a_row():
    """The rows of a parser are all that argparse knows, so that what is made from the rows lacks no flag."""
    for parser in make_command_line().commands.values():
        known = [each.option_strings for each in parser._actions]
        assert all({*flag.completed} <= {*names} for flag, names in zip(parser.flags, known, strict=True))


def test_a_switch_leaves_the_next_word_alone():
    """Units and scripts of earlier versions have `true` and `false` behind it, or an address."""
    for words, expected in (
        (("--read-locks", "/a"), (True, ["/a"])),
        (("--read-locks", "true", "/a"), (True, ["/a"])),
        (("/a", "--read-locks=false"), (False, ["/a"])),
        (("--code", "--read-locks=true", "/a"), (True, ["/a"])),
    ):
        options = make_command_line().parse(["check", *words])
        assert (options.read_locks, options.addresses) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("--config.file", "a.yml"), ("-c", "a.yml")),
        (("--log", "a=/b", "--waits", "false"), ("--uwsgi-log", "a=/b", "--no-waits")),
        (("check", "/a", "--format", "json", "--seconds=5"), ("check", "/a", "-j", "-s", "5")),
        (("check", "/a", "--read-pollfds", "false"), ("check", "/a", "--no-read-pollfds")),
        (("report", "--history", "a", "--out", "b.md", "--format=json"), ("report", "--history=a", "-o", "b.md", "-j")),
    ],
)
def test_names_of_earlier_versions_are_understood(old, new):
    """They are in no help, no manual page and no completion."""
    line = make_command_line()
    assert line.parse(old) == line.parse(new)
    hidden = {word for flag in SETTING_FLAGS for word in flag.aliases}
    assert not any(word in "\n".join(line.commands["serve"].write_help(is_short=False)) for word in hidden - {"--log"})


def test_the_short_help():
    """`-h` has a line or two for each usual option, in all fewer than 75; `--help` has all options, in groups that fit
    on a screen."""
    commands = make_command_line().commands.values()
    short = [line for each in commands for line in each.write_help(is_short=True) if line.startswith("  -")]
    assert 40 < len(short) <= 75
    for command in commands:
        lines = command.write_help(is_short=False)
        missing = [
            flag.name for flag in command.flags if not any(f"  {flag.form.split()[0]}" in line for line in lines)
        ]
        assert [name for name in missing if name not in ("addresses", "server", "names", "subjects", "shell")] == []
    blocks = "\n".join(make_command_line().commands["serve"].write_help(is_short=False)).split("\n\n")
    assert len(blocks) > 8
    assert max(block.count("\n") for block in blocks) <= 24


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
        (("check", "/a", "--seconds", "abc"), "-s/--seconds: expected 2 to 3600 seconds, not abc"),
        (("top", "--interval", "0"), "--interval: expected 0.25 to 60 seconds, not 0"),
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
    ("arguments", "advice"),
    [
        (("check", "/a", "--nonsense"), "See `uwsgi-headroom check --help`."),
        (("--nonsense",), "See `uwsgi-headroom serve --help`."),
        (("nonsense",), "See `uwsgi-headroom --help`."),
    ],
)
def test_the_advice_is_that_of_the_command(arguments, advice):
    assert refused(*arguments).details == [advice]


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


PROMPT = "ready>"

_COMMANDS = {
    "bash": ("bash", "--noprofile", "--norc", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
_BEGIN = {
    "bash": "bind 'set show-all-if-ambiguous on'; bind 'set completion-query-items 0'; PS1={prompt}; source {script}",
    "zsh": "PROMPT={prompt}; autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' menu no; source {script}",
    "fish": "function fish_prompt; echo -n {prompt}; end; source {script}",
}


@contextlib.contextmanager
def completing_shell(shell, script):
    """Runs an interactive shell with a completion script until the block ends."""
    with driven(command=_COMMANDS[shell], columns=150, lines=50, HOME=str(script.parent), PS1="") as terminal:
        # The shell assembles the prompt from parts, so that the echo of this line does not look like a prompt.
        prompt = f"{PROMPT[:2]}''{PROMPT[2:-1]}'>'"
        terminal.press(_BEGIN[shell].format(prompt=prompt, script=script) + "\r")
        terminal.wait(lambda text: text.splitlines() and PROMPT in text)
        yield terminal


EACH_SHELL = [
    pytest.param(shell, marks=pytest.mark.skipif(not shutil.which(shell), reason=f"needs {shell}: apt-get install it"))
    for shell in SHELLS
]


@pytest.fixture
def folder(tmp_path):
    for shell in SHELLS:
        (tmp_path / f"script.{shell}").write_text(render_script(make_command_line(), shell))
    return tmp_path


@pytest.mark.integration
@pytest.mark.parametrize("shell", EACH_SHELL)
def test_a_tab_completes(shell, folder):
    """Tab in an interactive shell completes each part of a command line from its beginning."""
    (folder / "shop.stats").touch()
    with completing_shell(shell, folder / f"script.{shell}") as terminal:
        for begin, whole in (
            ("uwsgi-headroom ch", "uwsgi-headroom check "),
            ("--max-q", "--max-queue-wait "),
            ("1 --form", "1 --format "),
            ("na", "nagios "),
            (f"{folder}/sh", f"{folder}/shop.stats"),
        ):
            terminal.press(f"{begin}\t")
            terminal.wait(lambda text, whole=whole: whole.strip() in text)
            terminal.press("" if "/" in begin else " ")


@pytest.mark.integration
@pytest.mark.parametrize("shell", EACH_SHELL)
def test_what_there_is_to_choose_from(shell, folder):
    """For an ambiguous beginning, all candidates are listed: commands, options without a command, values."""
    with completing_shell(shell, folder / f"script.{shell}") as terminal:
        terminal.press("uwsgi-headroom \t\t")
        terminal.wait(lambda text: all(name in text for name in make_command_line().commands))
        terminal.press("\x15uwsgi-headroom --w\t\t")  # Ctrl-U discards the line
        terminal.wait(lambda text: "--web.listen-address" in text and "--web.allowed-hosts" in text)
        terminal.press("\x15uwsgi-headroom completion fi\t")
        terminal.wait(lambda text: "uwsgi-headroom completion fish" in text)


@pytest.mark.parametrize("shell", EACH_SHELL)
def test_a_script_is_one_of_its_shell(shell, folder):
    ran = subprocess.run([shell, "-n", folder / f"script.{shell}"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_it(shell):
    """So are values that the settings check, not the parser."""
    line = make_command_line()
    script = render_script(line, shell)
    for values in ("debug info warning error", "logfmt json", "text json nagios"):
        assert values in script
    for name, parser in line.commands.items():
        assert name in script
        for option in parser.options:
            assert (
                option if shell != "fish" else f"-l {option[2:]}" if option[1] == "-" else f"-s {option[1:]}"
            ) in script
