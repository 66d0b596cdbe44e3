"""What runs inside the machine counts every answer, and sees what it may not read."""

from __future__ import annotations

import json
import socket
import threading

from tools.stats_trial import inside

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
    """A real listener on a UNIX socket."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(8)
    thread = threading.Thread(target=serve, args=(listener, answers), daemon=True)
    thread.start()
    return thread


def test_each_answer_and_each_failure_counts(tmp_path, monkeypatch) -> None:
    """Answers by the instance that gave them; an answer cut short and a refused connection are failures."""
    state, stop = tmp_path / "state", tmp_path / "stop"
    thread = listening(str(tmp_path / "s"), [ANSWER, ANSWER.replace(b"1f", b"2a"), ANSWER[:20], ANSWER])
    pauses = []

    def pause(_seconds: float) -> None:
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


def test_a_reader_says_what_it_gets(tmp_path, capsys) -> None:
    """A document, or the error."""
    listening(str(tmp_path / "s"), [b'{"pid": 7}', b'{"pid"'])
    assert inside.main(["read", f"unix://{tmp_path}/s"]) == 0
    assert inside.main(["read", f"{tmp_path}/s"]) == 1
    assert inside.main(["read", f"{tmp_path}/none"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "a document of process 7"
    assert said[2].startswith("FileNotFoundError")
