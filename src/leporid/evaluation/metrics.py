"""The metrics, one pure function each.

Throughout, `hits` is bool[m, k]: whether the item at each rank of a user's list is a test item;
`relevant` is int[m], the number of test items |T_u| >= 1; `n` <= k is the cut-off N. Functions
return float64[m], one value per user, except those said to measure all lists together.

Below, h_r is 1 if the item at rank r (from 1) is a test item, and H_r = h_1 + ... + h_r.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from leporid.errors import UnknownNameError

Hits: TypeAlias = NDArray[np.bool_]
Counts: TypeAlias = NDArray[np.integer]
Values: TypeAlias = NDArray[np.float64]


def hit_rate(
    hits: Hits,
    relevant: Counts,
    n: int,
) -> Values:
    """Return HR@N = 1 if H_N >= 1, else 0."""
    return np.asarray(hits[:, :n].any(axis=1), dtype=np.float64)


def precision(
    hits: Hits,
    relevant: Counts,
    n: int,
) -> Values:
    """Return Precision@N = H_N / N; always over N, also where the list is shorter."""
    return _hits_until(hits, n) / n


def recall(
    hits: Hits,
    relevant: Counts,
    n: int,
) -> Values:
    """Return Recall@N = H_N / |T_u|."""
    return _hits_until(hits, n) / relevant


def user_f1(
    hits: Hits,
    relevant: Counts,
    n: int,
) -> Values:
    """Return UserF1@N = 2 P R / (P + R) = 2 H_N / (N + |T_u|) of each user, 0 without a hit."""
    return 2.0 * _hits_until(hits, n) / (n + relevant)


def f1(
    mean_precision: float,
    mean_recall: float,
) -> float:
    """Return F1@N = 2 P R / (P + R) of the means P, R over users, as in the paper.

    It is not the mean of `user_f1`.
    """
    total = mean_precision + mean_recall
    return float(2.0 * mean_precision * mean_recall / total) if total > 0 else 0.0


def ndcg(
    hits: Hits,
    relevant: Counts,
    n: int,
) -> Values:
    """Return NDCG@N = DCG / IDCG.

    DCG = sum_{r<=N} h_r / log2(r + 1), and IDCG is the DCG of the best possible list.
    """
    discount = 1.0 / np.log2(np.arange(2, n + 2))
    ideal = np.cumsum(discount)
    gain = hits[:, :n] @ discount
    return np.asarray(gain / ideal[np.minimum(relevant, n) - 1], dtype=np.float64)


def reciprocal_rank(
    hits: Hits,
    relevant: Counts,
    n: int,
) -> Values:
    """Return MRR@N = 1 / r of the first r <= N with h_r = 1, else 0."""
    first = hits[:, :n].argmax(axis=1)
    return np.where(hits[:, :n].any(axis=1), 1.0 / (first + 1), 0.0)


def average_precision(
    hits: Hits,
    relevant: Counts,
    n: int,
) -> Values:
    """Return MAP@N = sum_{r<=N} h_r H_r / r, divided by min(N, |T_u|)."""
    cut = hits[:, :n]
    at_rank = np.cumsum(cut, axis=1) / np.arange(1, n + 1)
    total = (cut * at_rank).sum(axis=1)
    return np.asarray(total / np.minimum(relevant, n), dtype=np.float64)


def average_popularity(
    top: NDArray[np.int32],
    popularity: Counts,
    n: int,
) -> Values:
    """Return Popularity@N, the mean training interactions of a list's items; 0 without items."""
    cut = top[:, :n]
    listed = cut >= 0
    total = np.where(listed, popularity[cut], 0).sum(axis=1)
    return np.asarray(total / np.maximum(listed.sum(axis=1), 1), dtype=np.float64)


def item_coverage(
    top: NDArray[np.int32],
    n_items: int,
    n: int,
) -> float:
    """Return Coverage@N, the share of all items in at least one list, from all lists together."""
    counts = _times_listed(top, n_items, n)
    return float(np.count_nonzero(counts) / n_items)


def gini(
    top: NDArray[np.int32],
    n_items: int,
    n: int,
) -> float:
    """Return Gini@N of how often each item is listed, from all lists together.

    With the counts c_1 <= ... <= c_I of all I items (zeros too):
    sum_i (2 i - I - 1) c_i / (I sum_i c_i). 0: all items equally often; towards 1: only a few.
    """
    counts = np.sort(_times_listed(top, n_items, n))
    total = counts.sum()
    if total == 0:
        return 0.0
    weight = 2 * np.arange(1, n_items + 1) - n_items - 1
    return float((weight * counts).sum() / (n_items * total))


PER_USER: dict[str, Callable[[Hits, Counts, int], Values]] = {
    "HR": hit_rate,
    "Precision": precision,
    "Recall": recall,
    "UserF1": user_f1,
    "NDCG": ndcg,
    "MRR": reciprocal_rank,
    "MAP": average_precision,
}
"""Metrics that are a mean over users of a function of the hits."""

FAMILIES = (
    "HR",
    "Precision",
    "Recall",
    "F1",
    "UserF1",
    "NDCG",
    "MRR",
    "MAP",
    "Coverage",
    "Popularity",
    "Gini",
)
"""All metrics without their cut-off, in the order of the tables."""


def parse_metric(
    metric: str,
    known: Iterable[str] | None = None,
) -> tuple[str, int]:
    """Return ('HR', 10) for 'HR@10'; anything else is refused with the closest of `known`."""
    family, _, n = metric.partition("@")
    if family not in FAMILIES or not n.isdecimal() or int(n) < 1:
        examples = [f"{name}@10" for name in FAMILIES]
        raise UnknownNameError("metric", metric, known or examples)
    return family, int(n)


def ingredients(metric: str) -> list[str]:
    """Return the metrics whose means give a metric: itself, or precision and recall for F1."""
    family, _, n = metric.partition("@")
    return [f"Precision@{n}", f"Recall@{n}"] if family == "F1" else [metric]


def combine(means: Sequence[float]) -> float:
    """Return a metric from the means of its ingredients, precision and recall for F1."""
    return f1(*means) if len(means) == 2 else float(means[0])


def linearized(columns: Values) -> Values:
    """Return float64[m]: one value per user, from the ingredients float64[m, c] of a metric.

    Their mean is the metric, their variance that of the metric to first order (delta method): the
    column itself, or for F1 = 2PR / (P + R) its tangent at the mean precision P and recall R.
    """
    if columns.shape[1] == 1:
        return columns[:, 0]
    p, r = columns.mean(axis=0)
    if p + r == 0:
        return np.zeros(len(columns))
    gradient = 2 * np.array([r**2, p**2]) / (p + r) ** 2
    return np.asarray(f1(p, r) + (columns - [p, r]) @ gradient)


def _hits_until(
    hits: Hits,
    n: int,
) -> Values:
    """Return H_N of each user."""
    return np.asarray(hits[:, :n].sum(axis=1), dtype=np.float64)


def _times_listed(
    top: NDArray[np.int32],
    n_items: int,
    n: int,
) -> NDArray[np.int64]:
    """Return int64[n_items]: in how many lists, cut at `n`, each item is."""
    cut = top[:, :n]
    return np.bincount(cut[cut >= 0], minlength=n_items)
