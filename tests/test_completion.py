"""Completion scripts in real shells: Tab completes commands, options, values and paths."""

import contextlib
import shutil
import subprocess

import pytest

from tests.support.driven_top import driven
from uwsgi_headroom.arguments.commands import SHELLS, make_command_line
from uwsgi_headroom.arguments.completion import render_script

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
