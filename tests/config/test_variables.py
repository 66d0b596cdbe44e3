"""A misspelt environment variable is refused; a variable that an orchestrator sets is not."""

from __future__ import annotations

import argparse

import pytest

from uwsgi_headroom.arguments.commands import SETTING_FLAGS
from uwsgi_headroom.arguments.parser import Parser
from uwsgi_headroom.config import precedence
from uwsgi_headroom.config.settings import FLAGS
from uwsgi_headroom.errors import ConfigError

# The variables that Kubernetes sets in each pod for services called uwsgi-headroom, -stats and -log-level.
SERVICES = [
    "SERVICE_HOST",
    "SERVICE_PORT",
    "SERVICE_PORT_WINDOW",
    "PORT",
    "PORT_9238_TCP",
    "PORT_9238_TCP_PROTO",
    "PORT_9238_TCP_PORT",
    "PORT_9238_TCP_ADDR",
    "STATS_PORT",
    "STATS_SERVICE_HOST",
    "LOG_LEVEL_PORT",
    "LOG_LEVEL_SERVICE_PORT",
    "LOG_LEVEL_PORT_80_TCP",
]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("STAT", "STATS"),
        ("stats", "STATS"),
        ("WINDOWS", "WINDOW"),
        ("LISTEN_ADDRESS", "WEB_LISTEN_ADDRESS"),
        ("LOGLEVEL", "LOG_LEVEL"),
        ("SAMPLE_PER_SECOND", "SAMPLES_PER_SECOND"),
        ("CPU_RESIDENCE", "CPU_RESIDENCY"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_right_one(name: str, meant: str) -> None:
    """The message has the unknown name, and the one that was probably meant."""
    with pytest.raises(ConfigError) as caught:
        precedence.resolve_config(_nothing_given(), {f"UWSGI_HEADROOM_{name}": "x"})
    assert str(caught.value) == (
        f"unknown environment variable UWSGI_HEADROOM_{name}; did you mean UWSGI_HEADROOM_{meant}?"
    )


@pytest.mark.parametrize("name", [*SERVICES, "VERSION", "IMAGE", "CONFIG_DIR"])
def test_names_of_orchestration_stop_nothing(name: str) -> None:
    """Such variables change no setting, and are listed for the log."""
    environment = {f"UWSGI_HEADROOM_{name}": "tcp://10.0.0.1:9238"}
    assert precedence.resolve_config(_nothing_given(), environment) == precedence.resolve_config(_nothing_given(), {})
    assert precedence.unknown_variables(environment) == [f"UWSGI_HEADROOM_{name}"]


def test_every_flag_is_a_known_variable() -> None:
    """The known variables are those of the flags, and none of them counts as unknown."""
    assert {setting.name for setting in FLAGS} == set(vars(_nothing_given()))
    assert precedence.unknown_variables({f"UWSGI_HEADROOM_{setting.name.upper()}": "" for setting in FLAGS}) == []
    assert precedence.unknown_variables({"UWSGI": "/usr/bin/uwsgi", "HOME": "/"}) == []


def _nothing_given() -> argparse.Namespace:
    return Parser(flags=SETTING_FLAGS).parse_args([])
