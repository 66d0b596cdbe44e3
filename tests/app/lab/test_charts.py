"""Charts are files that are equal for equal input."""

from __future__ import annotations

from xml.etree import ElementTree

from app.lab.charts import draw_bars, draw_lines
from app.lab.results import spread


def _texts(path) -> set[str]:
    return {"".join(element.itertext()).strip() for element in ElementTree.parse(path).iter()}


def test_bars(tmp_path):
    """Names and units are text; equal input gives equal bytes; no rows give an empty chart."""
    rows = {"4x8 & <more>": spread([3, 4, 5]), "8x1": spread([6.5])}
    for name in ("a", "b"):
        draw_bars(tmp_path / name, title="T $x$", unit="requests/s", rows=rows, beside={"8x1": 2.0})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert {"4x8 & <more>", "8x1", "requests/s", "T $x$", "measured", "published"} <= _texts(tmp_path / "a")
    draw_bars(tmp_path / "c", title="T", unit="u", rows={})
    draw_bars(tmp_path / "plain", title="T", unit="u", rows=rows)
    assert "T" in _texts(tmp_path / "c")


def test_lines(tmp_path):
    """As for bars."""
    lines = {"uWSGI": [(1.0, 2.0), (2.0, 4.0)], "gevent": []}
    for name in ("a", "b"):
        draw_lines(tmp_path / name, title="T", x="offered [1/s]", y="replies [1/s]", lines=lines)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert {"uWSGI", "gevent", "offered [1/s]", "replies [1/s]"} <= _texts(tmp_path / "a")
