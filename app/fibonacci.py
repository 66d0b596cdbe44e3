"""The arithmetic of the demo application, separate from Flask so that this module can be compiled."""

from __future__ import annotations


def beyond(number: int) -> list[int]:
    """The Fibonacci sequence up to the first value above `number`: for 9000, 22 values from 0 to 10946."""
    values = [0, 1]
    while values[-1] <= number:
        values.append(values[-2] + values[-1])
    return values


def naive(n: int) -> int:
    """The n-th Fibonacci number in exponential time: a request that only needs the interpreter."""
    return n if n < 2 else naive(n - 1) + naive(n - 2)
