"""The demo application: one route for each way in which a request can keep a worker busy.

Only routes and their limits live here. Every parameter is limited, because strangers may be able to reach the
application.
"""

from __future__ import annotations

import os
import threading
import time
from typing import NoReturn

from flask import Flask, Response, abort, jsonify, request

from app import fibonacci

INDEX = """\
/<number>               the Fibonacci sequence until it exceeds the number, as JSON
/pong                   as little work as a request can be
/fib/<n>                the n-th Fibonacci number, computed the slow way: CPU only, n at most 35
/mixed?cpu_ms=&io_ms=   CPU, then a wait, like an API that queries a database
/slow?s=                a wait only: occupies a thread, uses no CPU
/error                  raises, so that uWSGI counts an exception
"""

MAX_NUMBER = 10**100  # 482 values, 25 kB: without a limit, a short URL could request a huge response
MAX_FIB = 35  # a few seconds on current hardware; each further step takes 1.6 times as long
MAX_CPU_MS = 10_000
MAX_IO_MS = 60_000
MAX_SLOW_S = 900  # longer than any harakiri, and than the 30 s after which a request counts as stuck

app = Flask(__name__)
# Otherwise Flask would turn the exception of /error into its own 500 response, and uWSGI would count no exception.
app.config["PROPAGATE_EXCEPTIONS"] = True


@app.get("/")
def index() -> Response:
    return _text(INDEX)


@app.get("/<int:number>")
def sequence(number: int) -> Response:
    if number > MAX_NUMBER:
        _refuse(f"the number can be at most 1 followed by {len(str(MAX_NUMBER)) - 1} zeros")
    return jsonify(fibonacci.beyond(number))


@app.get("/pong")
def pong() -> Response:
    return _text("Pong!")


@app.get("/fib/<int:n>")
def fib(n: int) -> Response:
    if n > MAX_FIB:
        _refuse(f"n can be at most {MAX_FIB}, it is {n}: the time grows 1.6 times with each step")
    return jsonify(value=fibonacci.naive(n), pid=os.getpid(), thread=threading.current_thread().name)


@app.get("/mixed")
def mixed() -> Response:
    cpu_ms, io_ms = _amount("cpu_ms", MAX_CPU_MS), _amount("io_ms", MAX_IO_MS)
    # The CPU time of this thread alone: a request costs the same, however many threads wait for the interpreter.
    end = time.thread_time() + cpu_ms / 1000
    while time.thread_time() < end:
        pass
    time.sleep(io_ms / 1000)
    return jsonify(cpu_ms=cpu_ms, io_ms=io_ms)


@app.get("/slow")
def slow() -> Response:
    seconds = _amount("s", MAX_SLOW_S, default=1)
    time.sleep(seconds)
    return jsonify(s=seconds)


@app.get("/error")
def error() -> Response:
    raise RuntimeError("asked to fail")


def _amount(name: str, limit: float, default: float = 0) -> float:
    """The query parameter `name` as a number from 0 to `limit`; responds 400 if it is not one."""
    text = request.args.get(name, "")
    try:
        amount = float(text) if text else default
    except ValueError:
        amount = -1
    if not 0 <= amount <= limit:  # `not` of a range, so that "nan" is refused too
        _refuse(f"{name} must be a number from 0 to {limit}, it is {text[:40]!r}")
    return amount


def _refuse(message: str) -> NoReturn:
    abort(_text(message + "\n", 400))


def _text(body: str, status: int = 200) -> Response:
    return Response(body, status, mimetype="text/plain")
