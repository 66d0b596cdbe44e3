"""A WSGI application whose requests wait until the file `stop` exists in its directory."""

import os
import time


def application(environ, start_response):
    while not os.path.exists("stop"):
        time.sleep(0.05)
    start_response("200 OK", [])
    return [b""]
