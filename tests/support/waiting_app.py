"""A WSGI application whose requests wait until the file `stop` exists: asleep, for a lock, for uWSGI's lock, or for the
server on the UNIX socket `backend`; or for their client, as WebSockets; or that hold a lock or a place in a pool for
50 ms, and say for how many seconds it was."""

import contextlib
import fcntl
import os
import socket
import threading
import time

import uwsgi

LOCK, AGAIN, POOL = threading.Lock(), threading.RLock(), threading.BoundedSemaphore(2)


def sleep():
    while not os.path.exists("stop"):
        time.sleep(0.2)


def lock():
    with LOCK:
        sleep()


def uwsgi_lock():
    uwsgi.lock()
    sleep()
    uwsgi.unlock()


def backend():
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("backend")
        connection.recv(1)


def sleep_a_little():
    begin = time.monotonic()
    time.sleep(0.05)
    return time.monotonic() - begin


def hold():
    with LOCK:
        return sleep_a_little()


def hold_again():
    with AGAIN, AGAIN:
        return sleep_a_little()


def hold_file():
    with open("locked", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return sleep_a_little()


def pool():
    with POOL:
        return sleep_a_little()


def websocket():
    with contextlib.suppress(OSError):  # a uWSGI without OpenSSL has no handshake, and reads all the same
        uwsgi.websocket_handshake()
    while True:
        uwsgi.websocket_recv()


PATHS = {
    "/lock": lock,
    "/uwsgi-lock": uwsgi_lock,
    "/backend": backend,
    "/hold": hold,
    "/hold-again": hold_again,
    "/hold-file": hold_file,
    "/pool": pool,
    "/websocket": websocket,
    "/write": float,
}


def application(environ, start_response):
    seconds = PATHS.get(environ["PATH_INFO"], sleep)()
    start_response("200 OK", [])
    return [b"%f" % (seconds or 0.0) * (2_000_000 if environ["PATH_INFO"] == "/write" else 1)]
