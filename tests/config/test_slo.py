"""Service level objectives: how they are written, and which are refused."""

import pytest

from tests.config.test_settings import refusal, resolved
from uwsgi_headroom.config.slo import Slo, parse_objective, parse_slo, parse_threshold
from uwsgi_headroom.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "threshold", "objective"),
    [
        ("1s:99%", 1.0, 0.99),
        ("800ms:0.95", 0.8, 0.95),
        (" 1.5s : 99.5% ", 1.5, 0.995),
        ("1m:50%", 60.0, 0.5),
        ("0.4s:.9", 0.4, 0.9),
    ],
)
def test_an_objective(text, threshold, objective):
    """A response time with its unit, and a share of requests as a percentage or a fraction."""
    assert parse_slo(text, "--slo") == Slo(threshold, objective, "--slo")


@pytest.mark.parametrize(
    "text",
    ["1", "s", "1h", "0s", "-1s", "1.s", "1e3ms", "61s", "1.1m", "nan", "\N{ARABIC-INDIC DIGIT ONE}s", "", "1s2"],
)
def test_a_threshold_that_is_none(text):
    """The message has the place, the text and an example."""
    with pytest.raises(ConfigError) as caught:
        parse_threshold(text, "here")
    message = str(caught.value)
    assert message == f"here: {text!r} is not a response time up to 60s; write it with its unit, such as 800ms"


@pytest.mark.parametrize("text", ["", "%", "49%", "0.1", "100%", "1", "99", "-99%", "nan", "inf", "99 percent", "nan%"])
def test_an_objective_that_is_none(text):
    """From half of the requests on, but not all."""
    with pytest.raises(ConfigError, match=r"^here: .* is not an objective; .* from 50% to 99.5%, such as 99%$"):
        parse_objective(text, "here")


@pytest.mark.parametrize("text", ["99.6%", "99.9%", "0.999", "0.99999999"])
def test_an_objective_too_high_for_samples(text):
    """Above 99.5 %, the error of the estimate decides."""
    with pytest.raises(ConfigError) as caught:
        parse_objective(text, "here")
    assert str(caught.value) == f"here: an objective of {text} cannot be judged from samples; the highest is 99.5%"


def test_flag_and_variable():
    """The flag goes first. The shortest threshold is two times between samples."""
    assert resolved().settings.slo is None
    assert resolved(SLO="2s:95%").settings.slo == Slo(2.0, 0.95, "UWSGI_HEADROOM_SLO")
    assert resolved("--slo", "1s:99%", SLO="2s:95%").settings.slo == Slo(1.0, 0.99, "--slo")
    assert resolved("--slo", "400ms:99%").settings.slo == Slo(0.4, 0.99, "--slo")
    assert resolved("--slo", "667ms:99%", "--samples-per-second", "3").settings.slo


@pytest.mark.parametrize(
    ("arguments", "environment", "start"),
    [
        (("--slo", "1s"), {}, "--slo: '1s' is not an objective; write THRESHOLD:OBJECTIVE, such as 1s:99%"),
        (("--slo", "1:99%"), {}, "--slo: '1' is not a response time"),
        ((), {"SLO": "1s:100%"}, "UWSGI_HEADROOM_SLO: '100%' is not an objective"),
        (("--slo", "1s:99%:5m"), {}, "--slo: '99%:5m' is not an objective"),
    ],
)
def test_the_message_names_the_place(arguments, environment, start):
    assert refusal(*arguments, **environment).startswith(start)


def test_in_the_file(write):
    """A server's own objective goes before that of all servers."""
    path = write("servers:\n  - stats: /a\n    slo: {threshold: 800ms, objective: 99%}\n  - stats: /b\n")
    given = resolved("--config", str(path), "--slo", "2s:0.9")
    first, second = (server.slo for server in given.servers)
    assert first == Slo(0.8, 0.99, f"{path}:3")
    assert second is None
    assert given.settings.slo == Slo(2.0, 0.9, "--slo")


@pytest.mark.parametrize(
    ("slo", "message"),
    [
        ("{threshold: 1s}", "an objective needs `threshold`, such as 1s, and `objective`, such as 99%"),
        ("{threshold: 1, objective: 99%}", "'1' is not a response time up to 60s"),
        ("{threshold: 1s, objective: 100%}", "'100%' is not an objective"),
        ("{threshold: 1s, objective: 99%, window: 5m}", "window"),
        ("1s:99%", "3"),
        ("[1s, 99%]", "3"),
        ("{threshold: 100ms, objective: 99%}", "a threshold of 100ms cannot be judged with 5 samples per second"),
    ],
)
def test_mistakes_in_the_file(write, slo, message):
    path = write(f"servers:\n  - stats: /a\n    slo: {slo}\n")
    refused = refusal("--config", str(path))
    assert refused.startswith(f"{path}:3: ")
    assert message in refused


@pytest.mark.parametrize(
    ("slo", "samples", "least"),
    [
        ("399ms:99%", "5", "400ms"),
        ("1.9s:99%", "1", "2000ms"),
        ("50ms:99%", "20", "100ms"),
        ("600ms:99%", "3", "667ms"),
    ],
)
def test_a_threshold_too_short_for_the_samples(slo, samples, least):
    """Below two times between samples, these do not show how many requests are slower."""
    message = refusal("--slo", slo, "--samples-per-second", samples)
    assert message.startswith(
        f"--slo: a threshold of {slo.partition(':')[0].replace('1.9s', '1900ms')} cannot be judged"
    )
    assert f"the least is {least}, two times between samples" in message
