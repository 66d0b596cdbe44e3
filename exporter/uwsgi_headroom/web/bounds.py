"""All bounds of the HTTP server, each with its reason. Other modules read them here at the time of use.

Without bounds, one client could take all memory, CPU time or descriptors of the exporter. Then no server would be
sampled, and asyncio would log each failed accept, gigabytes an hour.
"""

from __future__ import annotations

LINE_BYTES = 8192
"""Longest line in the head of a request. nginx and Apache refuse longer lines too, so none arrives through a proxy."""

HEAD_BYTES = 32768
"""Longest head. uvicorn and httptools concatenate all data so far at each piece, which is quadratic if unbounded."""

HEAD_LINES = 128
"""Most lines in a head, including empty ones before it. Each line costs a parser call; browsers send about twenty."""

BODY_BYTES = 65536
"""Longest body of a request. No route uses a body, but some clients send one with every request."""

REQUEST_SECONDS = 10.0
"""Longest time from the first byte of a request (for the first request: from the connection) to its last. Prometheus
and browsers send a request at once; Go's HTTP servers have `ReadHeaderTimeout` for the same reason."""

HANDSHAKE_SECONDS = 10.0
"""Longest time from a connection to the end of its TLS handshake. A browser needs two round trips."""

KEEP_ALIVE_SECONDS = 120
"""Longest time between two requests. Prometheus keeps its connection between scrapes, often a minute apart."""

MOST_PIPELINED = 8
"""Most requests that wait behind an earlier one of their connection. Browsers and Prometheus never pipeline."""

LINGER_SECONDS = 1.0
"""How long a refused connection stays open: if it were closed while data arrives, TCP would discard the response."""

STALLED_SECONDS = 10.0
"""How long a client may accept no data of a response: long enough for a network fault or a suspended laptop."""

UNSENT_BYTES = 65536
"""How much of a response the kernel buffers for a slow client; by default megabytes."""

MOST_PREDICTIONS = 4
"""Most predictions for other settings that are made or wait for their turn. Each takes a second of CPU, or up to ten
with twelve of the largest settings."""

MOST_CONNECTIONS = 256
"""Most open connections: far more than scrapers and pages need. Lower if the process may open few descriptors."""

BACKLOG = 64
"""Connections that wait to be accepted. asyncio accepts this many at once, before the exporter can close any."""

MOST_STREAMS = 32
"""Most event streams. A stream keeps its connection, so streams never take more than half of the connections."""

MOST_DESCRIPTORS = 4096
"""The soft limit is raised to this at start, if the hard limit allows it. A hard limit may be a billion."""

OWN_DESCRIPTORS = 24
"""For standard streams, the event loop, and files of /proc and of the page, which are open only briefly."""

DESCRIPTORS_PER_SERVER = 2
"""For the connection of a read, and one file of /proc at the same time."""
