"""Accepted and refused texts for a number between two bounds, and for one with a unit."""

from math import isnan

import pytest

from uwsgi_headroom.numbers import BYTES, SECONDS, parse_number, parse_quantity


@pytest.mark.parametrize(("text", "number"), [("0.5", 0.5), ("20", 20.0), ("1e1", 10.0), (" 7 ", 7.0)])
def test_a_number_in_range(text, number):
    assert parse_number(text, 0.5, 20) == number


@pytest.mark.parametrize("text", ["0.49", "20.1", "-5", "nan", "inf", "-inf", "", "often", "5s", "0x10"])
def test_what_is_no_number_in_range(text):
    """NaN is in no range."""
    with pytest.raises(ValueError, match=rf"{text}'?$"):
        parse_number(text, 0.5, 20)


def test_a_number_with_its_unit():
    """What has none, or another one, is in no bounds."""
    assert [parse_quantity(text, SECONDS) for text in ("250ms", " 1.5m ", ".5 h")] == [0.25, 90.0, 1800.0]
    assert parse_quantity("1.5GB", BYTES) == 1.5e9
    for text in ("", "5", "s", "-5s", "1e3s", "5 min", "1.s", "\N{ARABIC-INDIC DIGIT ONE}s", "9" * 5000 + "s"):
        assert isnan(parse_quantity(text, SECONDS)), text
