"""Predicts how a server would do in another setting of processes and threads, from one setting that was observed.

Pure Python: no I/O, no clock. `predict_settings` takes about a second for twelve settings, so call it in a thread.
"""

from __future__ import annotations

from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, Measured, Observed
from uwsgi_headroom.analysis.what_if.predict import predict_settings
from uwsgi_headroom.analysis.what_if.runs import AtLoad, Check, Prediction, Resource, Utilization, WhatIf
from uwsgi_headroom.analysis.what_if.setting import Setting, SettingError, parse_setting, parse_settings

__all__ = [
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
    "parse_setting",
    "parse_settings",
    "predict_settings",
]
