"""Exact mean value analysis of closed queueing networks with one class of customers.

M. Reiser, S. S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", Journal of the ACM 27 (2),
1980. A station that is shared evenly (processor sharing) gives the same means for every distribution of the demand (F.
Baskett, K. M. Chandy, R. R. Muntz, F. G. Palacios, Journal of the ACM 22 (2), 1975), so these are exact for the
simulation where its requests meet one such station and a delay.
"""

from __future__ import annotations

from collections.abc import Callable


def closed_throughput(customers: int, demand: float, delay: float) -> float:
    """Cycles per second of so many customers that alternate between one server (seconds `demand`) and a delay."""
    return closed_throughput_of_servers(customers, demand, delay, lambda _present: 1.0)


def closed_throughput_of_servers(customers: int, demand: float, delay: float, rate: Callable[[int], float]) -> float:
    """The same for a station that works at `rate(n)` with n customers present: min(n, c) for c servers."""
    probabilities = [1.0]  # of 0, 1, ... customers at the station
    throughput = 0.0
    for present in range(1, customers + 1):
        time = demand * sum(
            (number + 1) / rate(number + 1) * probability for number, probability in enumerate(probabilities)
        )
        throughput = present / (delay + time)
        rest = [throughput * demand / rate(number + 1) * each for number, each in enumerate(probabilities)]
        probabilities = [max(0.0, 1 - sum(rest)), *rest]
    return throughput
