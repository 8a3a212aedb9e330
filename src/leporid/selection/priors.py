"""Families of models, and which of them did well on other logs: what orders the candidates.

The rows of priors.json are made by benchmarks/choose_priors.py from validation results on other
logs. They only order models; they never exclude one.
"""

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from leporid.artifacts import read_json
from leporid.data import Interactions

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
"""By name: asking the classes would load torch."""


def family_of(model: str) -> str:
    """The family of a model; 'other' for models from elsewhere."""
    return next(
        (name for name, members in FAMILIES.items() if model in members), "other"
    )


def statistics(train: Interactions) -> dict[str, Any]:
    """What a log is compared with others by."""
    users = max(train.n_users, 1)
    return {
        "interactions_per_user": round(len(train) / users, 1),
        "density": float(f"{len(train) / (users * max(train.n_items, 1)):.2g}"),
        "has_order": bool(train.has_order),
    }


def expected_shares(about: Mapping[str, Any]) -> dict[str, float]:
    """Of each model, its quality as a share of the best on logs like this one; best first.

    Logs with the same kind of order count, the nearer in interactions per user and density the
    more.
    """
    known: list[dict[str, Any]] = _rows()
    rows = [row for row in known if row["has_order"] == about["has_order"]]
    names = ("interactions_per_user", "density")
    weights = [
        1
        / (
            0.1
            + sum(abs(math.log(max(row[n], 1e-9) / max(about[n], 1e-9))) for n in names)
        )
        for row in rows
    ]
    models = {name for row in rows for name in row["share_of_best"]}
    shares = {
        name: sum(
            w * r["share_of_best"].get(name, 0.0)
            for w, r in zip(weights, rows, strict=True)
        )
        / sum(weights)
        for name in models
    }
    return dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0])))


@cache
def _rows() -> Any:
    return read_json(Path(__file__).with_name("priors.json"))
