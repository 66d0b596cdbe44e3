"""Settings in text, and the settings around an observed one."""

from __future__ import annotations

import pytest

from uwsgi_headroom.analysis.what_if.measured import (
    MOST_IN_ALL,
    Setting,
    SettingError,
    choose_settings,
    parse_setting,
    parse_settings,
)


@pytest.mark.parametrize(
    ("text", "setting"), [("8x4", Setting(8, 4)), (" 1X16 ", Setting(1, 16)), ("64x64", Setting(64, 64))]
)
def test_read(text: str, setting: Setting) -> None:
    """Processes come first, then threads per process."""
    assert parse_setting(text) == setting
    assert parse_setting(str(setting)) == setting


@pytest.mark.parametrize(
    "text",
    [
        *("", "8", "8x", "x4", "0x1", "1x0", "-1x4", "4x-1", "1e9x1", "1000000000x1", "9" * 5000 + "x1", "8x4x2"),
        *(
            "8 x 4",
            "\uff11x\uff11",
            "8\u00d74",
            "1025x1",
            "1x1025",
            "128x64",
            "nanxnan",
            "1.5x2",
            "8x4\n9x9",
            "\x1b[1mx1",
        ),
    ],
)
def test_refused(text: str) -> None:
    """Anything else is refused in one short sentence."""
    with pytest.raises(SettingError) as refused:
        parse_setting(text)
    assert len(str(refused.value)) < 160


def test_several_settings() -> None:
    """Each is predicted once, in the order of the request, and at most twelve."""
    assert parse_settings(["8x4", "4x8", "8X4"]) == (Setting(8, 4), Setting(4, 8))
    with pytest.raises(SettingError, match="at most 12"):
        parse_settings(f"{number}x1" for number in range(1, 14))


@pytest.mark.parametrize("observed", ["1x1", "4x8", "8x1", "1x64", "64x64", "1024x1", "1x1024", "3x5"])
def test_the_grid(observed: str) -> None:
    """The grid has the observed setting, smaller and larger ones, and none twice."""
    setting = parse_setting(observed)
    chosen = choose_settings(setting, cpus=2)
    assert setting in chosen
    assert list(chosen) == sorted(set(chosen))
    assert 3 <= len(chosen) <= 12
    assert all(min(each.processes, each.threads) >= 1 and each.in_all <= MOST_IN_ALL for each in chosen)


def test_the_grid_has_the_obvious_questions() -> None:
    """Somebody with 4x8 asks for 8x4."""
    assert {Setting(8, 4), Setting(2, 16), Setting(8, 8), Setting(4, 16)} <= set(choose_settings(Setting(4, 8), cpus=8))
