"""What the keys do, and what the columns mean."""

from __future__ import annotations

from rich.text import Text

_TEXT = """\
q, Ctrl-C        quit                          Ctrl-Z         suspend; fg comes back
up down, j k     move, scroll                  PgUp PgDn Home End
enter            the server that is chosen     esc, l         the list of servers
tab, left right  the next, the last server     v              vassals (emperor's page)
t, a             threads in service            e              findings and advice in full
[ ]              a shorter, a longer window    + -            look more seldom, more often
p, space         pause                         f              fast: four looks a second
d, J             write the document as JSON    ?, h           this page

Sort the workers: s share, r requests, w response time, i interpreter load, b busy threads,
m memory, o oldest request, x exceptions, g age, n number; R the other way round.

SHARE    of the requests in the window; LIFE: of all since uWSGI's last full reload
BUSY     threads that serve a request now; OLDEST: how long the oldest request has been in service
RESP     mean time in service; long where threads wait for their interpreter
LOAD     of the one CPU that one Python interpreter can use; near 1 its threads queue for it
CPU      where its main thread ran last; AFFINITY: where it may run
GROWTH   of its memory over the window; SPAWNS: the first counts; HARA: ended by harakiri
headroom by what factor load can grow before something gives out; the list calls it MORE
"""


def page() -> list[Text]:
    """The whole text."""
    return [Text(line) for line in _TEXT.splitlines()]
