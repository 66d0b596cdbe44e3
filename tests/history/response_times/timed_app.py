"""A WSGI application that sleeps as long as the path says, and writes its own response times into files."""

import os
import threading
import time


def application(environ, start_response):
    began = time.monotonic()
    time.sleep(float(environ["PATH_INFO"].strip("/")))
    start_response("200 OK", [("Content-Length", "0")])
    with open(f"times-{os.getpid()}-{threading.get_ident()}", "a") as file:
        file.write(f"{time.monotonic() - began:.6f}\n")
    return [b""]
