"""What the keys do, and what the columns mean."""

from __future__ import annotations

from rich.text import Text

_TEXT = """\
q           quit                          up down, j k  move, scroll (PgUp, PgDn)
enter       look at the chosen server     esc, l        back to the list of servers
tab, arrows another server                v             vassals (of an emperor)
e           findings, what to change      t, a          threads
[ ]         shorter, longer window        + -           look less, more often
p, space    pause                         f             fast: four looks a second
d, J        write the document as JSON    Ctrl-Z        suspend; uWSGI goes on

Sort workers by: s share, r requests, w response time, i interpreter load,
b busy threads, m memory, o oldest request, x exceptions, g age, n number;
R the other way round.

SHARE   of the window's requests; LIFE: of those since uWSGI's last full reload
BUSY    threads serving a request now; OLDEST: how long the oldest is served
RESP    mean time in service; longer where threads wait for their interpreter
LOAD    of the CPU one Python interpreter can use; near 1 its threads queue
CPU     where its main thread ran last; AFFINITY: where it may run
GROWTH  of its memory in the window; SPAWNS: the first counts; HARA: harakiris
MORE    headroom: the factor by which load can grow before something gives out
"""


def help_lines() -> list[Text]:
    """The whole text."""
    return [Text(line) for line in _TEXT.splitlines()]
