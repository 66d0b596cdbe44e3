"""The trial of `discover`: its steps followed in a container, and what it makes of them."""

import json
import socket
import threading

import pytest

from tools.stats_trial import __main__ as table
from tools.stats_trial import inside, trial
from tools.stats_trial.__main__ import Row
from tools.stats_trial.trial import Phase

PRINTED = """\
blog: uWSGI 2.0.31, 2 workers
  master 80 of user blog, /etc/blog.ini, in /srv
  unix:///run/uwsgi/app/blog/stats

shop: no stats server (master 81 of user shop, /etc/shop.ini, in /)

  1. Make a directory for the stats socket, now and at each
  boot:

    echo 'd /run/uwsgi/app/shop 2750 shop shop -' > /etc/tmpfiles.d/shop.conf
    systemd-tmpfiles --create shop.conf

  2. Add at the end of /etc/shop.ini; its Emperor reloads it:

    if-dir = /run/uwsgi/app/shop
      stats = /run/uwsgi/app/shop/stats

    endif =

  3. Reload uWSGI:
     systemctl reload shop
  4. See that your application still answers, then run `discover` again: it lists
  the stats server of shop.

  Tried: user shop can bind a socket there.
  Note: nothing.

other: no stats server (master 82 of user shop)
  No steps are proposed: its configuration file is not known.

To watch them all:
  uwsgi-headroom --stats blog=unix:///run/uwsgi/app/blog/stats \\
    --stats 'cart 2=/run/cart'
"""


def test_steps_are_commands_lines_of_a_file_or_advice():
    """Lines are indented by four; headings go on with less; the command that watches goes over lines."""
    assert trial.stats_addresses(PRINTED) == {"blog": "unix:///run/uwsgi/app/blog/stats", "cart 2": "/run/cart"}
    assert trial.watch_command(PRINTED)[:2] == ["uwsgi-headroom", "--stats"]
    assert trial.watch_command("No uWSGI master runs here.") == []
    blog, shop, other = trial.blocks(PRINTED)
    make, add, reload, look = shop.steps
    assert (blog.name, blog.steps, shop.name, other.name, other.steps) == ("blog", (), "shop", "other", ())
    assert make.lines.splitlines() == [
        "echo 'd /run/uwsgi/app/shop 2750 shop shop -' > /etc/tmpfiles.d/shop.conf",
        "systemd-tmpfiles --create shop.conf",
    ]
    assert not make.file
    assert add.file == "/etc/shop.ini"
    assert add.lines == "if-dir = /run/uwsgi/app/shop\n  stats = /run/uwsgi/app/shop/stats\n\nendif ="
    assert (reload.lines, reload.reloads, add.reloads) == ("systemctl reload shop", True, False)
    assert look.heading.endswith("it lists the stats server of shop.")
    assert not look.lines


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nshop 1f"


def serve(listener: socket.socket, answers: list[bytes]) -> None:
    """Gives one answer to each connection, after its request if it is one of HTTP, and closes the listener."""
    for answer in answers:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096 if answer[:1] == b"H" else 0)
            connection.sendall(answer)
    listener.close()


def listening(path: str, answers: list[bytes]) -> threading.Thread:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(8)
    thread = threading.Thread(target=serve, args=(listener, answers), daemon=True)
    thread.start()
    return thread


def test_each_answer_and_each_failure_counts(tmp_path, monkeypatch):
    """Answers by the instance that gave them; an answer cut short and a refused connection are failures."""
    state, stop = tmp_path / "state", tmp_path / "stop"
    thread = listening(str(tmp_path / "s"), [ANSWER, ANSWER.replace(b"1f", b"2a"), ANSWER[:20], ANSWER])
    pauses = []

    def pause(_seconds):
        pauses.append(1)
        if len(pauses) == 4:
            thread.join(60)
        if len(pauses) == 5:
            stop.touch()

    monkeypatch.setattr(inside.time, "sleep", pause)
    inside.load(str(tmp_path / "s"), state, stop)
    seen = json.loads(state.read_text())
    assert seen["answers"] == {"shop 1f": 2, "shop 2a": 1}
    assert seen["failed"] == {"ConnectionAbortedError": 1, "ConnectionRefusedError": 1}
    assert seen["last"] == "shop 1f"


def test_a_reader_says_what_it_gets(tmp_path, capsys):
    listening(str(tmp_path / "s"), [b'{"pid": 7}', b'{"pid"'])
    assert inside.main(["read", f"unix://{tmp_path}/s"]) == 0
    assert inside.main(["read", f"{tmp_path}/s"]) == 1
    assert inside.main(["read", f"{tmp_path}/none"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "a document of process 7"
    assert said[2].startswith("FileNotFoundError")


GOOD = Phase(serves=True, failed=0, away=1.1, kept=True, exporter=True, other=False, exact=True)
DOWN = Phase(serves=False, failed=900, away=30.0, kept=True, notes=("bind(): Permission denied",))
STOPPED = Phase(serves=True, failed=90, away=3.2, kept=True, exporter=True, other=False, exact=True)
ACTS = {"follow": GOOD, "reload": GOOD, "restart": STOPPED, "reboot": GOOD}
STEPS = "shop: no stats server (master 1)\n\n  1. Reload uWSGI:\n\n    systemctl reload shop\n"
RESTART = STEPS.replace("Reload uWSGI", "Stop and start uWSGI when that suits you; do not reload it")


def row(printed: str = STEPS, **acts: Phase) -> Row:
    """A row of a set-up, with other phases than those without a fault."""
    return Row("trixie", "a unit", [printed], {**ACTS, **acts})


def changed(**fields: bool | int) -> Phase:
    """A phase with a fault."""
    return Phase(**{**{name: getattr(GOOD, name) for name in GOOD.__dataclass_fields__}, **fields})


def test_the_table_has_a_row_for_a_set_up():
    """Requests fail in a stop and start with any lines, and in a reload none may. Without lines nothing is followed."""
    assert row().verdict == "good"
    assert row(follow=changed(failed=1)).verdict == "HARM"
    assert row(RESTART, follow=changed(failed=80)).verdict == "good"
    assert Row("trixie", "a unit", ["shop: no stats server (x)"], {"follow": GOOD}).verdict == "no lines"
    assert Row("trixie", "a unit", [STEPS], {"follow": GOOD}).verdict == "NO STATS"
    (line,) = [line for line in table.render([row(reload=DOWN)]).splitlines() if line.startswith("| a unit")]
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[2:7] == ["1 line", "0 failed, 1.1 s", "DOWN", "90 failed, 3.2 s", "0 failed, 1.1 s"]
    assert cells[-1] == "HARM"


@pytest.mark.parametrize("act", ["follow", "reload", "restart", "reboot"])
def test_an_application_that_is_down_or_changed_is_harmed(act):
    """After whichever act."""
    assert row(**{act: DOWN}).verdict == "HARM"
    assert row(**{act: changed(kept=False)}).verdict == "HARM"


@pytest.mark.parametrize("fault", [{"exporter": False}, {"other": True}, {"exact": False}])
def test_stats_that_are_not_as_promised_are_faults(fault):
    """The exporter reads them, exactly, and nobody else does."""
    assert row(reboot=changed(**fault)).verdict == "FAULTS"
