"""The boundary that a difference has to cross to count, valid at every look however many there are.

A test with a fixed critical value errs once in so many looks; a deploy is looked at every few seconds for an hour. The
mixture sequential probability ratio test errs once in so many deploys, whenever one stops (Robbins 1970; for A/B tests
Johari, Koomen, Pekelis and Walsh 2017; the one-sided form is the half-normal mixture of Howard, Ramdas, McAuliffe and
Sekhon 2021). The difference of a growing side and a fixed one has independent increments in its information,
1 / variance, so one boundary serves both sides' errors.
"""

from __future__ import annotations

from math import exp, log, log1p, sqrt


def find_boundary(information: float, tuned: float, error: float) -> float:
    """The number of standard errors that a difference stays below at all times with a probability of 1 - `error` if
    there is none. information: how much is known, in any unit; tuned: that at which the boundary is about the narrowest
    over 12, in the same unit."""
    if information <= 0:
        return float("inf")
    return sqrt((1 + tuned / information) * (log1p(information / tuned) - 2 * log(2 * error)))


def to_normal(t: float, freedom: float) -> float:
    """The number of standard deviations as improbable as Student's `t` with so many degrees of freedom (Wallace 1959,
    within 0.02 from 3 degrees on)."""
    size = (8 * freedom + 1) / (8 * freedom + 3) * sqrt(freedom * log1p(t * t / freedom))
    return size if t >= 0 else -size


def from_normal(z: float, freedom: float) -> float:
    """The inverse of `to_normal`."""
    size = abs(z) * (8 * freedom + 3) / (8 * freedom + 1)
    if size * size / freedom > 500:
        return float("inf")
    t = sqrt(freedom * (exp(size * size / freedom) - 1))
    return t if z >= 0 else -t
