"""A WSGI application whose workers each allocate 50 MB after the fork."""

import uwsgi

OWN_BYTES = 50_000_000
_own = []


def _take_memory():
    _own.append(b"x" * OWN_BYTES)


uwsgi.post_fork_hook = _take_memory


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
