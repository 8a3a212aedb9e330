"""What the settings of the `bpr` initialiser do: held-out AUC, norms and directions really used."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import timed, write_record
from leporid.data import temporal_split
from leporid.data.synthetic import synthesize
from leporid.embeddings.bpr import BPRInitializer

SHAPE = {"users": 4000, "items": 2000, "interactions": 400_000, "seed": 0}
SETTINGS = (
    {"regularization": 0.1, "step": 0.25},
    {"regularization": 0.1, "step": 0.05},
    {"regularization": 0.01, "step": 0.05},
)


def held_out_auc(users: Any, items: Any, train: Any, test: Any) -> float:
    """Chance that a test item scores above an item the user has nowhere."""
    scores, parts = users @ items.T, []
    for row, known, held in zip(scores, train, test, strict=True):
        if held.any():
            others = np.sort(row[~known & ~held])
            parts.append(np.searchsorted(others, row[held]).mean() / len(others))
    return float(np.mean(parts))


def effective_rank(vectors: Any) -> float:
    """(sum s^2)^2 / sum s^4 of the centred vectors' singular values s."""
    squares = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False).astype(float) ** 2
    return float(squares.sum() ** 2 / (squares**2).sum())


def run() -> None:
    """Fit every setting once and write the record."""
    split = temporal_split(synthesize(**SHAPE))
    train, test = split.train_valid.csr().toarray() > 0, split.test.csr().toarray() > 0
    rows = []
    for settings in SETTINGS:
        seconds, made = timed(lambda s=settings: BPRInitializer(**s).fit(split.train))
        lengths = np.linalg.norm(made.users.vectors, axis=1)
        rows.append(
            {
                **settings,
                "held-out AUC": held_out_auc(made.users.vectors, made.items.vectors, train, test),
                "median user norm": float(np.median(lengths)),
                "largest user norm": float(lengths.max()),
                "effective rank": effective_rank(made.users.vectors),
                "seconds": round(seconds, 2),
            }
        )
        print(rows[-1], flush=True)
    write_record(
        "bpr_settings",
        rows,
        {"data": SHAPE, "epochs": 30, "dim": 64},
        ["The first row is the paper's setting.", "Effective rank: of 64 columns."],
    )


if __name__ == "__main__":
    run()
