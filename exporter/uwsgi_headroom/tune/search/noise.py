"""Compares variants that were measured in the same rounds, and says which differences are noise.

Only runs of the same round are compared, because they follow each other closely: what else the machine does then
matters less. The spread of these differences is pooled over all pairs of variants. As there are few, it is combined
with a usual spread, which counts as much as two differences and is larger beside busy programs (an empirical Bayes
estimate: G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3 (1), 2004).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, fsum, log, sqrt

USUAL = 0.03
"""The relative spread (standard deviation) of the difference of two runs on a quiet machine."""

OTHERS = 0.2
"""How much more that is if other programs use all CPUs; in proportion if they use a part."""

USUAL_COUNT = 2
"""The number of differences for which the usual spread counts."""

LEAST_MARGIN = 0.02
"""Nobody acts on a smaller difference."""

_QUANTILES = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75)
"""Student's t, 95 %, one-sided, for 1 degree of freedom and more."""

Scores = Mapping[str, Mapping[int, float]]
"""The scores of each variant, by round."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two variants differ over their common rounds."""

    ratio: float
    """The first score divided by the second: a geometric mean."""

    margin: float
    """The difference that noise explains with 95 % confidence, as a logarithm of a ratio."""

    rounds: int

    @property
    def explained(self) -> float:
        """The relative difference that noise explains, in the direction of `ratio`: a ratio is beyond the noise if it
        differs from 1 by more."""
        return exp(self.margin) - 1 if self.ratio >= 1 else 1 - exp(-self.margin)

    @property
    def is_better(self) -> bool:
        """Whether the first is better, beyond the noise."""
        return log(self.ratio) > self.margin

    @property
    def is_worse(self) -> bool:
        """Whether the first is worse, beyond the noise."""
        return log(self.ratio) < -self.margin


def compare(first: str, second: str, scores: Scores, usual: float = USUAL) -> Comparison | None:
    """Compare two variants; None if they were never measured in the same round. usual: the spread that is expected
    before anything was repeated."""
    differences = list_differences(first, second, scores)
    if not differences:
        return None
    spread, freedom = find_spread(scores, usual)
    quantile = _QUANTILES[min(freedom, len(_QUANTILES)) - 1]
    margin = max(LEAST_MARGIN, quantile * spread / sqrt(len(differences)))
    return Comparison(exp(fsum(differences) / len(differences)), margin, len(differences))


def find_usual(other_programs: float) -> float:
    """The spread to expect. other_programs: the part of all CPUs that other programs use, 0 to 1."""
    return USUAL + OTHERS * min(1.0, max(0.0, other_programs))


def find_spread(scores: Scores, usual: float = USUAL) -> tuple[float, int]:
    """The relative standard deviation of the difference of two runs, and its degrees of freedom."""
    squares, freedom = USUAL_COUNT * usual**2, USUAL_COUNT
    if scores:
        # Differences to one variant: pairs of all would count each run several times.
        common = max(scores, key=lambda name: len(scores[name]))
        for name in scores:
            differences = list_differences(name, common, scores) if name != common else []
            if differences:
                mean = fsum(differences) / len(differences)
                squares += fsum((difference - mean) ** 2 for difference in differences)
                freedom += len(differences) - 1
    return sqrt(squares / freedom), freedom


def list_differences(first: str, second: str, scores: Scores) -> list[float]:
    """The logarithms of the ratios of the scores, for each common round."""
    ours, theirs = scores.get(first, {}), scores.get(second, {})
    return [log(ours[number] / theirs[number]) for number in sorted(ours) if number in theirs]
