"""JSON documents about servers: the data that the API serves and that the page, `check` and `top` show.

Keys use the terms of docs/glossary.md and of the metrics. Durations are in seconds, instants in epoch seconds, sizes
in bytes, shares from 0 to 1. An unknown value is null, never 0, and `unknown` gives the reason. No document contains
any data of a request.
"""

from uwsgi_headroom.documents.emperor_router import Emperor, Router, Vassal
from uwsgi_headroom.documents.response_times import Percentile, ResponseTimes
from uwsgi_headroom.documents.waits import Code, CodeLine, Route, Waits
from uwsgi_headroom.documents.what_if import PredictedLoad, PredictedSetting, WhatIf
from uwsgi_headroom.documents.workers import Worker

__all__ = [
    "Code",
    "CodeLine",
    "Emperor",
    "Percentile",
    "PredictedLoad",
    "PredictedSetting",
    "ResponseTimes",
    "Route",
    "Router",
    "Vassal",
    "Waits",
    "WhatIf",
    "Worker",
]
