"""Families of models, and which of them did well on other logs: what orders the candidates.

The rows of priors.json are made by benchmarks/choose_priors.py from validation results on other
logs. They only order models; they never exclude one.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict

from leporid.data import Interactions
from leporid.foundation import JsonValue, read_json

FAMILIES: dict[str, tuple[str, ...]] = {
    "popularity": ("toppop", "recent", "frequency"),
    "neighbours": ("itemknn", "userknn"),
    "random walks": ("p3alpha", "rp3beta"),
    "graph filters": ("turbocf", "gfcf"),
    "linear": ("ease", "slim"),
    "transitions": ("transitions",),
    "factors": ("ials",),
    "networks": ("dlr2", "sasrec", "hgn", "lightgcn", "bpr", "ncf", "ngcf", "dgcf"),
}
NETWORKS = FAMILIES["networks"]
"""The neural models by name: asking the classes would load torch."""


def family_of(model: str) -> str:
    """Return the family of a model; 'other' for models from elsewhere."""
    for family, members in FAMILIES.items():
        if model in members:
            return family
    return "other"


@dataclass(frozen=True)
class LogStatistics:
    """What a log is compared with others by."""

    interactions_per_user: float
    density: float
    has_order: bool
    """Whether the interactions of a user have an order in time."""
    include_seen: bool = False
    """Whether lists may show what a user already has."""

    @classmethod
    def of(cls, train: Interactions, include_seen: bool = False) -> LogStatistics:
        """Return the statistics of a training part, rounded."""
        users = max(train.n_users, 1)
        density = len(train) / (users * max(train.n_items, 1))
        return cls(
            interactions_per_user=round(len(train) / users, 1),
            density=float(f"{density:.2g}"),
            has_order=bool(train.has_order),
            include_seen=include_seen,
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return plain JSON values."""
        return asdict(self)


class _KnownLog(TypedDict):
    """A row of priors.json."""

    interactions_per_user: float
    density: float
    has_order: bool
    share_of_best: dict[str, float]
    """Quality of each model as a share of the best one's."""


def expected_shares(log: LogStatistics) -> dict[str, float]:
    """Return the quality expected of each model as a share of the best one's, best first.

    It is the mean over known logs with the same kind of order. The nearer a log is in interactions
    per user and density, the more it counts.
    """
    known = [row for row in _known_logs() if row["has_order"] == log.has_order]
    weights = [1 / (0.1 + _distance(row, log)) for row in known]
    total = sum(weights)
    shares: dict[str, float] = {}
    for name in {name for row in known for name in row["share_of_best"]}:
        weighted = (
            weight * row["share_of_best"].get(name, 0.0)
            for weight, row in zip(weights, known, strict=True)
        )
        shares[name] = sum(weighted) / total
    return dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0])))


def _distance(row: _KnownLog, log: LogStatistics) -> float:
    """Return how far two logs are apart, in powers of e of both statistics."""
    pairs = (
        (row["interactions_per_user"], log.interactions_per_user),
        (row["density"], log.density),
    )
    return sum(abs(math.log(max(a, 1e-9) / max(b, 1e-9))) for a, b in pairs)


@cache
def _known_logs() -> list[_KnownLog]:
    rows: list[_KnownLog] = read_json(Path(__file__).with_name("priors.json"))
    return rows
