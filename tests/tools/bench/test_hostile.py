"""The tables of hostile servers and clients, and their verdicts on targets."""

from __future__ import annotations

from tools.bench.hostile import DOCUMENTS, SITUATIONS, Decoding, Figures, report
from tools.bench.hostile_crowds import QUIET, Crowd
from uwsgi_headroom.config.defaults import SIZE_CAP

WELL = Figures(samples=5.0, scrapes=(0.1, 0.3, 0.2), cpu=0.02, resident=50_000_000, lag=0.01, series=100)
CALM = Crowd(samples=5.0, scrapes=(0.1, 0.3, 0.2), answers=2_000.0, refused=0.0, resident=50_000_000)
QUIET_4X8, ASKED = ("4x8", "", QUIET), ("4x8", "ask", "/")
QUICK = Decoding(size=1_000_000, outcome="server", cpu=(0.01, 0.02, 0.03))


def test_no_miss() -> None:
    """Figures within all targets have rows and no miss."""
    text = report(dict.fromkeys(SITUATIONS, WELL), {"a document": QUICK}, {QUIET_4X8: CALM, ASKED: CALM})
    assert "| beside both | 5.00 | 0.200 | 0.300 | 100 | 2.0% | 50 | 0.010 |" in text
    assert "| 4x8 | ask | / | 5.00 | 0.200 | 0.300 | 2,000 | 0 | 50 |" in text
    assert "| a document | 1.00 | server | 20.0 | 30.0 |" in text
    assert "Misses: none." in text


def test_every_target_can_be_missed() -> None:
    """A good server that loses most samples, a scrape longer than Prometheus waits, and a slow document are named."""
    poor = Figures(samples=2.4, scrapes=(11.0,), cpu=1.0, resident=1, lag=None, series=0)
    busy = Crowd(samples=4.4, scrapes=(0.1, 0.6), answers=9.0, refused=1.0, resident=1)
    slow = Decoding(size=1, outcome="server", cpu=(0.06,))
    text = report({"alone": WELL, "beside both": poor}, {"a document": slow}, {QUIET_4X8: CALM, ASKED: busy})
    assert [line for line in text.splitlines() if line.startswith("* ")] == [
        "* beside both: 2.40 samples a second, less than half of the rate alone",
        "* beside both: 1 of 1 scrapes were not answered within 10 s",
        "* a document: decoding took 60 ms, more than 50 ms",
        "* 4x8, ask, /: 88% of the samples",
        "* 4x8, ask, /: a scrape took 0.60 s",
    ]


def test_documents_are_within_the_cap() -> None:
    """No decoded document is larger than the exporter accepts."""
    for name, make in DOCUMENTS.items():
        assert len(make()) <= SIZE_CAP, name
