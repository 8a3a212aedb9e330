"""Mean ranks over logs, and by how much they must differ (Demsar 2006)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, studentized_range


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of rows over logs, best first."""

    title: str
    logs: list[str]
    names: list[str]
    ranks: NDArray[np.float64]
    """By NDCG@10; 1 is the best."""
    also: NDArray[np.float64]
    """By HR@10."""
    difference: float
    """Mean ranks closer than this do not differ significantly (Nemenyi, 5%)."""
    p: float | None
    """Of the Friedman test; None below three rows."""

    def groups(self) -> list[tuple[int, int]]:
        """First and last of the longest runs of rows within the critical difference."""
        ends = [int(np.sum(self.ranks < rank + self.difference)) - 1 for rank in self.ranks]
        return [
            (first, last)
            for first, last in enumerate(ends)
            if last > first and (first == 0 or last > ends[first - 1])
        ]


def mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[rows]: mean rank of each column of float64[logs, rows]; the largest value is 1.

    Values that are equal but for the order of a sum are ties.
    """
    return np.asarray(rankdata(-values.round(12), axis=1).mean(axis=0))


def critical_difference(rows: int, logs: int, level: float = 0.05) -> float:
    """The difference of mean ranks that Nemenyi's test asks for: q sqrt(k (k + 1) / 6 N).

    q is the studentized range for k rows and infinitely many degrees of freedom, by sqrt(2).
    """
    q = studentized_range.ppf(1 - level, rows, np.inf) / math.sqrt(2)
    return float(q * math.sqrt(rows * (rows + 1) / (6 * logs)))
