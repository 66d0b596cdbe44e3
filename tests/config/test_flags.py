"""Flags and their environment variables."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.config.test_precedence import resolved
from uwsgi_headroom.arguments.commands import add_settings
from uwsgi_headroom.source import Unix


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    add_settings(made)
    return made


SAMPLES = {
    "stats": ("/a", lambda result: [server.address for server in result.servers], [Unix("/a")]),
    "config": ("{file}", lambda result: result.log_level, "error"),
    "web_listen_address": ("[::1]:1", lambda result: result.listen, (("::1", 1),)),
    "web_allowed_hosts": ("Headroom.example.com", lambda result: result.allowed_hosts, ("headroom.example.com",)),
    "web_config_file": ("web.yml", lambda result: result.web_config_file, "web.yml"),
    "samples_per_second": ("2", lambda result: result.settings.samples_per_second, 2.0),
    "window": ("10m", lambda result: len(result.settings.windows), 1),
    "cpu_residency": ("true", lambda result: result.settings.cpu_residency, True),
    "waits": ("false", lambda result: result.settings.waits, False),
    "backends": ("pg=10.0.0.5:5432", lambda result: result.settings.backends, (("pg", "10.0.0.5:5432"),)),
    "read_pollfds": ("true", lambda result: result.settings.read_pollfds, True),
    "slo": ("1s:99%", lambda result: result.settings.slo and result.settings.slo.objective, 0.99),
    "stuck": ("5m", lambda result: result.settings.stuck_seconds, 300.0),
    "routes": ("true", lambda result: result.settings.routes, True),
    "route_template": ("/orders/new", lambda result: result.settings.route_templates, ("/orders/new",)),
    "routes_beyond_loopback": ("true", lambda result: result.routes_beyond_loopback, True),
    "history": ("/var/lib/h.sqlite", lambda result: result.history, "/var/lib/h.sqlite"),
    "history_max_size": ("1.5GB", lambda result: result.history_max_size, 1_500_000_000),
    "log_level": ("warning", lambda result: result.log_level, "warning"),
    "log_format": ("json", lambda result: result.log_format, "json"),
}


def test_every_flag_has_its_variable(tmp_path: Path) -> None:
    """Each flag of the parser has an environment variable, named in its help, that does the same."""
    path = tmp_path / "headroom.yml"
    path.write_text("log: {level: error}\n")
    actions = [action for action in parser()._actions if action.dest != "help"]
    assert {action.dest for action in actions} == set(SAMPLES)
    for action in actions:
        text, look, expected = SAMPLES[action.dest]
        value = text.format(file=path) if "{" in text else text
        name = action.dest.upper()
        assert f"[UWSGI_HEADROOM_{name}" in (action.help or "")
        assert action.option_strings[0].lstrip("-").replace(".", "_").replace("-", "_") == action.dest
        assert look(resolved(**{name: value})) == expected
        assert look(resolved(action.option_strings[0], value)) == expected
