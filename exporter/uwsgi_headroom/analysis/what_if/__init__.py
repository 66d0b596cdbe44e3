"""Predicts how a server would do in another setting of processes and threads, from one setting that was observed.

Pure Python: no I/O, no clock. `predict_settings` takes about a second for twelve settings, so call it in a thread.
"""

from __future__ import annotations

from uwsgi_headroom.analysis.what_if.measured import (
    CannotPredictError,
    Measured,
    Observed,
    describe_flow,
    find_floor,
    find_uneven_shares,
    measure_server,
)
from uwsgi_headroom.analysis.what_if.predict import predict_settings
from uwsgi_headroom.analysis.what_if.runs import AtLoad, Check, Prediction, Resource, Utilization, WhatIf
from uwsgi_headroom.analysis.what_if.setting import (
    MOST_SETTINGS,
    Setting,
    SettingError,
    choose_settings,
    parse_setting,
    parse_settings,
)

__all__ = [
    "MOST_SETTINGS",
    "AtLoad",
    "CannotPredictError",
    "Check",
    "Measured",
    "Observed",
    "Prediction",
    "Resource",
    "Setting",
    "SettingError",
    "Utilization",
    "WhatIf",
    "choose_settings",
    "describe_flow",
    "find_floor",
    "find_uneven_shares",
    "measure_server",
    "parse_setting",
    "parse_settings",
    "predict_settings",
]
