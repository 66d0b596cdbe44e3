"""Reads the bytes of a stats server from its address. Nothing here knows JSON or uWSGI's keys.

uWSGI's master writes the document with a blocking write and does nothing else meanwhile. So that a read never holds
up the server, it follows three rules: receive immediately, to the end, as fast as the bytes come; send nothing to a
raw server; always close the connection at the deadline and at the size cap.
"""

from uwsgi_headroom.source.address import (
    Address,
    File,
    Http,
    HttpAccess,
    ProcessOfApp,
    SocketOfApp,
    Tcp,
    Unix,
    basic,
    bearer,
    parse_address,
)
from uwsgi_headroom.source.read import begin_unix, read_document
from uwsgi_headroom.source.stream import Answer, Room, Share, UnixRead

__all__ = [
    "Address",
    "Answer",
    "File",
    "Http",
    "HttpAccess",
    "ProcessOfApp",
    "Room",
    "Share",
    "SocketOfApp",
    "Tcp",
    "Unix",
    "UnixRead",
    "basic",
    "bearer",
    "begin_unix",
    "parse_address",
    "read_document",
]
