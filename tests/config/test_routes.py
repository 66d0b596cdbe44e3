"""Settings of routes: the switch, the templates, and the override for addresses beyond loopback."""

import pytest

from tests.config.test_settings import refusal, resolved
from tests.support.exporter import exporter, run
from tests.support.real_uwsgi import free_port, wait_until
from uwsgi_headroom.config import yaml_file
from uwsgi_headroom.config.parsers import parse_templates
from uwsgi_headroom.config.settings import DEFAULT_SETTINGS
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.routes import MOST_TEMPLATES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/orders/{id}", "/orders/{id}"),
        (" /orders/{order_id}/items/ ", "/orders/{order_id}/items"),
        ("/v1/books:export", "/v1/books:export"),
        ("/{tenant}/@{x", None),
        ("orders/{id}", None),
        ("", None),
        ("/", None),
        ("//x", None),
        ("/a//b", None),
        ("/a/{}", None),
        ("/a/{1}", None),
        ("/a/x{id}", None),
        ("/a b", None),
        ("/a?b", None),
        ("/a/../b", None),
        ('/"', None),
        ("/café", None),
        ("/" + "/".join("abcdefghi"), None),
    ],
)
def test_a_template_is_a_path(text, expected):
    """A segment is literal, or a name in braces; anything else is refused with its text."""
    if expected is not None:
        assert parse_templates([(text, "--route-template")]) == (expected,)
        return
    with pytest.raises(ConfigError) as caught:
        parse_templates([(text, "--route-template")])
    assert str(caught.value).startswith(f"--route-template: {text!r}")


def test_templates_are_few_and_different():
    """Each may be a time series for each method."""
    texts = [f"/t{number}" for number in range(MOST_TEMPLATES + 1)]
    assert len(parse_templates([(text, "x") for text in texts[:-1]])) == MOST_TEMPLATES
    for wrong, words in ((texts, "51 templates are too many; 50"), (["/a/{b}", "/a/{b}/"], "'/a/{b}' is set twice")):
        with pytest.raises(ConfigError, match=words):
            parse_templates([(text, "x") for text in wrong])


def test_off_unless_a_flag_or_a_variable_says_so():
    """The switch may have a value; templates are separated by spaces in the environment."""
    assert (DEFAULT_SETTINGS.routes, resolved().settings.routes, resolved().routes_beyond_loopback) == (
        False,
        False,
        False,
    )
    assert resolved("--routes").settings.routes
    assert not resolved("--routes", "false", ROUTES="true").settings.routes
    assert resolved(ROUTE_TEMPLATE="/a/{b} /c").settings.route_templates == ("/a/{b}", "/c")
    assert resolved("--routes-beyond-loopback").routes_beyond_loopback
    assert "UWSGI_HEADROOM_ROUTES: 'on'" in refusal(ROUTES="on")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("routes: true", (True, (), False)),
        ("routes: false", (False, (), False)),
        ("routes:", (False, (), False)),
        ("routes: {}", (False, (), False)),
        ("routes:\n  templates:\n    - /orders/{id}\n    - /x", (True, ("/orders/{id}", "/x"), False)),
        ("routes:\n  templates: /orders/{id}\n  beyond_loopback: true", (True, ("/orders/{id}",), True)),
        ("routes: {enabled: false, beyond_loopback: true}", (False, (), True)),
    ],
)
def test_the_file(write, text, expected):
    config = yaml_file.load_file(write(text))
    assert (config.settings.routes, config.settings.route_templates, config.routes_beyond_loopback) == expected


@pytest.mark.integration
def test_beyond_loopback_only_with_the_override():
    """Other machines could read the routes without a login, so the exporter does not start, and says what to do."""
    address = f"0.0.0.0:{free_port()}"
    arguments = ("--stats", "file:///nowhere", "--routes", "--web.listen-address", address)
    refused = run(*arguments)
    assert refused.returncode == 2
    assert f"other machines can reach {address}" in refused.stderr
    assert "--routes-beyond-loopback" in refused.stderr
    with exporter(*arguments, "--routes-beyond-loopback") as running:
        wait_until(lambda: running.lines("anyone who can reach this address"), what="the warning")
