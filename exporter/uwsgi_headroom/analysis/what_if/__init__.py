"""Predicts how a server would do in another setting of processes and threads, from one setting that was observed.

Pure Python: no I/O, no clock. A prediction takes some milliseconds.
"""

from __future__ import annotations

from uwsgi_headroom.analysis.what_if.measured import (
    MOST_SETTINGS,
    CannotPredictError,
    Measured,
    Observed,
    Setting,
    SettingError,
    choose_settings,
    describe_flow,
    find_floor,
    find_uneven_shares,
    measure_server,
    parse_setting,
    parse_settings,
)
from uwsgi_headroom.analysis.what_if.predict import (
    AtLoad,
    Check,
    Prediction,
    Resource,
    WhatIf,
    predict_settings,
    propose,
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
    "WhatIf",
    "choose_settings",
    "describe_flow",
    "find_floor",
    "find_uneven_shares",
    "measure_server",
    "parse_setting",
    "parse_settings",
    "predict_settings",
    "propose",
]
