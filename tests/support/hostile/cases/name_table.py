"""Names that break out of a line or a label, are too long or too many, or change with every read."""

from __future__ import annotations

from tests.support.hostile.bodies import changing_names, emperor, named_everywhere, router, server
from tests.support.hostile.case import UP, Case, Expected, down, over
from tests.support.hostile.connections import answers
from tests.support.hostile.peer import Body
from uwsgi_headroom.stats.bounds import LOCKS_BYTES, MOST

TOO_LARGE = down("too_large")

INJECTIONS = (
    'x"} 1\nuwsgi_up{server="good"} 0\n#',
    "\n# EOF\n",
    "# HELP uwsgi_up no",
    "\\",
    '\\"',
    "{}",
    'a="b",c="d',
    "<script>alert(1)</script>",
    "%s%n{0}",
    "../../../etc/passwd",
)
CONTROLS = tuple(chr(code) for code in (*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029, 0x202E, 0xFEFF, 0xFFFF))
PORTS = ("0.0.0.0:22", "[::]:65535", ":0", ":99999", "[::1%lo]:80", "\0:80", "@", "/etc/shadow", "/dev/zero", "~")
SAME = ("a", "a", "a#2", "a#2", "a", "a#3", "", "")


def metrics(count: int) -> bytes:
    """A server with this many custom metrics."""
    return server(metrics={f"own.{number}": {"type": 0, "value": number} for number in range(count)})


NAMES: dict[str, tuple[bytes | Body, Expected]] = {
    "names that inject series": (named_everywhere(*INJECTIONS), UP),
    "vassals that inject series": (emperor(*INJECTIONS), UP),
    "backends that inject series": (router(*INJECTIONS), UP),
    "a version that injects series": (server(version=INJECTIONS[0]), UP),
    "names of control characters": (named_everywhere(*CONTROLS), UP),
    "names with raw control bytes": (
        named_everywhere("a b").replace(b"a b", b"a" + bytes([*range(1, 9), 11, 12, *range(14, 32)]) + b"b"),
        UP,
    ),
    "names with raw zero bytes": (named_everywhere("a b").replace(b"a b", b"a\0\0b"), UP),
    "names without UTF-8": (named_everywhere("a b").replace(b"a b", b"a\xff\xfe\xc3\x28b"), UP),
    "names with half a pair": (named_everywhere("a b").replace(b"a b", b"a\\ud800b"), UP),
    "names of ports and files": (named_everywhere(*PORTS), UP),
    "the same names again": (named_everywhere(*SAME), UP),
    "the same vassals again": (emperor(*SAME), UP),
    "the same backends again": (router(*SAME, nodes=3), UP),
    "names as long as may be": (named_everywhere("é" * 255), UP),
    "a name too long": (named_everywhere("é" * 256), UP),
    "a version of a megabyte": (server(version="2" * 2**20), UP),
    "a metric's name of a megabyte": (server(metrics={"m" * 2**20: {}}), UP),
    "a list of locks too long": (server(locks=[{}] * LOCKS_BYTES), TOO_LARGE),
    "metrics as many as may be": (metrics(MOST["custom metrics"]), UP),
    "a metric too many": (metrics(MOST["custom metrics"] + 1), TOO_LARGE),
    "static nodes as many as may be": (router(*map(str, range(MOST["static nodes"])), nodes=0), UP),
    "a node too many": (router("a", nodes=MOST["nodes"] + 1), TOO_LARGE),
    "a vassal too many": (emperor(*map(str, range(MOST["vassals"] + 1))), TOO_LARGE),
    "new names each time": (changing_names(named_everywhere, 50), UP),
    "new sockets each time": (
        changing_names(lambda *names: server(sockets=[{"name": name} for name in names]), 500),
        UP,
    ),
    "new vassals each time": (changing_names(emperor, 100), UP),
    "new backends each time": (changing_names(router, 100), UP),
    "another version each time": (lambda number: server(version=str(number)), UP),
}

CASES: tuple[Case, ...] = tuple(
    case
    for place, (name, (body, expected)) in enumerate(NAMES.items())
    for case in over(("tcp", "http", "unix")[place % 3], name, answers(body), expected)
)
