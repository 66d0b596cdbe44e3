"""All bounds of the HTTP server, each with its reason. Other modules read them here at the time of use.

Without bounds, one client could take all memory, CPU time or descriptors of the exporter. Then no server would be
sampled, and asyncio would log each failed accept, gigabytes an hour.
"""

from __future__ import annotations

LINE_BYTES = 8192
"""Longest line in the head of a request. nginx and Apache refuse longer lines too, so none arrives through a proxy."""

HEAD_BYTES = 32768
"""Longest head, which is kept until it is complete. Browsers send 1 to 2 kB, and cookies of other services on this host
are sent too."""

HEAD_LINES = 128
"""Most lines in a head, including empty ones before it. Each costs calls of the parser; browsers send about twenty."""

HEADER_VALUES = 32
"""Most values in a header's list, and most parameters of each, that are parsed. A line of commas would take 20 ms to
parse in full, in each request. Browsers and Prometheus send fewer than ten."""

QUERY_PARAMETERS = 16
"""Most parameters in a query, for the same reason. No route has more than three."""

BODY_BYTES = 65536
"""Longest body of a request. No route uses a body, but some clients send one with every request."""

REQUEST_SECONDS = 10.0
"""Longest time from the first byte of a request (for the first request: from the connection) to its last. Prometheus
and browsers send a request at once; Go's HTTP servers have `ReadHeaderTimeout` for the same reason."""

HANDSHAKE_SECONDS = 10.0
"""Longest time from a connection to the end of its TLS handshake. A browser needs two round trips."""

KEEP_ALIVE_SECONDS = 120
"""Longest time between two requests. Prometheus keeps its connection between scrapes, often a minute apart."""

AHEAD_BYTES = 32768
"""How much a client may send behind a request that has no complete answer yet. Browsers and Prometheus never do."""

LINGER_SECONDS = 1.0
"""How long a refused connection stays open: if it were closed while data arrives, TCP would discard the response."""

STALLED_SECONDS = 10.0
"""How long a client may accept no data of a response: long enough for a network fault or a suspended laptop."""

LEAST_RATE = 2048
"""Least bytes a second that a client must accept of the data that waits for it, else its connection is closed: a modem
has 7,000. Measured over STALLED_SECONDS, from the moment when the kernel's buffers are full. An event stream has no
other timeout."""

SLOW_SECONDS = 0.1
"""How long a client must have accepted nothing before its connection may be closed for a new one: in a crowd of good
clients, each waits for a few turns of the event loop. If all places are taken and none is idle, the slowest client
makes room: without that, 256 slow readers at 70 kB/s shut out every scrape."""

IN_LINE_SECONDS = 5.0
"""How long a new connection waits for a place while each of the others has a request that is being answered. Prometheus
waits for ten seconds. As many may wait as are accepted in a turn."""

UNSENT_BYTES = 65536
"""How much of a response the kernel buffers for a slow client; by default megabytes."""

REQUESTS_IN_A_TURN = 2
"""Most requests that begin in one turn of the event loop. A read of a server takes some ten turns. Beside 200 clients
that request the cheapest route without a pause, a server was sampled 2.4 times a second without this bound, 3.8 times
with 16, 4.6 times with 4 or 2, and 4.8 times alone. The clients get as many responses with each."""

PIECE_BYTES = 65536
"""How much of a response is handed to a connection at a time. The rest is shared by all clients that receive it."""

MOST_DOCUMENTS = 16
"""Most documents of servers, lists and pages that are built or wait for their turn. Equal ones are built once: a page
requests three."""

MOST_RUNBOOKS = 8
"""Most runbooks that are built or wait for their turn."""

MOST_SCRAPES = 64
"""Most answers to scrapes and probes that are built or wait: one for each probed server and format."""

MOST_HISTORIES = 8
"""Most that are built or wait of each of these: histories from memory, histories from the file, journals, comparisons.
Each takes up to a second."""

MOST_PREDICTIONS = 4
"""Most predictions for other settings that are made or wait for their turn. Each takes up to 0.1 s of CPU, or a few
seconds with twelve of the largest settings."""

MOST_ANSWERS = 64
"""Most answers that are kept for later requests."""

ANSWERS_BYTES = 16 * 2**20
"""Most bytes of all answers that are kept. One larger answer is kept alone: the metrics of a thousand servers."""

MOST_CONNECTIONS = 256
"""Most open connections: far more than scrapers and pages need. Lower if the process may open few descriptors."""

ACCEPTS_IN_A_TURN = 8
"""Most connections that are accepted in one turn of the event loop, for the reason of REQUESTS_IN_A_TURN. Fewer if the
process may open few descriptors, since the exporter cannot close any before the next turn."""

LISTEN_QUEUE = 1024
"""Connections that wait in the kernel to be accepted. If the queue is full, a client tries again after 1, 3 and 7 s:
with 64 places, a scrape took 4 s beside 200 clients that connect again and again, and with 256 still 1 s now and then,
since connections that were reset keep their places. The kernel's `net.core.somaxconn` may be lower."""

MOST_STREAMS = 32
"""Most event streams. If fewer connections are possible, streams take half of them at most, since a stream keeps its
connection."""

MOST_DESCRIPTORS = 4096
"""The soft limit is raised to this at start, if the hard limit allows it. A hard limit may be a billion."""

OWN_DESCRIPTORS = 24
"""For standard streams, the event loop, and files of /proc and of the page, which are open only briefly."""

DESCRIPTORS_PER_SERVER = 2
"""For the connection of a read, and one file of /proc at the same time."""
