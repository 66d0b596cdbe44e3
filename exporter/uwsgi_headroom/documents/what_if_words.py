"""Puts a what-if into sentences: how far the model is from what was observed, and whether workers fit into memory."""

from __future__ import annotations

from uwsgi_headroom.analysis.what_if import Check, Measured, Prediction
from uwsgi_headroom.words.formats import amount, byte_size, counted, duration, percent


def describe_check(check: Check) -> str:
    """The model's error on the observed setting, as one or two sentences."""
    at = f"At {amount(check.observed.throughput)} requests/s"
    parts = [
        _compare(what, duration(predicted), duration(observed), error)
        for what, predicted, observed, error in (
            ("response time", check.response_time, check.observed.response_time, check.response_time_error),
            ("95th percentile", check.p95, check.observed.p95, check.p95_error),
        )
        if error is not None and predicted is not None and observed is not None
    ]
    if check.throughput_error is not None:
        most, seen = f"{amount(check.throughput)} requests/s", f"{amount(check.observed.throughput)} requests/s"
        parts.append(_compare("most throughput", most, seen, check.throughput_error))
    if parts:
        return f"{at} the model of the observed setting has {', and '.join(parts)}."
    return (
        f"{at} the model agrees with the observation because it was fitted to it: its error is not known. With wait "
        "states, or a peak in the history, it would be."
    )


def _compare(what: str, predicted: str, observed: str, error: float) -> str:
    where = "as observed" if abs(error) < 0.005 else f"{percent(abs(error))} {'above' if error > 0 else 'below'}"
    return f"a {what} of {predicted}, {where}" + ("" if abs(error) < 0.005 else f" the {observed} observed")


def describe_memory(prediction: Prediction, measured: Measured) -> str | None:
    """Why the workers of a setting do not fit into memory, or may not; None if they fit, or if that is unknown."""
    each, available = measured.memory_per_worker, measured.memory_available
    more = prediction.setting.processes - measured.running.processes
    if each is None or available is None or prediction.fits:
        return None
    most = "" if measured.memory_is_exact else "at most "
    fit = "do not fit" if measured.memory_is_exact else "may not fit"
    return (
        f"{prediction.setting}: {counted(more, 'more worker')} of {most}{byte_size(each)} {fit} into the "
        f"{byte_size(available)} available."
    )
