"""Names of what threads wait for, and how their time is divided."""

import shutil
import socket
import subprocess

import pytest
from msgspec.structs import replace

from uwsgi_headroom.analysis.destinations import (
    ITSELF,
    DestinationFigures,
    describe,
    divide,
    join_labels,
    list_hanging,
    list_main,
    name_service,
    see_backends,
)
from uwsgi_headroom.record import Destination


def backend(*addresses: str, connecting: bool = False) -> Destination:
    return Destination("backend", addresses, connecting)


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("postgres", ["10.0.0.5:5432", "/run/postgresql/.s.PGSQL.5432"]),
        ("pgbouncer", ["/run/postgresql/.s.PGSQL.6432"]),
        ("redis", ["[2001:db8::1]:6379", "/var/run/redis/redis-server.sock", "@redis"]),
        ("mysql", ["/run/mysqld/mysqld.sock"]),
        ("memcached", ["/run/memcached/memcached.sock"]),
        ("", ["10.0.0.5:8080", "10.0.0.5:54321", "/run/redis/other.sock", "/srv/a:5432", ""]),
    ],
)
def test_services_by_port_or_socket(name, addresses):
    """A port that is a service's own, and the last part of a socket's path, say what it is."""
    assert {name_service(address) for address in addresses} == {name}


@pytest.mark.parametrize(
    ("name", "address", "program"),
    [
        ("pgbouncer", "127.0.0.1:5432", "pgbouncer"),
        ("postgres", "127.0.0.1:5432", "haproxy"),
        ("redis", "127.0.0.1:9000", "redis-server"),
        ("gunicorn", "/srv/a", "gunicorn"),
    ],
)
def test_services_by_program(name, address, program):
    """A program that is known says more than the port, and the port more than another program."""
    assert name_service(address, program) == name


THREE = {backend("127.0.0.1:8000"): 2.0, backend("10.0.0.5:8000"): 1.0, backend("/run/a.sock"): 3.0}
TWO = {backend("10.0.0.5:5432"): 2.0, backend("10.0.0.6:6379"): 1.0}


@pytest.mark.parametrize(
    ("seconds", "configured", "own", "threads"),
    [
        # A configured name wins over that of the port; one for any host has the address, if there is only one.
        (TWO, {}, "", {"postgres at 10.0.0.5:5432": 4, "redis at 10.0.0.6:6379": 2}),
        (
            TWO,
            {"orders": "10.0.0.5:5432", "cache": "*:6379"},
            "",
            {"orders at 10.0.0.5:5432": 4, "cache at 10.0.0.6:6379": 2},
        ),
        (TWO | {backend("10.0.0.7:6379"): 1.0}, {"cache": "*:6379"}, "", {"cache": 3, "postgres at 10.0.0.5:5432": 3}),
        # The server's own sockets are named as such; one for all addresses by those of this host only.
        (THREE, {}, "127.0.0.1:8000", {f"{ITSELF} at 127.0.0.1:8000": 2, "10.0.0.5:8000": 1, "/run/a.sock": 3}),
        (THREE, {}, "0.0.0.0:8000", {f"{ITSELF} at 127.0.0.1:8000": 2, "10.0.0.5:8000": 1, "/run/a.sock": 3}),
        (THREE, {}, ":8001", {"127.0.0.1:8000": 2, "10.0.0.5:8000": 1, "/run/a.sock": 3}),
        (THREE, {}, "/run/a.sock", {"127.0.0.1:8000": 2, "10.0.0.5:8000": 1, f"{ITSELF} at /run/a.sock": 3}),
        # One of several is said as such; an unknown port has its address alone; the rest has no name.
        (
            {
                backend("10.0.0.5:5432", "10.0.0.6:6379"): 3.0,
                backend("10.0.0.5:8080"): 2.0,
                backend(): 1.0,
                Destination("dns", ("10.0.0.1:53",)): 0.1,
            },
            {},
            "",
            {"postgres or redis": 3, "10.0.0.5:8080": 2, "DNS at 10.0.0.1:53": 1, "backends": 1},
        ),
    ],
)
def test_what_threads_wait_for(seconds, configured, own, threads):
    """The threads of each label, in a window with six threads in `backend` and one in `dns`."""
    states = {"backend": 6.0, "dns": 1.0, "cpu": 1.0}
    parts = divide(seconds, {}, configured, states, None, [own] if own else [])
    assert {each.label: each.threads for each in parts} == threads
    assert any(each.name == ITSELF for each in parts) == any(label.startswith(ITSELF) for label in threads)


def test_without_addresses_the_names_remain():
    """A report has the seconds of named backends only; what they do not explain has no name."""
    found = divide({}, {"pg": 4.0, "b": 0.0}, {"pg": "*:5432"}, {"backend": 6.0, "cpu": 2.0}, {"backend": 0.3})
    assert [(each.label, each.threads, each.share) for each in found] == [
        ("pg at *:5432", 4, 0.5),
        ("backends", 2, 0.25),
    ]
    assert [each.per_request for each in found] == [pytest.approx(0.2), pytest.approx(0.1)]
    assert divide({}, {}, {}, {"cpu": 1.0}, {}) == ()


def test_one_of_two_hosts_does_not_answer():
    """The part that goes into connections is that of all hosts with one name."""
    hosts = {backend("10.0.0.5:5432"): 1.0, backend("10.0.0.6:5432", connecting=True): 3.0}
    (found,) = divide(hosts, {}, {"orders": "*:5432"}, {"backend": 4.0}, None)
    assert (found.label, found.connecting) == ("orders", 0.75)


def figures(name: str, threads: float, *, connecting: float = 0.0, dns: bool = False) -> DestinationFigures:
    return DestinationFigures("dns" if dns else "backend", name, "", threads, threads / 10, None, connecting)


@pytest.mark.parametrize(
    ("destinations", "label"),
    [
        # Each with three tenths of the time, in the order of their names, so that a title stays while shares change.
        (list_main([figures("redis", 3.0), figures("postgres", 4.0), figures("smtp", 0.5)]), "postgres and redis"),
        (list_main([figures("redis", 5.0), figures("postgres", 4.0), figures("smtp", 0.5)]), "postgres and redis"),
        ([figures(name, 1.0) for name in "abcd"], "a, b and others"),
        ([figures("", 1.0), figures("pg", 1.0)], "pg and other backends"),
        ([], "backends"),
    ],
)
def test_many_labels(destinations, label):
    """Three at most; what has no name comes last."""
    assert join_labels(destinations) == label


@pytest.mark.parametrize(
    ("destination", "hangs"),
    [
        (figures("a", 4.0, connecting=0.9), True),
        (figures("a", 4.0, connecting=0.5), False),
        (figures("a", 3.9, connecting=1.0), False),
        (figures("DNS", 4.0, dns=True), True),
        (figures("DNS", 3.9, dns=True), False),
    ],
)
def test_what_holds_threads_that_should_take_milliseconds(destination, hangs):
    """A quarter of the threads in connections without an answer, or in DNS."""
    assert bool(list_hanging([destination, figures("pg", 9.0)], 16)) == hangs


def test_what_does_not_answer_is_named_last():
    """Threads wait for its connection, and for the answers of the others."""
    silent, postgres = figures("a", 1, connecting=1.0), figures("postgres", 1)
    assert describe([postgres, silent]) == "postgres and for a connection to a, which does not answer"
    assert describe([silent]) == "a connection to a, which does not answer"


@pytest.mark.parametrize(
    ("name", "address", "act"),
    [
        ("postgres", "10.0.0.5:5432", "`pg_stat_activity` to see what postgres at 10.0.0.5:5432 runs"),
        ("redis", "10.0.0.6:6379", "`SLOWLOG GET` and `CLIENT LIST` of redis at 10.0.0.6:6379"),
        ("rabbitmq", "10.0.0.7:5672", "`rabbitmqctl list_queues` of rabbitmq at 10.0.0.7:5672"),
        ("", "127.0.0.1:19396", "`ss -ltnp src 127.0.0.1:19396` to see which program listens there"),
        ("", "[::1]:80", "`ss -ltnp src [::1]:80` to see which program listens there"),
        ("own", "/run/a b.sock", "`ss -lxp src '/run/a?b.sock'` to see which program listens there"),
        ("", "10.0.0.5:8080", "Find out which program listens at 10.0.0.5:8080"),
        ("", "", "Find out which backend the threads wait for"),
    ],
)
def test_the_first_act_is_to_look(name, address, act):
    """At night nobody makes a query faster: what goes on comes first, with the command that shows it."""
    look = see_backends([replace(figures("a", 1), name=name, address=address)])
    assert act in look
    assert len(look) <= 100


@pytest.mark.skipif(not shutil.which("ss"), reason="needs ss of iproute2")
@pytest.mark.parametrize("name", ["it's my  a[1]", "back\\slash $(id)", "(a) or !b"])
def test_the_command_finds_the_socket(tmp_path, name):
    """Whatever is in the path: `ss` ends a filter at white space, also where the shell does not."""
    for path in (f"{tmp_path}/{name}", f"@{tmp_path}/{name}"):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.replace("@", "\0", 1) if path.startswith("@") else path)
            listener.listen(1)
            command = see_backends([replace(figures("a", 1), name="", address=path)]).split("`")[1]
            found = subprocess.run(["sh", "-c", command], check=False, capture_output=True, text=True, timeout=10)
        assert [found.stdout.count(str(tmp_path)), found.stderr] == [1, ""], command
