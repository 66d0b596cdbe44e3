"""Findings about the way in: what keeps clients from uWSGI's sockets, or takes requests in its place.

A path that no longer leads to uWSGI is no harm while requests come by another way, such as a bind mount. Only what the
web server's own files name is critical: other users of this host may have web servers for other things.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.record import Refusal, Rival, ServerRecord, Way, WaysIn
from uwsgi_headroom.words.formats import listed
from uwsgi_headroom.words.template import Facts, Private

REPLACED_SECONDS = 600.0
"""For so long another uWSGI at the path may be a deploy: the old one completes its requests, the new one takes the
others."""

_NAMED = "[named?  {named} leads there.]"

GONE = Kind(
    code="socket_gone",
    role="harm",
    severity="critical, warning or info",
    title="The path of uWSGI's socket is gone[path? : {path}].",
    evidence="uWSGI listens on a socket, and there is no file at {place} now. "
    "[came? Requests still come by another way.][not came? No request comes.]" + _NAMED,
    meaning="Clients find a UNIX socket by its path; without it, web servers answer 502. A second uWSGI that ends with "
    "`vacuum` removes the path, and so does a program that cleans /tmp.",
    act="[not came? Restart uWSGI: after a reload it still has the socket without a path.]",
    then="[not came? Keep the socket in a directory of its own below /run.]",
    keeps_out=True,
)

REPLACED = Kind(
    code="socket_replaced",
    role="harm",
    severity="critical, warning or info",
    title="[program? {program} listens][nobody? Nobody listens][other? Another process listens] at the path of uWSGI's "
    "socket, in its place[path? : {path}].",
    evidence="Since {age:duration}, another socket is at {place}[pid? ; process {pid:plain} ({program}) listens there]"
    "[accepts?  and takes connections]. [came? Requests still come to this uWSGI.]"
    "[not came? No request comes to this uWSGI.]" + _NAMED,
    meaning="A second start of the same configuration does this: uWSGI removes what is at the path, and binds its own "
    "socket there. In a deploy that is meant, and the old uWSGI ends soon.",
    act="[pid? Stop this uWSGI if process {pid:plain} replaces it; else stop that process, and restart this one.]"
    "[not pid? Restart uWSGI: after a reload it still has the socket without a path.]",
    keeps_out=True,
)

REFUSED = Kind(
    code="socket_refuses",
    role="harm",
    severity="critical or info",
    title="The web server ({program}) [not absent? may not connect to uWSGI's socket][absent? finds nothing at the "
    "path of uWSGI's socket][path? : {path}].",
    evidence="{program} runs as {user}[mode? ; {where} has mode {mode} and belongs to {owner}][absent? , with other "
    "mounts than uWSGI, as with `PrivateTmp=`]. No request comes." + _NAMED,
    meaning="To connect to a UNIX socket takes the right to write to it, and to enter each directory above it. Without "
    "it, web servers answer 502, and uWSGI gets no request.",
    act="[socket? Set `chmod-socket` to 660 and `chown-socket` to {to}.]"
    "[directory? Let {user} enter the directory: `chmod o+x {where}`.]"
    "[absent? Move the socket to a directory that both see, such as one below /run.]",
    then="[socket? If uWSGI does not start as root, it cannot change the owner: add {user} to the group of the socket "
    "instead.][directory? Or move the socket to a directory below /run.]",
    keeps_out=True,
)

MISMATCH = Kind(
    code="protocol_mismatch",
    role="harm",
    severity="warning",
    title="The web server's `{directive}` does not speak the protocol of uWSGI's socket ({protocol}).",
    evidence="[place? {place} has `{directive}` for the socket {name}, where uWSGI expects the protocol {protocol}. ]"
    "No request came in the last {seconds:duration}.",
    meaning="uWSGI closes a connection that begins with another protocol, and counts no request; web servers answer "
    "502.",
    act="Write `{fitting}` in place of `{directive}`[place?  in {place}].",
    then="[uwsgi? It needs `include uwsgi_params;` as well. ]Or change uWSGI's option: `socket` is for `uwsgi_pass`, "
    "and `http-socket` for `proxy_pass`.",
    keeps_out=True,
)

_FITTING = {"uwsgi": "uwsgi_pass", "http": "proxy_pass", "fastcgi": "fastcgi_pass", "scgi": "scgi_pass"}
"""The directive of nginx for each protocol of uWSGI."""

LEFT_OVER = Kind(
    code="workers_left_over",
    role="harm",
    severity="critical or warning",
    title="Processes of an earlier uWSGI still wait for requests at the sockets of this one.",
    evidence="{number:process|processes} wait for requests at the same sockets, and the master that had started "
    "{number:it|them} is gone[pids? : {pids}][age? ; the oldest began {age:duration} ago]."
    "[accepts?  A connection that one of them had accepted was seen.]",
    meaning="They take a part of the requests, and answer with the code that they loaded then. Figures here lack these "
    "requests.",
    act="End them: {kill}.",
    then="With `no-orphans`, workers end with their master.",
)


def find(figures: Figures) -> Iterator[Finding]:
    ways = figures.server.ways_in or WaysIn()
    none_came = not ways.came and not figures.flow.completed
    for way in ways.ways:
        named = [each for each in ways.named if each.name == way.name]
        facts: Facts = {
            "path": Private(way.path),
            "named": Private(", ".join([f"{each.path}:{each.line} ({each.directive})" for each in named[:1]])),
        }
        worse = (not ways.came) + (none_came and bool(named))
        lost = facts | {"came": ways.came, "place": Private(way.path, "its path")}
        if way.state == "gone":
            yield GONE.found(figures, lost, worse=worse)
        elif way.place:
            yield _replaced(figures, way, lost, came=ways.came, none_came=none_came, is_named=bool(named))
        elif way.refusal and way.refusal.path:
            yield _refused(way, way.refusal, facts, is_critical=none_came and bool(named))
    for each in ways.named:
        fitting = _FITTING.get(each.protocol, each.directive)
        if each.directive in _FITTING.values() and each.directive != fitting and none_came:
            yield MISMATCH.found(
                figures,
                directive=each.directive,
                protocol=each.protocol,
                fitting=fitting,
                uwsgi=each.protocol == "uwsgi",
                name=Private(each.name, "of uWSGI"),
                place=Private(f"{each.path}:{each.line}"),
            )
            break
    if ways.left_over:
        yield _left_over(figures, ways.left_over)


def _replaced(figures: Figures, way: Way, facts: Facts, *, came: bool, none_came: bool, is_named: bool) -> Finding:
    """Another program than uWSGI is no deploy, and neither is a socket on which nobody listens."""
    assert way.place
    rival, age = way.place.rival, max(0.0, (figures.server.time or way.place.since) - way.place.since)
    is_deploy = not way.place.nobody and (rival is None or "uwsgi" in rival.name) and age < REPLACED_SECONDS
    is_taken = rival is not None and rival.serves and "uwsgi" not in rival.name
    is_critical = none_came and (is_taken or (way.place.nobody and is_named))
    return REPLACED.found(
        figures,
        facts,
        worse=(not came and not is_deploy) * (1 + is_critical),
        age=age,
        nobody=way.place.nobody,
        other=rival is None and not way.place.nobody,
        program=rival and rival.name,
        pid=Private(rival and rival.pid, ""),
        accepts=rival is not None and rival.serves,
    )


def _refused(way: Way, refusal: Refusal, facts: Facts, *, is_critical: bool) -> Finding:
    is_socket = refusal.path == way.path
    owner, _, _ = refusal.owner.partition(":")
    return REFUSED.found(
        None,
        facts,
        worse=is_critical,
        program=refusal.program,
        user=Private(refusal.user, "its user"),
        where=Private(refusal.path, "the directory above the socket"),
        mode=Private(refusal.mode is not None and f"{refusal.mode:o}"),
        owner=Private(refusal.owner),
        socket=is_socket and refusal.mode is not None,
        directory=not is_socket,
        absent=refusal.mode is None,
        to=Private(f"{owner}:{refusal.group}", "the web server's group"),
    )


def _left_over(figures: Figures, rivals: Sequence[Rival]) -> Finding:
    pids = [str(rival.pid) for rival in rivals]
    began = min((rival.since for rival in rivals if rival.since), default=None)
    return LEFT_OVER.found(
        worse=any(rival.serves for rival in rivals),
        number=len(rivals),
        pids=Private(listed([f"process {pid}" for pid in pids])),
        age=began and figures.server.time and figures.server.time - began,
        accepts=any(rival.serves for rival in rivals),
        kill=Private(f"`kill {' '.join(pids)}`", "`kill`"),
    )


def is_clear(server: ServerRecord) -> bool:
    """Whether all paths of its sockets lead to a uWSGI, and the web server of this host may connect to one of them."""
    ways = server.ways_in or WaysIn()
    asked = [way.refusal for way in ways.ways if way.refusal]
    all_clear = all(way.state == "clear" for way in ways.ways) and not ways.left_over
    return all_clear and any(not refusal.path for refusal in asked)
