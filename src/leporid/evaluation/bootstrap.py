"""Bootstrap over users: means of resampled rows, many columns at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leporid.errors import ConfigError

_BLOCK = 4_000_000
"""Numbers held at once while resampling."""


def bootstrap_means(columns: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """float64[resamples, c] column means of rows drawn with replacement from float64[m, c].

    All columns share the draw, so that functions of several means (F1, differences) keep
    their dependence.
    """
    if resamples < 1:
        raise ConfigError(f"resamples must be at least 1, not {resamples}")
    rng = np.random.default_rng(seed)
    m = len(columns)
    out = np.empty((resamples, columns.shape[1]))
    step = max(1, _BLOCK // m)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        times = np.empty((stop - start, m))
        for row in times:
            row[:] = np.bincount(rng.integers(m, size=m), minlength=m)
        out[start:stop] = times @ columns / m
    return out


def percentile_interval(samples: NDArray[np.float64], level: float) -> tuple[float, float]:
    """The middle `level` share of the resampled values."""
    if not 0 < level < 1:
        raise ConfigError(f"level must lie between 0 and 1, not {level}")
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
