"""A WSGI application whose requests wait until the file `stop` exists: asleep, for a lock, for uWSGI's lock, or for the
server on the UNIX socket `backend`."""

import os
import socket
import threading
import time

import uwsgi

LOCK = threading.Lock()


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


def application(environ, start_response):
    {"/sleep": sleep, "/lock": lock, "/uwsgi-lock": uwsgi_lock, "/backend": backend}[environ["PATH_INFO"]]()
    start_response("200 OK", [])
    return [b""]
