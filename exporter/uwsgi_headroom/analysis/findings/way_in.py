"""Findings about the way in: what keeps clients from uWSGI's sockets, or takes requests in its place.

A path that no longer leads to uWSGI is no harm while requests come by another way, such as a bind mount. Only what the
web server's own files name is critical: other users may have some, too.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import get_args

from msgspec.structs import replace

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.log import MANY_REFUSED
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.surroundings import Refusal, SharedSocket, Sharer, Way, WebError, WebLine
from uwsgi_headroom.uwsgi_log.messages import BY_CODE
from uwsgi_headroom.words.template import Facts, Private

REPLACED_SECONDS = 600.0
"""For so long another uWSGI at the path may be a deploy: the old one completes its requests."""

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
    title="[program? Another program ({program}) listens][again? Another uWSGI listens][other? Another process "
    "listens][nobody? A socket on which nobody listens is] at the path of uWSGI's socket[path? : {path}].",
    evidence="For {age:duration}, another socket has been at {place}[seen? , that of {process}][accepts? , which "
    "takes connections]. [came? Requests still come to this uWSGI.][not came? No request comes to this uWSGI.]"
    + _NAMED,
    meaning="A second start of the same configuration does this: uWSGI removes what is at the path, and binds its own "
    "socket there. In a deploy, this is fine.",
    act="[seen? Stop {process} and restart this uWSGI, unless that process replaces it.][not seen? Restart "
    "uWSGI: after a reload it still has the socket without a path.]",
    keeps_out=True,
)

REFUSED = Kind(
    code="socket_refuses",
    role="harm",
    severity="critical or info",
    title="The web server ({program}) [not absent? may not connect to uWSGI's socket][absent? finds nothing at the "
    "path of uWSGI's socket][path? : {path}].",
    evidence="It runs as {user}[mode? ; {where} has mode {mode} and belongs to {owner}][absent? , with other "
    "mounts than uWSGI, as with `PrivateTmp=`]. No request came in the last {seconds:duration}." + _NAMED,
    meaning="Connecting to a UNIX socket needs the right to write to it, and to enter each directory above it. Without "
    "it, web servers answer 502.",
    act="[socket? Set `chmod-socket` to 660 and `chown-socket` to {to}.][directory? Let {user} enter {where} (`chmod "
    "o+x`).][absent? Move the socket to a directory that both see, such as one below /run.]",
    then="[socket? If uWSGI does not start as root, it cannot change the owner: add {user} to the group of the socket "
    "instead.][directory? Or move the socket to a directory below /run.]",
    keeps_out=True,
)

SHARED = Kind(
    code="socket_shared",
    role="harm",
    severity="warning or info",
    title="Another uWSGI [same? takes requests from the same socket][older? still waits at an older socket of the same "
    "path][port? takes a part of the connections to the same address][stopped? , and is stopped].",
    evidence="[not stopped? For {age:duration}, {process} has waited for requests at {place}][stopped? It waits for "
    "requests at {place} ({process}), but a signal or a debugger has stopped it][none? , and none came to this uWSGI].",
    meaning="Its requests are in no figure here, and it may run older code. After `f` in `master-fifo`, both masters "
    "take requests until one ends.",
    act="[stopped? Resume or end {process}: the connections that it gets hang.][not stopped, elder? If this uWSGI "
    "replaces it, end {process}.][not stopped, not elder? If {process} replaces this uWSGI, end this one.]",
)

FORKED = replace(
    SHARED,
    code="fork_serves",
    severity="warning",
    title="A process that the application forked takes requests of this uWSGI.",
    evidence="For {age:duration}, {process}, which [worker? worker {worker}][not worker? a worker] forked, has waited "
    "for requests at {place}[others? , like {others:other}].",
    meaning="After `os.fork()`, a child that returns or raises goes on as a copy of the worker, and both crash easily: "
    "their requests have the same memory. No reload ends it.",
    act="Let the application start programs with `subprocess`, and end a forked child with `os._exit`.",
)

LEFT = replace(
    FORKED,
    code="socket_shared",
    title="A part of the connections to uWSGI's port waits where nobody accepts it.",
    evidence="{process} holds an older socket of {place}, and {others:connection} {others:waits|wait} there.",
    meaning="A program that an earlier uWSGI started has inherited its socket. With `reuse-port`, the kernel gives it "
    "a part of all connections.",
    act="End {process}, and set `close-on-exec2 = true`.",
)

KEPT_OPEN = replace(
    FORKED,
    code="connections_inherited",
    title="A program that requests started[program?  ({program})] keeps connections of clients open.",
    evidence="It has run for {age:duration}, and holds {connections:connection} that no worker holds.",
    meaning="Programs inherit the connection of the request, for example with `os.system('... &')`. uWSGI has "
    "responded, but a client that waits for the connection to close waits for the program.",
    act="Set `close-on-exec = true`.",
)

LARGE_HEADS = Kind(
    code="web_server_fails",
    role="harm",
    severity="warning or info",
    title="The web server ({program}) rejects responses: their headers are larger than its buffer.",
    evidence="The error log of {program} ({log}) has {number:line} about this since uwsgi-headroom began to watch it.",
    meaning="Clients get status 502, and uWSGI counts a request like any other.",
    act="Raise `uwsgi_buffer_size` (or `proxy_buffer_size`) and `uwsgi_buffers` of nginx, for example to 32k.",
)
NOT_BUFFERED = replace(
    LARGE_HEADS,
    title="The web server ({program}) cuts responses short: it cannot write its temporary files.",
    meaning="The web server closes the connection to uWSGI, which counts a client that left.",
    act="Let the user of {program} write to the temporary directory that its error log names, or free disk space.",
)
UPLOADS = replace(
    NOT_BUFFERED,
    title="The web server ({program}) cannot store uploads, and rejects them: {reason}.",
    meaning="A body that is larger than the buffer (16 kB) goes into a file. Clients get status 500, and uWSGI "
    "gets no such request.",
)
NO_CONNECTIONS = replace(
    LARGE_HEADS,
    title="The web server ({program}) has no free connection, and turns clients away.",
    meaning="An idle client keeps one connection, a request in service takes two.",
    act="Raise `worker_connections` and `worker_rlimit_nofile` of nginx.",
)
BODY_LIMIT = replace(
    LARGE_HEADS,
    title="The web server ({program}) rejects uploads: they are larger than `client_max_body_size`.",
    meaning="Its clients get status 413, and uWSGI gets no such request. All sites of this {program} count.",
    act="Raise `client_max_body_size` of nginx, if your site expects such uploads.",
)
RATE_LIMIT = replace(
    LARGE_HEADS,
    severity="info",
    title="The web server ({program}) turns requests away, because of its limit for one client or site.",
    meaning="Its clients get status 503, and uWSGI gets no such request. Behind a load balancer, all users may count "
    "as one client. All sites of this {program} count.",
    act="If users complain, check `limit_req` and `limit_conn` of nginx, and `set_real_ip_from`.",
)
NO_FILE = replace(
    LARGE_HEADS,
    title="The web server ({program}) cannot send files that responses name (`X-Accel-Redirect`): {reason}.",
    meaning="Its clients get status 404, 403 or 500, and uWSGI counts the status of the application.",
    act="Compare `root` or `alias` of nginx's `internal` location with the paths of the files.",
    then="If `error_page` names the file, create it.",
)
OTHER = replace(
    LARGE_HEADS,
    title="The web server ({program}) reports an error for responses of uWSGI: {reason}.",
    meaning="Its clients most likely get status 502 or an incomplete response, and uWSGI counts a request like any "
    "other.",
    act="Read the error log of {program}: such a line names its request.",
)
ANY = replace(
    OTHER,
    severity="info",
    title="The web server ({program}) reports errors: `{reason} ...`.",
    meaning="They may be about another site of this {program}.",
)
SHORT = replace(
    LARGE_HEADS,
    title="Responses end before they are complete, as the web server ({program}) says.",
    meaning="Most often the body is shorter than its `Content-Length`, as when a middleware changes only the body. "
    "uWSGI counts such a request like any other.",
    act="Set `Content-Length` after the last change of the body, or leave it out.",
)
UNREAD = replace(
    LARGE_HEADS,
    title="uWSGI closes connections before it has read the request, and the web server ({program}) loses responses.",
    meaning="Usual cause: the application answers an upload before reading the body.",
    act="[read? Set `post-buffering` to 8192, or let the application read each body before it responds.]"
    "[not read? Read uWSGI's log: if it names no request that is rejected, set `post-buffering` to 8192.]",
    then="With `proxy_request_buffering off`, nginx may pass on uploads without a length, which WSGI does not read: "
    "then let it buffer them.",
)
NONE_ALIVE = replace(
    LARGE_HEADS,
    severity="critical or warning",
    title="The web server ({program}) considers uWSGI down, and answers without it.",
    meaning="By default, one failed or slow request is enough (`max_fails=1`): nginx then answers 502 to all for 10 s "
    "(`fail_timeout`).",
    act="Set `max_fails=0` for the server in the `upstream` block of nginx.",
    then="Then find out why requests fail before: nginx's earlier log lines say why, such as `upstream timed out`.",
)
TIMED_OUT = replace(
    LARGE_HEADS,
    title="The web server ({program}) gives up before uWSGI responds.",
    meaning="Clients get status 504; the worker completes the request in vain.",
    act="Find out what these slow requests wait for.",
    then="If they must take so long, raise `uwsgi_read_timeout` (or `proxy_read_timeout`) of nginx.",
)
ROUTER_CLOSES = replace(
    LARGE_HEADS,
    title="uWSGI's http router closes connections before the response.",
    meaning="The router waits for `http-timeout` (60 s by default). The worker completes the request in vain.",
    act="Raise `http-timeout` above the duration of the longest request.",
    then="Or let the web server connect to a `socket` of the workers: it needs no router.",
)
CANNOT_CONNECT = replace(
    LARGE_HEADS,
    severity="critical or info",
    title="The web server ({program}) cannot connect to uWSGI's socket: {reason}.",
    meaning="Clients get status 502 or 503, and no request comes.",
    act="[abstract? Give uWSGI's `socket` a path: {program} knows no abstract ones.]"
    "[not abstract, missing? Move the socket to a directory that uWSGI and {program} both see, such as in /run.]"
    "[ports? Let {program} connect over a UNIX socket: all local ports towards this one are in use.]"
    "[not abstract, not missing, not ports? Compare the socket's address and mode with {program}'s configuration.]",
    then="[not abstract, missing? With `PrivateTmp`, each service has its own /tmp.][not missing, not ports? If both "
    "are right, a security module such as SELinux or a firewall may refuse it.][ports? Or widen ip_local_port_range.]",
    keeps_out=True,
)
ELSEWHERE = replace(
    CANNOT_CONNECT,
    severity="warning or info",
    title="The web server ({program}) sends requests to an address where it cannot connect: {address}.",
    act="[path? Let the web server name uWSGI's path, or give uWSGI this one as an absolute path.]"
    "[not path, all? Let the firewall in between pass this port: uWSGI listens on all addresses.]"
    "[not path, not all? Let uWSGI listen there: 127.0.0.1 is out of reach for other containers and hosts.]",
    then="The reason: {reason}. uWSGI listens on {own:list}.",
)
_ROWS = {
    "large_head": LARGE_HEADS,
    "none_alive": NONE_ALIVE,
    "timed_out": TIMED_OUT,
    "not_buffered": NOT_BUFFERED,
    "unread": UNREAD,
    "uploads": UPLOADS,
    "full": NO_CONNECTIONS,
    "body_limit": BODY_LIMIT,
    "rate_limit": RATE_LIMIT,
    "no_file": NO_FILE,
    "other": OTHER,
    "any": ANY,
    "short": SHORT,
    "closed": ROUTER_CLOSES,
    "refused": CANNOT_CONNECT,
    "elsewhere": ELSEWHERE,
}

MISMATCH = Kind(
    code="protocol_mismatch",
    role="harm",
    severity="warning",
    title="The web server's `{directive}` does not speak the protocol of uWSGI's socket ({protocol}).",
    evidence="`{directive}` is in {place}, and no request came in the last {seconds:duration}.",
    meaning="uWSGI closes a connection that begins with another protocol, and counts no request.",
    act="Write `{fitting}` in place of `{directive}` in {place}.",
    then="`uwsgi_pass` needs `include uwsgi_params;` as well. Or change uWSGI's option: `socket` is for `uwsgi_pass`, "
    "`http-socket` for `proxy_pass`.",
    keeps_out=True,
)

DEAD_END = Kind(
    code="router_dead_end",
    role="harm",
    severity="warning",
    title="uWSGI's http router passes requests to an address where nobody listens[address? : {address}].",
    evidence="`http-to` names it.[none?  No request came in the last {seconds:duration}.]",
    meaning="The router closes the connection without a response.",
    act="Let `http-to` name one of the workers' sockets[own? : {own:list}].",
    keeps_out=True,
)

STOPPED = Kind(
    code="requests_stopped",
    severity="info",
    title="Requests came, but none come any more.",
    evidence="None has come for {idle:duration}; {rate:rate} came before.",
    meaning="uWSGI does not see what keeps clients away, if anything does: a web server, a firewall, or the night.",
    act="If clients should be active, load a page, and read the web server's error log.",
)
QUIET = 50
"""So many requests would have come meanwhile, at the rate before, if it is no chance."""

_FITTING = {"uwsgi": "uwsgi_pass", "http": "proxy_pass", "fastcgi": "fastcgi_pass", "scgi": "scgi_pass"}
"""The directive of nginx for each protocol of uWSGI."""


_ALL = ("", "0.0.0.0", "[::]", "*")  # noqa: S104 - names


def find(figures: Figures) -> Iterator[Finding]:
    ways, none, is_counted = figures.server.ways_in, figures.none_came, figures.window.is_counted
    for way in ways.ways * (is_counted or figures.flow.observed is not None):
        named = [f"{each.path}:{each.line}" for each in ways.lines if each.name == way.name]
        came = (ways.came or not is_counted) and not none
        facts: Facts = {"path": Private(way.path), "named": Private(" and ".join(named[:2]))}
        facts |= {"came": came, "place": Private(way.path, "its path")}
        if way.state == "gone":
            yield GONE.found(figures, facts, worse=(not came) + (none and bool(named)))
        elif way.state == "replaced":
            yield _replaced(figures, way, facts, is_named=bool(named))
        elif none and way.refusal and way.refusal.path:
            yield _refused(figures, way.path, way.refusal, facts, is_named=bool(named))
    idle, rate = figures.quiet or (0.0, 0.0)
    if none and idle * rate >= QUIET:
        yield STOPPED.found(figures, idle=idle, rate=rate)
    own = Private(list(figures.server.queues))
    yield from [DEAD_END.found(figures, address=Private(each), own=own, none=none) for each in ways.dead_ends]
    yield from [_share(figures, each) for each in ways.sharers]
    yield from [KEPT_OPEN.found(figures, each) for each in ways.keepers]
    yield from list(_mismatch(figures, ways.lines))[:1] * none
    by_row = {(each.cause, bool(each.name)): each for each in reversed(ways.errors) if each.cause != "busy"}
    yield from [_describe(figures, each) for each in by_row.values() if not _is_said(figures, each)]


def _is_said(figures: Figures, error: WebError) -> bool:
    """Whether what a web server's log says is another finding's, or not about this uWSGI."""
    server, ways = figures.server, figures.server.ways_in
    refused = any(way.state != "clear" or (way.refusal and way.refusal.path) for way in ways.ways)
    match error.cause:
        case "refused":
            return figures.flow.completed > 0 or bool(refused if error.name else ways.lines)
        case "any":
            is_most = bool(ways.lines) and error.number >= max(QUIET, MOSTLY * figures.flow.completed)
            return not (figures.none_came or is_most)
        case "closed" | "short":
            lost = any(worker.lost for worker in figures.window.workers)
            return lost or (error.cause == "closed" and error.name not in (server.setup.options.http or ()))
        case "timed_out":
            elsewhere = any(each.socket == "left" or figures.none_came for each in ways.sharers)
            elsewhere = elsewhere or (refused and figures.none_came) or figures.flow.waiting not in (None, "none")
            return elsewhere or any(each.cause == "none_alive" for each in ways.errors)
        case "unread":
            is_rejected = any(BY_CODE[code].role == "rejected" for code in server.messages)
            return is_rejected or not figures.flow.completed or bool(server.setup.options.post_buffering)
    return False


def _describe(figures: Figures, error: WebError) -> Finding:
    """Worse if users feel it, as for requests that uWSGI refuses."""
    row = _ROWS[error.cause if error.name else "elsewhere"]
    paths, (least, part) = {way.name: way.path for way in figures.server.ways_in.ways}, MANY_REFUSED
    facts: Facts = {
        "log": Private(error.log, "a file"),
        "read": bool(figures.server.log and not figures.server.log.off),
        "missing": error.reason == os.strerror(errno.ENOENT),
        "abstract": error.name.startswith("@"),
        "ports": error.reason == os.strerror(errno.EADDRNOTAVAIL),
        "path": error.address.startswith("/"),
        "all": not {f"{host}:{error.address.rpartition(':')[2]}" for host in _ALL}.isdisjoint(figures.server.queues),
        "address": Private(error.address, "not one of uWSGI's"),
        "own": Private([paths.get(name, name) for name in figures.server.queues], "other ones"),
    }
    is_felt = error.number >= max(least, part * figures.flow.completed)
    return row.found(figures, facts, error, worse=is_felt and row not in (RATE_LIMIT, ANY))


def _replaced(figures: Figures, way: Way, facts: Facts, *, is_named: bool) -> Finding:
    """Another program is no deploy, and neither is a socket on which nobody listens."""
    rival, age = way.rival, max(0.0, (figures.server.time or way.since) - way.since)
    is_other = rival is not None and "uwsgi" not in rival.name
    is_sure = way.nobody or is_other or age >= REPLACED_SECONDS or _is_felt(figures, way.name)
    is_lost = figures.none_came and ((way.nobody and is_named) or bool(is_other and rival and rival.serves))
    return REPLACED.found(
        figures,
        facts,
        worse=(is_sure and not facts["came"]) * (1 + is_lost),
        age=age,
        nobody=way.nobody,
        other=not rival and not way.nobody,
        program=is_other and rival and rival.name,
        again=rival is not None and not is_other,
        seen=rival is not None,
        process=Private(rival and f"process {rival.pid}", "the other process"),
        accepts=rival and rival.serves,
    )


def _refused(figures: Figures, path: str, refusal: Refusal, facts: Facts, *, is_named: bool) -> Finding:
    is_socket = refusal.path == path
    owner, _, _ = refusal.owner.partition(":")
    return REFUSED.found(
        figures,
        facts,
        refusal,
        worse=is_named,
        user=Private(refusal.user, "its user"),
        where=Private(refusal.path, "the directory above the socket"),
        mode=Private(refusal.mode),
        owner=Private(refusal.owner),
        socket=is_socket and refusal.mode != "",
        directory=not is_socket,
        absent=not refusal.mode,
        to=Private(f"{owner}:{refusal.group}", "the group of the web server"),
    )


def _share(figures: Figures, sharer: Sharer) -> Finding:
    """Zerg mode and `reuse-port` share on purpose, as two uWSGIs do in a deploy."""
    age, options = max(0.0, (figures.server.time or sharer.since) - sharer.since), figures.server.setup.options
    is_meant = sharer.socket == "port" or (sharer.socket == "older" and not figures.none_came)
    is_stopped = sharer.is_stopped and sharer.socket == "port"
    is_sure = age >= REPLACED_SECONDS and options.complete and not options.zerg and not is_meant
    facts: Facts = {each: each == sharer.socket for each in get_args(SharedSocket)}
    facts |= {"process": Private(f"process {sharer.pid}", "another process"), "place": Private(sharer.name, "it")}
    facts |= {"age": age, "stopped": is_stopped, "elder": sharer.is_older, "none": figures.none_came}
    if sharer.socket == "fork":
        ids = [each.worker_id for each in figures.server.workers if each.local_pid == sharer.parent]
        return FORKED.found(figures, facts, worker=sum(ids) or None, others=sharer.number - 1 or None)
    if sharer.socket == "left":
        return LEFT.found(figures, facts, others=sharer.number)
    return SHARED.found(figures, facts, worse=is_stopped or is_sure or _is_felt(figures, sharer.name))


def _is_felt(figures: Figures, name: str) -> bool:
    """Whether no request comes, as a web server fails at this socket."""
    return figures.none_came and name in [each.name for each in figures.server.ways_in.errors if each.address]


def _mismatch(figures: Figures, lines: Sequence[WebLine]) -> Iterator[Finding]:
    for each in lines:
        fitting = _FITTING.get(each.protocol, each.directive)
        if each.directive in _FITTING.values() and each.directive != fitting:
            place = Private(f"{each.path}:{each.line}", "the configuration of the web server")
            facts: Facts = {"directive": each.directive, "protocol": each.protocol, "fitting": fitting, "place": place}
            yield MISMATCH.found(figures, facts)
