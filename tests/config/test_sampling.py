"""The rate of samples: from a flag, the environment or the file, within bounds."""

from pathlib import Path

import pytest

from uwsgi_headroom.arguments.commands import SETTING_FLAGS
from uwsgi_headroom.arguments.parser import Parser
from uwsgi_headroom.config import precedence, yaml_file
from uwsgi_headroom.config.settings import DEFAULT_SETTINGS, Config
from uwsgi_headroom.errors import ConfigError


def resolve(*arguments: str, environment: dict[str, str] | None = None) -> Config:
    parser = Parser(flags=SETTING_FLAGS)
    return precedence.resolve_config(parser.parse_args(arguments), environment or {})


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "headroom.yaml"
    path.write_text("servers: [/run/shop.stats]\nsampling:\n  samples_per_second: 2\n")
    return path


def test_default() -> None:
    """Without a setting the default rate applies, with a file or without."""
    assert resolve().settings == DEFAULT_SETTINGS


def test_file(written):
    """The file sets the rate."""
    assert yaml_file.load_file(written).settings.samples_per_second == 2


def test_order(written):
    """A flag overrides the environment, which overrides the file."""
    variable = {"UWSGI_HEADROOM_SAMPLES_PER_SECOND": "10"}
    assert resolve("--config", str(written)).settings.samples_per_second == 2
    assert resolve("--config", str(written), environment=variable).settings.samples_per_second == 10
    every = resolve("--config", str(written), "--samples-per-second", "0.5", environment=variable)
    assert every.settings.samples_per_second == 0.5


@pytest.mark.parametrize("rate", ["0.25", "20"])
def test_bounds_are_allowed(rate):
    """The bounds themselves are valid."""
    assert resolve("--samples-per-second", rate).settings.samples_per_second == float(rate)


@pytest.mark.parametrize("rate", ["0", "0.24", "20.1", "-5", "nan", "inf", "often"])
def test_refused(rate):
    """A rate out of bounds is refused with a message that names the flag and the bounds."""
    with pytest.raises(ConfigError, match=r"--samples-per-second: '.*' is not a number from 0.25 to 20"):
        resolve(f"--samples-per-second={rate}")


def test_environment_is_named() -> None:
    """A message about a wrong environment variable names the variable."""
    with pytest.raises(ConfigError, match="UWSGI_HEADROOM_SAMPLES_PER_SECOND: '99'"):
        resolve(environment={"UWSGI_HEADROOM_SAMPLES_PER_SECOND": "99"})


def test_file_is_held_to_the_bounds(written):
    """A number out of bounds in the file is refused with its line."""
    written.write_text("sampling:\n  samples_per_second: 21\n")
    with pytest.raises(ConfigError, match=r":2: expected a number from 0.25 to 20"):
        yaml_file.load_file(written)


def test_other_flags_are_named_as_written() -> None:
    """Messages name a flag as on the command line, including dotted flags."""
    with pytest.raises(ConfigError, match=r"--web\.listen-address: "):
        resolve("--web.listen-address", "nowhere")
    with pytest.raises(ConfigError, match=r"--log\.level: "):
        resolve("--log.level", "loud")


@pytest.mark.parametrize("empty", ["", "~", "[]"])
def test_no_windows_are_the_default_ones(written, empty):
    """A key without a value sets nothing."""
    written.write_text(f"sampling:\n  windows: {empty}\n")
    assert yaml_file.load_file(written).settings == DEFAULT_SETTINGS
