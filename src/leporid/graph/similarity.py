"""The similarities of sets, in the one form the search computes.

With c = |A and B| every one of them is

    similarity = c / (x_i + y_i b_j + g c)

where x, y depend on the query row i only and b on the fitted row j only. `shrink` is added to the
denominator, as in the RecSys'19 evaluation study: it pulls similarities with little support to 0.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leporid.errors import GraphError, UnknownNameError

SIMILARITIES = ("jaccard", "cosine", "asymmetric_cosine", "tversky", "dice")


class Terms(NamedTuple):
    """The coefficients of similarity = c / (x + y b + g c)."""

    x: NDArray[np.float64]
    """float64[n] of the query rows."""
    y: NDArray[np.float64]
    """float64[n] of the query rows."""
    b: NDArray[np.float64]
    """float64[m] of the fitted rows."""
    g: float


@dataclass(frozen=True)
class Similarity:
    """A named similarity and its parameters, d the size of a row's set.

    - jaccard: c / (d_i + d_j - c + shrink)
    - cosine: c / (sqrt(d_i) sqrt(d_j) + shrink)
    - asymmetric_cosine: c / (d_i^a d_j^(1 - a) + shrink)
    - tversky: c / (c + alpha (d_i - c) + beta (d_j - c) + shrink)
    - dice: 2 c / (d_i + d_j + shrink)
    """

    name: str = "jaccard"
    shrink: float = 0.0
    asymmetric_alpha: float = 0.5
    tversky_alpha: float = 1.0
    tversky_beta: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in SIMILARITIES:
            raise UnknownNameError("similarity", self.name, SIMILARITIES)
        for field in ("shrink", "tversky_alpha", "tversky_beta"):
            value = getattr(self, field)
            if not (np.isfinite(value) and value >= 0):
                raise GraphError(f"{field} must be a number of at least 0, not {value}")
        if not 0 <= self.asymmetric_alpha <= 1:
            raise GraphError(
                f"asymmetric_alpha must be between 0 and 1, not {self.asymmetric_alpha}"
            )

    def terms(self, query_degrees: NDArray[np.int64], degrees: NDArray[np.int64]) -> Terms:
        """Coefficients for query rows and fitted rows of these sizes."""
        query, fitted = query_degrees.astype(np.float64), degrees.astype(np.float64)
        if self.name.endswith("cosine"):
            alpha = 0.5 if self.name == "cosine" else self.asymmetric_alpha
            added = np.full_like(query, self.shrink)
            return Terms(added, query**alpha, fitted ** (1.0 - alpha), 0.0)
        alpha, beta, shrink = {
            "jaccard": (1.0, 1.0, self.shrink),
            "dice": (0.5, 0.5, self.shrink / 2),
            "tversky": (self.tversky_alpha, self.tversky_beta, self.shrink),
        }[self.name]
        return Terms(alpha * query + shrink, np.ones_like(query), beta * fitted, 1.0 - alpha - beta)
