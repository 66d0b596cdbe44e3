"""Questions about another process: answers, late ones, questions that hang, and what they may cost."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.support.other_namespaces import in_child
from tests.support.real_uwsgi import wait_until
from tests.support.simulated_server import MovableClock
from uwsgi_headroom.kernel import aside, procfs
from uwsgi_headroom.kernel.aside import Aside, NotYetError, PausedError, Questions


@pytest.fixture
def child():
    one = Aside()
    one.start()
    yield one
    one.end()


@pytest.fixture
def never(tmp_path):
    """A file that is never read: a FIFO without a writer, in place of one in a locked address space."""
    os.mkfifo(tmp_path / "cmdline")
    return str(tmp_path / "cmdline")


def ask(questions: Questions, question: Callable[..., object], *arguments: object) -> object:
    answers: list[object] = []

    def is_there() -> bool:
        try:
            answers.append(questions.ask(question, *arguments))
        except NotYetError:
            return False
        return True

    wait_until(is_there, what="the answer")
    return answers[0]


def burn(seconds: float) -> float:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds


def fail() -> None:
    raise ZeroDivisionError("of the question")


def open_descriptors() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the list itself
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [target for target in found if target != "/dev/null"]


def test_answers(child):
    """A question is answered in another process, which has no descriptor of this one; what it raises is raised."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        questions = Questions(aside=child)
        assert ask(questions, os.getpid) != os.getpid()
        assert ask(questions, os.getppid) == os.getpid()
        schedule, own = sorted(ask(questions, open_descriptors))
    assert own.startswith("socket:")
    assert schedule.endswith("/schedstat")
    with pytest.raises(ZeroDivisionError, match="of the question"):
        ask(questions, fail)
    with pytest.raises(FileNotFoundError):
        ask(questions, procfs.read_file, "/proc/no-such-process")


def test_a_question_that_hangs(child, never):
    """The caller does not wait. The server is asked nothing for a while, then for longer; others are answered."""
    hands = MovableClock()
    questions, other = Questions(hands.clock.monotonic, child), Questions(hands.clock.monotonic, child)
    pid = ask(other, os.getpid)
    with pytest.raises(NotYetError):
        questions.ask(procfs.read_file, never)
    with pytest.raises(NotYetError):
        other.ask(os.getpid)
    for pause in (aside.PAUSE_SECONDS, 2 * aside.PAUSE_SECONDS):
        with pytest.raises(PausedError, match="could not be read in time"):
            ask(questions, procfs.read_file, never)
        with pytest.raises(PausedError):
            questions.ask(os.getpid)
        assert ask(other, os.getpid) != pid
        hands.move(pause - 1)
        with pytest.raises(PausedError):
            questions.ask(os.getpid)
        hands.move(1)
    assert ask(questions, os.getpid) == ask(other, os.getpid)


def test_a_late_answer_is_kept(child):
    """For the one who asks the same again; not for a question about the moment, nor with other arguments."""
    questions = Questions(aside=child)
    with pytest.raises(NotYetError):
        questions.ask(burn, 0.1)
    wait_until(lambda: child.wait(questions._waiting, 0.1), what="the answer")
    assert questions.ask(burn, 0.1) == 0.1
    with pytest.raises(NotYetError):
        questions.ask_now(burn, 0.1)
    wait_until(lambda: child.wait(questions._waiting, 0.1), what="the answer")
    assert questions.ask(os.getppid) == os.getpid()


def test_a_late_answer_is_kept_while_others_are_asked(child):
    """For a while. Else a machine on which each answer is late would never learn any of them."""
    hands = MovableClock()
    questions = Questions(hands.clock.monotonic, child)
    for _ in range(2):
        for seconds in (0.05, 0.06):
            with pytest.raises(NotYetError):
                questions.ask(burn, seconds)
            wait_until(lambda: child.wait(questions._waiting, 0.1), what="the answer")
        assert [questions.ask(burn, seconds) for seconds in (0.05, 0.06)] == [0.05, 0.06]
        hands.move(aside.KEPT_SECONDS)
    for seconds in (0.05, 0.06, 0.05):
        with pytest.raises(NotYetError):
            questions.ask(burn, seconds)
        wait_until(lambda: child.wait(questions._waiting, 0.1), what="the answer")
        hands.move(aside.KEPT_SECONDS)


def test_what_a_server_may_cost(child):
    """After an expensive answer it is asked nothing until its share of the time has passed. Cheap ones are free."""
    hands = MovableClock()
    questions = Questions(hands.clock.monotonic, child)
    for _ in range(200):
        ask(questions, os.getpid)
    ask(questions, burn, aside.MOST_OWED + 0.1)
    with pytest.raises(PausedError, match="too much time"):
        ask(questions, os.getpid)
    hands.move(0.2 / aside.SHARE)
    ask(questions, os.getpid)


def test_waiting_costs_as_computing_does(child):
    """A process that makes each answer a little late would else take the caller's time again and again."""
    questions = Questions(MovableClock().clock.monotonic, child)
    ask(questions, time.sleep, 0.1)
    ask(questions, time.sleep, 0.2)
    with pytest.raises(PausedError, match="too much time"):
        ask(questions, time.sleep, 0.1)


def test_a_busy_machine_is_no_hang(child):
    assert ask(Questions(aside=child), burn, aside.HUNG_SECONDS / 2) == aside.HUNG_SECONDS / 2
    with pytest.raises(PausedError):
        ask(Questions(aside=child), burn, 60.0)


def test_if_the_process_is_killed_no_question_is_lost(child):
    questions = Questions(aside=child)
    pid = ask(questions, os.getpid)
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    assert ask(questions, os.getpid) not in (pid, os.getpid())


def test_the_process_cannot_start(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(FileNotFoundError):
        Questions(aside=Aside()).ask(os.getpid)
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(ConnectionResetError, match="does not start"):
        ask(Questions(aside=Aside()), os.getpid)


def test_it_ends_with_its_parent_also_while_it_hangs(never):
    program = (
        "import os\nfrom uwsgi_headroom.kernel import aside, procfs\nprint(aside.ask(os.getpid), flush=True)\n"
        f"aside.SAMPLES.submit(None, procfs.read_file, [{never!r}])\nos.kill(os.getpid(), 9)\n"
    )
    parent = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert parent.returncode == -signal.SIGKILL
    child = int(parent.stdout)
    wait_until(lambda: procfs.read_state(child) in (b"", b"Z", b"X"), what="the child to end")  # somebody may reap it


def test_a_forked_process_has_its_own(child):
    pid = ask(Questions(aside=child), os.getpid)
    assert in_child(lambda: ask(Questions(aside=child), os.getppid) == os.getpid())
    assert ask(Questions(aside=child), os.getpid) == pid


def test_a_command_waits_for_an_answer(never):
    assert aside.ask(os.getppid) == os.getpid()
    with pytest.raises(TimeoutError):
        aside.ask(procfs.read_file, never, seconds=0.1)
    assert aside.ask(os.getppid) == os.getpid()
