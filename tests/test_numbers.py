"""Accepted and refused texts for a number between two bounds."""

import pytest

from uwsgi_headroom.numbers import OutOfRangeError, parse_number


@pytest.mark.parametrize(("text", "number"), [("0.5", 0.5), ("20", 20.0), ("1e1", 10.0), (" 7 ", 7.0)])
def test_a_number_in_range(text, number):
    assert parse_number(text, 0.5, 20) == number


@pytest.mark.parametrize("text", ["0.49", "20.1", "-5", "nan", "inf", "-inf"])
def test_a_number_out_of_range(text):
    """NaN is in no range."""
    with pytest.raises(OutOfRangeError, match=r"is not a number from 0\.5 to 20"):
        parse_number(text, 0.5, 20)


@pytest.mark.parametrize("text", ["", "often", "5s", "0x10"])
def test_a_text_that_is_no_number(text):
    with pytest.raises(ValueError, match="could not convert") as caught:
        parse_number(text, 0.5, 20)
    assert not isinstance(caught.value, OutOfRangeError)
