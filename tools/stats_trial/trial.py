"""Tries one set-up: applications serve under load while somebody follows `discover`, reloads, restarts and boots.

What `discover` prints is read as a person reads it: which lines to paste, where, and what it lists in the end.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tools import systemd_machine
from tools.stats_trial import inside, setups
from tools.stats_trial.setups import SetUp
from tools.systemd_machine import Booted

ROUNDS = 3
"""Times that `discover` may ask to be run again."""

COMMAND_SECONDS = 90.0
READY_SECONDS = 15.0
GONE_SECONDS = 4.0  # without any process of uWSGI after this time, none will come
SETTLE_SECONDS = 2.0  # a reload is asked for and done later: under 1 s on an idle machine
ANSWERS = 20

_PLACE = "/srv/trial"
_STRANGER = "stranger"
_PROGRAM = "/opt/uwsgi-headroom/bin/uwsgi-headroom"
_WHY = "journalctl --no-pager -o cat; cat /var/log/uwsgi/app/*.log /var/log/shop.log /home/anna/shop/log"
_ERRORS = r"grep -h -o -E '(bind\(\)|unlink\(\)|invalid socket|FATAL|\[emperor\] unloyal)[^\[]*' | sort -u"


@dataclass(frozen=True)
class Phase:
    """What one act did to the applications.

    serves: all answer afterwards; failed: requests without an answer; away: the longest time in seconds without an
    answer; kept: the applications' sockets have the mode and the owner of before; exporter and other: whether the
    exporter's user and another user can read all stats servers, None if there are none; exact: whether the exporter's
    counts equal the clients', None if it reads none; notes: what was seen of failures.
    """

    serves: bool
    failed: int
    away: float
    kept: bool
    exporter: bool | None = None
    other: bool | None = None
    exact: bool | None = None
    notes: tuple[str, ...] = ()


@dataclass
class Trial:
    """A set-up in a booted machine with the root directory `root`, and what has been found out so far."""

    set_up: SetUp
    machine: Booted
    root: Path
    printed: list[str] = field(default_factory=list)
    """What `discover` printed, each time."""
    phases: dict[str, Phase] = field(default_factory=dict)
    """By the act: follow, reload, restart, reboot."""
    notes: list[str] = field(default_factory=list)
    watched: dict[str, str] = field(default_factory=dict)
    """The addresses of the stats servers, by the exporter's name."""
    watch: list[str] = field(default_factory=list)
    """The command of the exporter."""
    modes: str = ""
    answers: Counter[str] = field(default_factory=Counter)
    """Of each instance of an application, in all acts."""

    def follow(self) -> None:
        """Follows `discover` until it lists the stats of all applications, or prints no more lines to paste."""
        self._begin()
        followed: list[Step] = []
        self.phases["follow"] = self._during(lambda: followed.extend(self._followed()))
        if not self.watched:
            return
        usual = Step("Reload uWSGI:", self.set_up.reload)  # instead of a line that names a process which may have ended
        reloads = [usual if "kill -HUP" in step.lines else step for step in followed if step.reloads or step.restarts]
        reloads = reloads or [usual]
        self.phases["reload"] = self._during(lambda: self._do(*reloads))
        self._stop_and_boot()

    def run(self, script: str, user: str = "root") -> str:
        """Runs lines in a shell, as somebody who pastes them. Notes it if they fail."""
        words = ["bash", "-c", script] if user == "root" else ["su", "-", user, "-s", "/bin/bash", "-c", script]
        try:
            ran = subprocess.run(
                [*self.machine.command, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                timeout=COMMAND_SECONDS,
            )
        except subprocess.TimeoutExpired:
            self.notes.append(f"not within {COMMAND_SECONDS:g} s: {script}")
            return ""
        if ran.returncode:
            self.notes.append(f"status {ran.returncode}: {script}: {ran.stdout.strip()[-300:]}")
        return ran.stdout

    def _begin(self) -> None:
        place = self.root / _PLACE.strip("/")
        place.mkdir()
        place.chmod(0o1777)
        shutil.copyfile(inside.__file__, place / "inside.py")
        for name in self.set_up.apps:
            (self.root / "srv" / name).mkdir()
            text = setups.APPLICATION.replace("NAME", name)
            (self.root / "srv" / name / f"{name}.py").write_text(text)
        for path, text in self.set_up.files.items():
            file = self.root / path.strip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        users = [_STRANGER, *(["uwsgi-headroom"] if self.set_up.exporter == "uwsgi-headroom" else [])]
        self.run("; ".join(f"useradd --system --user-group --shell /usr/sbin/nologin {user}" for user in users))
        self.run(f"ln -s {_PROGRAM} /usr/local/bin/")
        self.run(f"{self.set_up.prepare} && systemctl daemon-reload && {self.set_up.start}")
        self._await_sockets()
        self.modes = self._socket_modes()

    def _await_sockets(self) -> None:
        tests = " && ".join(f"[ -S {path} ]" for path in self._socket_paths()) or "sleep 2"
        self.run(f"for i in $(seq 100); do {tests} && break; sleep 0.2; done; {tests}")

    def _followed(self) -> list[Step]:
        """Does what `discover` prints, in its order, until it prints no more; returns the steps of the last round."""
        last: list[Step] = []
        for path, text in self.set_up.edited.items():
            self._append(path, text)
        for turn in range(ROUNDS + 1):
            printed = self._discover()
            self.printed.append(printed)
            self.watched = stats_addresses(printed)
            self.watch = shlex.split(self.set_up.watch) or watch_command(printed)
            steps = [step for block in blocks(printed) for step in block.steps]
            if turn == ROUNDS or not any(step.lines or step.restarts for step in steps):
                break
            self._do(*steps)
            last = steps
            time.sleep(SETTLE_SECONDS)
        return last

    def _discover(self) -> str:
        before = len(self.notes)
        printed = self.run(self.set_up.discover, self.set_up.discover_as)
        del self.notes[before:]  # its status is 1 as long as there are no stats
        return printed

    def _do(self, *steps: Step) -> None:
        """Does what steps say. Editing a unit includes the reload of systemd, as with `systemctl edit`."""
        for step in steps:
            if step.file:
                self._append(step.file, step.lines)
            elif step.lines and step.is_options:
                edit = f'sed -i "s|^ExecStart=.*|& {step.lines}|" /etc/systemd/system/shop.service'
                self.run(f"{edit}; systemctl daemon-reload")
            elif step.lines:
                self.run(step.lines, self.set_up.discover_as)
                time.sleep(SETTLE_SECONDS / 2)
            elif step.restarts:
                self._restart()

    def _restart(self) -> None:
        self.run(f"{self.set_up.stop}; sleep 2")
        self.run(self.set_up.start)

    def _append(self, path: str, lines: str) -> None:
        if self.set_up.discover_as != "root" and path.startswith(("/etc", "/usr")):
            self.notes.append(f"{self.set_up.discover_as} may not write {path}")
            return
        self.run(f"cat >> {shlex.quote(path)} <<'EOT'\n{lines.rstrip()}\nEOT")

    def _stop_and_boot(self) -> None:
        self.phases["restart"] = self._during(self._restart)
        subprocess.run(self.machine.restart, capture_output=True, check=True)
        systemd_machine.await_boot(self.machine)
        if self.set_up.at_boot:
            self.run(self.set_up.at_boot)
        self.phases["reboot"] = self._during(lambda: None)

    def _during(self, act: Callable[[], object]) -> Phase:
        with self._load() as states:
            self._await_answers(states, {})
            act()
            time.sleep(SETTLE_SECONDS)
            serves = self._await_answers(states, _counted(states))
        before = len(self.notes)
        last = _states(states)
        for state in last.values():
            self.answers.update(state["answers"])
        failed = sum(sum(state["failed"].values()) for state in last.values())
        away = max((state["away"] for state in last.values()), default=0.0)
        modes = self._socket_modes()
        kept = modes == self.modes
        notes = [] if kept else [f"sockets {self.modes} -> {modes}"]
        exporter = other = exact = None
        if self.watched and serves:
            exporter, other = self._readers()
            expected = {name: self.answers[last[name]["last"]] for name in self.set_up.apps}
            exact = exporter is not False and self._exact(expected)
            exporter = exact if exporter is None else exporter
        if not serves:
            why = self.run(f"({_WHY}) 2>/dev/null | {_ERRORS}")
            notes.append("; ".join(" ".join(line.split()) for line in why.splitlines()) or "does not answer")
        notes += self.notes[before:]
        return Phase(serves, failed, away, kept, exporter, other, exact, tuple(notes))

    def _readers(self) -> tuple[bool | None, bool]:
        """Whether the exporter's user can read all stats servers (None for a unit), and whether another user can."""
        users = [_STRANGER] if self._exporters_unit else [_STRANGER, self.set_up.exporter]
        read: dict[str, list[bool]] = {user: [] for user in users}
        for user, results in read.items():
            for address in self.watched.values():
                script = f"runuser -u {user} -- python3 {_PLACE}/inside.py read {shlex.quote(address)} || true"
                said = self.run(script).strip()
                results.append(said.startswith("a document"))
                if results[-1] == (user == _STRANGER):
                    self.notes.append(f"{user}, {address}: {said}")
        others = any(read[_STRANGER])
        return None if self._exporters_unit else all(read[self.set_up.exporter]), others

    @property
    def _exporters_unit(self) -> bool:
        return self.set_up.exporter.endswith(".service")

    def _exact(self, answers: Mapping[str, int]) -> bool:
        """Whether an exporter counts as many requests as the clients got answers. It may name a single server by
        something else than the application's file."""
        one = len(answers) == len(self.watched) == 1
        expected = dict(zip(self.watched, answers.values(), strict=True)) if one else dict(answers)
        words = ["python3", f"{_PLACE}/inside.py", "figures", json.dumps(expected)]
        if self._exporters_unit:
            script = f"systemctl restart {self.set_up.exporter}; {shlex.join([*words, 'sleep', '60'])} || true"
        else:
            run = shlex.join(["runuser", "-u", self.set_up.exporter, "--", *words, *self.watch])
            script = f"cd /tmp; {run} || true"
        said = self.run(script)
        counts = json.loads(said)["counts"] if said.startswith("{") else None
        if counts != expected:
            self.notes.append(f"expected {expected}: {said.strip()}")
        return counts == expected

    @contextlib.contextmanager
    def _load(self) -> Iterator[Mapping[str, Path]]:
        """Runs a client for each application; yields the files in which they write what came back."""
        place = self.root / _PLACE.strip("/")
        (place / "stop").unlink(missing_ok=True)
        states = {name: place / f"{name}.state" for name in self.set_up.apps}
        running = []
        for name, app in self.set_up.apps.items():
            states[name].unlink(missing_ok=True)
            client = ["python3", f"{_PLACE}/inside.py", "load", app.socket, f"{_PLACE}/{name}.state", f"{_PLACE}/stop"]
            running.append(subprocess.Popen([*self.machine.command, "runuser", "-u", app.client, "--", *client]))
        try:
            yield states
        finally:
            (place / "stop").touch()
            for ended in running:
                ended.wait(inside.LIMIT_SECONDS + 10)

    def _await_answers(self, states: Mapping[str, Path], before: Mapping[str, int]) -> bool:
        """Waits until every application has answered some requests more than before; whether they have."""
        begun = time.monotonic()
        while (waited := time.monotonic() - begun) < READY_SECONDS:
            now = _counted(states)
            if all(now[name] >= before.get(name, 0) + ANSWERS for name in states):
                return True
            if waited > GONE_SECONDS and not self.run("pgrep -x uwsgi || true"):
                return False
            time.sleep(0.1)
        return False

    def _socket_modes(self) -> str:
        paths = " ".join(self._socket_paths())
        return " ".join(self.run(f"stat -c '%a %U:%G' {paths} || true").split("\n")).strip() if paths else ""

    def _socket_paths(self) -> list[str]:
        return [app.socket for app in self.set_up.apps.values() if app.socket.startswith("/")]


def _states(files: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def _counted(files: Mapping[str, Path]) -> dict[str, int]:
    states = _states(files)
    return {name: sum(states[name]["answers"].values()) if name in states else 0 for name in files}


_BLOCK = re.compile(r"^([\w.-]+): (?:no stats server|uWSGI)\b")
_STEP = re.compile(r"^ {1,3}(\d+)\. (.*)$")
_PASTED = " " * 4
_FILE = re.compile(r"\b(?:to|in|of) (/[^\s,;:]+)")


@dataclass(frozen=True)
class Step:
    """A numbered step. lines: what is to be pasted, empty if the step is advice; file: what the lines are appended to,
    empty if they are commands."""

    heading: str
    lines: str = ""
    file: str = ""

    @property
    def reloads(self) -> bool:
        named = re.search(r"\breload\b", self.heading, re.IGNORECASE)
        return bool(named and self.lines and not self.file and not self.restarts)

    @property
    def restarts(self) -> bool:
        """Whether the step stops and starts uWSGI, with its lines or as its user does it."""
        return bool(re.match(r"(?:restart|stop and start)\b", self.heading, re.IGNORECASE))

    @property
    def is_options(self) -> bool:
        """Whether the lines are options for the command line that starts uWSGI."""
        return "command line" in self.heading and self.lines.startswith("--")


@dataclass(frozen=True)
class Block:
    """What is said about one uWSGI; name: as it begins."""

    name: str
    steps: tuple[Step, ...]


def blocks(printed: str) -> list[Block]:
    """The blocks of uWSGIs, without stats or with stats that the exporter cannot read yet."""
    found: list[Block] = []
    lines: list[str] = []
    name = ""
    for line in [*printed.splitlines(), "end"]:
        if line and not line[0].isspace():
            if name:
                found.append(Block(name, _steps(lines)))
            begun = _BLOCK.match(line)
            name, lines = begun[1] if begun else "", []
        else:
            lines.append(line)
    return found


def stats_addresses(printed: str) -> dict[str, str]:
    """The addresses of the command that watches all servers, by name."""
    words = watch_command(printed)
    pairs = [word.partition("=") for before, word in pairwise(words) if before == "--stats"]
    return {name: address for name, _, address in pairs}


def watch_command(printed: str) -> list[str]:
    """The words of the command that watches all servers, empty if none is printed."""
    _, said, after = f"\n{printed}".partition("\nTo watch ")
    if not said:
        return []
    command: list[str] = []
    for line in after.splitlines()[1:]:
        command.append(line.strip().removesuffix("\\"))
        if not line.endswith("\\"):
            break
    return shlex.split(" ".join(command))


def _steps(lines: Sequence[str]) -> tuple[Step, ...]:
    """The steps of a block. A heading may go on in the next lines, up to a blank one; what is pasted is indented."""
    steps: list[Step] = []
    pasted: list[str] = []
    heading = before = ""
    for line in [*lines, "  0. end"]:
        begun, belongs = _STEP.match(line), line.startswith(_PASTED) or not line.strip()
        if begun or not (belongs or (before and not pasted)):
            steps += [_step(heading, pasted)] if heading else []
            heading, pasted = (begun[2] if begun else ""), []
        elif heading and belongs:
            pasted += [line] if pasted or line.strip() else []
        elif heading:
            heading += f" {line.strip()}"
        before = line.strip()
    return tuple(steps)


def _step(heading: str, pasted: Sequence[str]) -> Step:
    file = _FILE.search(heading)
    appended = file and re.search(r"\b(?:add|append|write|put)\b", heading, re.IGNORECASE)
    return Step(heading, textwrap.dedent("\n".join(pasted)).strip("\n"), file[1] if file and appended else "")
