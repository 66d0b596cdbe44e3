"""The formats and encodings that a client accepts."""

import pytest

from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.request_values import accepts_gzip, accepts_openmetrics

OPENMETRICS = "application/openmetrics-text;version=1.0.0"


@pytest.mark.parametrize("filler", ["x,", ",", "x;q=0.5,", "x" + ";a=b" * 20 + ","])
def test_only_the_first_values_of_a_header_are_parsed(filler):
    """Otherwise a line of commas would take 20 ms in each request, and a scrape beside 200 such requests 9 s."""
    few, many = filler * (bounds.HEADER_VALUES - 1), filler * bounds.HEADER_VALUES
    assert accepts_gzip(few + "gzip")
    assert not accepts_gzip(many + "gzip")
    assert accepts_openmetrics(few + OPENMETRICS)
    assert not accepts_openmetrics(many + OPENMETRICS)


def test_only_the_first_parameters_of_a_value_are_parsed():
    """A line of semicolons costs no more than one of commas."""
    assert not accepts_gzip("gzip" + ";" * (bounds.HEADER_VALUES - 2) + ";q=0")
    assert accepts_gzip("gzip" + ";" * bounds.HEADER_VALUES + ";q=0")
