"""How much of the geometry of a synthetic log an embedding recovers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import spearmanr

from leporid.data import SyntheticData


@dataclass(frozen=True)
class RecoveryScore:
    """Neighbourhoods against communities, and distances against distances."""

    purity: tuple[float, ...]
    """Share of the k nearest rows in the same community, one value per scale, coarsest first."""
    chance: tuple[float, ...]
    """The purity that random neighbours would have."""
    distance_correlation: float
    """Spearman correlation of the distances between pairs of rows, here and planted."""

    @property
    def score(self) -> float:
        """Purity above chance as a share of what is possible, averaged over the scales."""
        gains = [(p - c) / (1 - c) for p, c in zip(self.purity, self.chance, strict=True) if c < 1]
        return float(np.mean(gains)) if gains else 0.0


def recovery_score(
    embedding: Any,
    planted: SyntheticData,
    *,
    side: Literal["user", "item"] = "item",
    k: int = 10,
    sample: int = 1000,
    seed: int = 0,
) -> RecoveryScore:
    """Score vectors against the geometry of `synthesize_planted`.

    Parameters
    ----------
    embedding : float[n, d], or an `Embedding`; rows in the order of the synthetic ids
    planted : SyntheticData
    side : which positions and communities to compare with
    k : neighbours per row, by cosine
    sample : rows that are scored (all rows are candidates), drawn with `seed`
    """
    vectors = np.asarray(getattr(embedding, "vectors", embedding), dtype=np.float64)
    positions = planted.user_positions if side == "user" else planted.item_positions
    labels = planted.user_communities if side == "user" else planted.item_communities
    n = len(vectors)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    rows = np.random.default_rng(seed).permutation(n)[:sample]
    similarity = unit[rows] @ unit.T
    similarity[np.arange(len(rows)), rows] = -np.inf
    nearest = np.argpartition(-similarity, min(k, n - 1) - 1, axis=1)[:, : min(k, n - 1)]
    purity = [float((label[nearest] == label[rows, None]).mean()) for label in labels.T]
    peers = [np.bincount(label)[label[rows]] - 1 for label in labels.T]
    chance = [float((others / (n - 1)).mean()) for others in peers]
    half = len(rows) // 2
    one, other = rows[:half], rows[half : 2 * half]
    embedded = 1 - (unit[one] * unit[other]).sum(axis=1)
    actual = 1 - (positions[one] * positions[other]).sum(axis=1)
    spearman = np.nan_to_num(spearmanr(embedded, actual).statistic)
    return RecoveryScore(tuple(purity), tuple(chance), float(spearman))
