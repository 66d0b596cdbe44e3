"""Every bound of the HTTP face, each with its reason. The modules that keep them read them here at the time of use.

Without bounds one client takes the exporter's memory and processor time, or every descriptor that the process may have.
Then no server is sampled, and asyncio logs each accept that fails, gigabytes an hour.
"""

from __future__ import annotations

LINE_BYTES = 8192
"""One line of the head of a request. nginx and Apache refuse longer ones too, so none arrives through a proxy."""

HEAD_BYTES = 32768
"""The whole head. uvicorn and httptools concatenate what they received so far at each piece: unbounded, quadratic."""

HEAD_LINES = 128
"""Lines of the head, empty ones before it included. Each costs a turn of the parser; browsers send some twenty."""

BODY_BYTES = 65536
"""The body of a request. No route takes one; some clients send one with every request."""

REQUEST_SECONDS = 10.0
"""From the first byte of a request (the first request: from the connection) to its last. Prometheus and browsers send a
request at once; Go's HTTP servers have `ReadHeaderTimeout` for the same reason."""

KEEP_ALIVE_SECONDS = 120
"""Between two requests. Prometheus keeps its connection between scrapes; a minute apart is common."""

MOST_PIPELINED = 8
"""Requests that wait for the answer to an earlier one of their connection. Browsers and Prometheus never send any."""

LINGER_SECONDS = 1.0
"""How long a refused connection stays open for its answer: closed while data arrives, TCP would discard the answer."""

STALLED_SECONDS = 10.0
"""How long a client may take nothing of what waits for it: long for a network, and for a laptop that went to sleep."""

UNSENT_BYTES = 65536
"""How much the kernel takes of an answer before the client does; it would take megabytes."""

MOST_CONNECTIONS = 256
"""Far more than scrapers and pages need. Fewer if the process may open few descriptors."""

BACKLOG = 64
"""Connections that wait to be accepted: asyncio takes as many at once, before any of them can be found too many."""

MOST_STREAMS = 32
"""Event streams. A stream holds its connection, so they never have more than half of the connections."""

MOST_DESCRIPTORS = 4096
"""What the soft limit is raised to at the start, if the hard limit allows it. A hard limit may be a billion."""

OWN_DESCRIPTORS = 24
"""Standard streams, the event loop, files of /proc and of the page that are open for a moment."""

DESCRIPTORS_PER_SERVER = 2
"""The connection of a read, and a file of /proc beside it."""
