"""Computes a capacity review from a range of quarter hours; does no I/O."""

from __future__ import annotations

from uwsgi_headroom.report.model import ReviewData
from uwsgi_headroom.report.review.outlook_model import Review


def build_review(data: ReviewData) -> Review:
    """The review of a range. Raises nothing for missing data: a section without it says why."""
    raise NotImplementedError


__all__ = ["Review", "build_review"]
