"""Words of a report that several chapters share."""

from __future__ import annotations

from uwsgi_headroom.report.review.model import Judgement

URGENCY: dict[Judgement, str] = {"act": "Act now", "plan": "Plan", "ok": "Good to know", "unknown": "Unknown"}
"""How urgent a recommendation is."""

STATUS: dict[Judgement, str] = {"act": "Act now", "plan": "Plan", "ok": "Enough capacity", "unknown": "Not judged"}
"""The verdict on a service in a word or two."""
