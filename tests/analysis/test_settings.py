"""What hurts in the settings of a uWSGI, by its options and by what is seen of it."""

import pytest
from msgspec.structs import fields, replace

from tests.analysis.judging import describe, idle, judge, setup
from uwsgi_headroom.analysis.setting_facts import Seen, make_case
from uwsgi_headroom.analysis.settings import RULES, review
from uwsgi_headroom.kernel.options import NAMES
from uwsgi_headroom.record import Options

CAREFUL = Options(
    complete=True,
    master=True,
    strict=True,
    vacuum=True,
    need_app=True,
    die_on_term=True,
    single_interpreter=True,
    lazy_apps=True,
    enable_threads=True,
    harakiri=60,
    processes=4,
    threads=1,
    listen=1024,
    buffer_size=32768,
)
"""What the published guides recommend: no rule has anything to say."""

NOTHING_SEEN = Seen()

WORST = (
    (Options(complete=True), NOTHING_SEEN),
    (
        Options(complete=True, processes=4, threads=8, stats=":1717", listen=5000, harakiri=120, thunder_lock=True),
        Seen((2, 0, 31), 4, 8, 2, ("numpy",), 4096, 1 << 30, is_first=True, logs_to_pipe=True),
    ),
    (Options(complete=True, processes=4, worker_reload_mercy=30, harakiri=120, cheaper=4), NOTHING_SEEN),
    (Options(complete=True, processes=4, max_worker_lifetime=3600, min_worker_lifetime=3600), NOTHING_SEEN),
    (Options(complete=True, processes=4, max_requests=1000, min_worker_lifetime=3600), NOTHING_SEEN),
    (Options(complete=True, reload_on_as=512, evil_reload_on_rss=256, cpu_affinity=1), NOTHING_SEEN),
    (Options(complete=True, chmod_socket=("666", "660"), http_socket=(":8081",)), NOTHING_SEEN),
    (Options(complete=True, processes=8, cheaper=2, cheaper_initial=9, cheaper_step=7), NOTHING_SEEN),
    (Options(complete=True, processes=8, cheaper_step=2, worker_reload_mercy=900), Seen((2, 0, 21), threads=1)),
    (Options(complete=True, processes=2, max_requests=1000, http=(":8080",)), Seen((2, 0, 18), descriptors=1 << 30)),
    (Options(complete=True, processes=2, max_requests=1000, http=(":80",), harakiri=120), Seen((2, 0, 21))),
)
"""What each rule has advice on, example by example."""


def rules(options: Options, seen: Seen = NOTHING_SEEN) -> dict[str, str]:
    return {advice.rule: advice.severity for advice in review(options, seen)}


ALL_SEEN = Seen((2, 0, 31), 4, 1, 1, ("numpy",), 4096, 1024, is_first=True, unit="shop.service")


@pytest.mark.parametrize("seen", [NOTHING_SEEN, ALL_SEEN])
def test_careful_settings_need_no_advice(seen):
    """Nothing is said about a configuration that keeps to the published guides."""
    assert rules(CAREFUL, seen) == {}


def test_every_rule_speaks():
    """Each rule has advice on one of the bad examples, with all its parts, and warnings stand first."""
    silent = [rule.rule for rule in RULES if not any(rule.when(make_case(*example)) for example in WORST)]
    assert silent == []
    for options, seen in WORST:
        found = review(options, seen)
        severities = [advice.severity for advice in found]
        assert severities == sorted(severities, reverse=True)
        for advice in found:
            assert advice.lines or advice.change, advice.rule
            for sentence in (advice.title, advice.reason, advice.seen, advice.unless):
                assert sentence.endswith("."), advice.rule
            assert advice.source, advice.rule
            assert all(" = " in line for line in advice.lines), advice.rule
            assert set(advice.sets) <= NAMES.keys(), advice.rule


def test_nothing_is_said_of_options_that_may_be_set_where_they_are_not_seen():
    """If a part of the configuration is unknown, an option that is not seen may be set there."""
    assert rules(Options(processes=4)) == {}
    assert rules(Options(processes=4, threads=8, harakiri=30)) == {"harakiri_with_threads": "warning"}


AGE = ("max-worker-lifetime = 3600", "max-worker-lifetime-delta = 300")


@pytest.mark.parametrize(
    ("change", "seen", "expected"),
    [
        ({"max_requests": 1000}, Seen(), ("max-requests-delta = 250",)),
        ({"max_requests": 1000}, Seen((2, 0, 29), 2), ("max-requests-delta = 500",)),
        ({"max_requests": 1000}, Seen((2, 0, 21), 2), AGE),
        ({"max_requests": 1000}, Seen((2, 0, 18), 2), ()),
        ({"harakiri": 90}, Seen(), ("worker-reload-mercy = 90",)),
        ({"harakiri": 90, "worker_reload_mercy": 80}, Seen(), ("worker-reload-mercy = 90",)),
        ({"listen": 5000}, Seen(somaxconn=4096), ("listen = 4096",)),
        ({"listen": None}, Seen(somaxconn=4096), ("listen = 1024",)),
        ({"listen": None}, Seen(somaxconn=128), ("listen = 128",)),
        ({"http": (":80",), "harakiri": None, "threads": 2}, Seen(), ("harakiri = 60",)),
        ({"cheaper": 4}, Seen(), ("cheaper = 2",)),
        ({"max_worker_lifetime": 10, "max_worker_lifetime_delta": 5}, Seen(), ("min-worker-lifetime = 5",)),
        ({"min_worker_lifetime": 61, "reload_on_rss": 512}, Seen(), ("min-worker-lifetime = 10",)),
        ({"processes": 1, "lazy_apps": None}, Seen(), ("processes = 4",)),
    ],
)
def test_the_line_to_write(change, seen, expected):
    """The line has a value that fits these options and this version of uWSGI."""
    (advice,) = review(replace(CAREFUL, **change), seen)
    assert advice.lines == expected


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"max_requests": 1000, "processes": 1, "threads": 2, "harakiri": None}, Seen()),
        ({"max_requests": 1000, "max_requests_delta": 50}, Seen()),
        ({"harakiri": 90, "worker_reload_mercy": 90}, Seen()),
        ({"max_worker_lifetime": 11, "max_worker_lifetime_delta": 5}, Seen()),
        ({"min_worker_lifetime": 60, "reload_on_rss": 512}, Seen()),
        ({"min_worker_lifetime": 600}, Seen()),
        ({"listen": 5000}, Seen(somaxconn=5000)),
        ({"die_on_term": None}, Seen(is_vassal=True)),
        ({"single_interpreter": None}, Seen(mounted=1)),
        ({"enable_threads": None}, Seen(version=(2, 0, 27))),
        ({"chmod_socket": ("660", "660")}, Seen()),
        ({"stats": "127.0.0.1:1717"}, Seen()),
        ({"stats": "[::1]:1717"}, Seen()),
        ({"stats": "/run/uwsgi/app/shop/stats"}, Seen()),
        ({"stats": "@shop"}, Seen()),
        ({"http": ("?",), "max_fd": 4096}, Seen(descriptors=1 << 30)),
        ({"http": (":80",)}, Seen(descriptors=1024)),
        ({"thunder_lock": True}, Seen()),
        ({"http_socket": ("127.0.0.1:80", "?")}, Seen()),
        ({"worker_reload_mercy": 900, "can_reload_workers": True}, Seen()),
        ({"processes": 8, "cheaper": 2, "cheaper_initial": 2, "cheaper_step": 2}, Seen()),
    ],
)
def test_where_a_rule_is_silent(change, seen):
    """A setting that is harmless here gets no advice."""
    assert rules(replace(CAREFUL, **change), seen) == {}


@pytest.mark.parametrize(
    ("change", "seen", "severity"),
    [
        ({"die_on_term": None}, Seen(is_first=True), "warning"),
        ({"die_on_term": None}, Seen(unit="shop.service"), "info"),
        ({"die_on_term": None}, Seen(), "info"),
        ({"single_interpreter": None}, Seen(mounted=2, extensions=("numpy",)), "warning"),
        ({"single_interpreter": None}, Seen(mounted=2), "info"),
        ({"enable_threads": None}, Seen(version=(2, 0, 21)), "warning"),
        ({"enable_threads": None}, Seen(), "info"),
        ({"chmod_socket": ("666", "660")}, Seen(), "info"),
        ({"chmod_socket": ("666", "660"), "stats": "/run/shop.stats"}, Seen(), "warning"),
    ],
)
def test_what_is_seen_decides_how_urgent_it_is(change, seen, severity):
    """Where a uWSGI that runs shows that it matters, advice becomes a warning, and says what was seen."""
    (advice,) = review(replace(CAREFUL, **change), seen)
    assert advice.severity == severity
    assert ("General advice" in advice.seen) == (seen == NOTHING_SEEN and not advice.sets)


def test_every_option_that_is_read_is_used_by_a_rule_or_elsewhere():
    """No option is read for nothing: the rules read those that no other part of the program does."""
    read: set[str] = set()

    class Watched(Options):
        def __getattribute__(self, name: str) -> object:
            read.add(name)
            return super().__getattribute__(name)

    for options, seen in WORST:
        watched = Watched(**{field.name: getattr(options, field.name) for field in fields(options)})
        review(watched, seen)
    elsewhere = {
        "cheap",
        "idle",
        "map_socket",
        "socket_timeout",
        "die_on_idle",
        "spooler_max_tasks",
        "spooler_harakiri",
    }
    elsewhere |= {"threads_stacksize", "http_manage_expect", "http_keepalive"}
    elsewhere |= {"emperor", "emperor_stats", "cheaper_rss_limit_soft", "http_to", "http11_socket", "zerg"}
    elsewhere |= {"gevent_monkey_patch", "gevent_early_monkey_patch"}
    """Used by findings, the owners of sockets, the sampling of waits, outages and `discover`."""
    assert NAMES.keys() - read == elsewhere


def test_a_verdict_points_to_the_review():
    """Settings that will hurt are one finding for all, which is never urgent, and names the command."""
    known = setup(**{field.name: getattr(WORST[1][0], field.name) for field in fields(Options)})
    found = judge(idle(), describe(address="unix:///run/my shop.stats", setup=known))["settings_hurt"]
    assert found.severity == "info"
    assert "`uwsgi-headroom review 'unix:///run/my shop.stats'`" in found.change
    assert "settings_hurt" not in judge(idle())
