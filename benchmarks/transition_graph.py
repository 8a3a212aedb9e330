"""A graph of transitions for LEPORID: item vectors from what follows what, by the probe.

`python -m benchmarks.transition_graph --data FOLDER --journal FILE` builds item graphs from the
training part of each data set with an order: Jaccard similarity alone, as `leporid` does,
transition counts in both directions alone, and sums of both. It embeds each graph by `Leporid` and
measures the item vectors by `leporid.probe` on validation users; the graph itself is measured as an
item-kNN model. For each data set it writes what the other data sets would have chosen. The test
part is not read. What FILE has is not computed again.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import leporid
from benchmarks.harness import RECORDS, Journal, write_record
from benchmarks.transition_settings import LOGS, SAME_SOURCE, sampled_split
from leporid.data import Interactions, Sequences, Split
from leporid.embeddings import Leporid
from leporid.foundation import read_object
from leporid.graph import canonical, knn_graph
from leporid.models.closed_form.transitions import transition_counts

ALPHAS = (0.0, 0.5)
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the transitions in the graph; the rest is Jaccard similarity."""
SMOOTHED = ("log", "cosine")
DISTANCES = (1 + np.arange(10.0)) ** -0.5
NEIGHBOURS = 1000
LAST = 10
"""Newest items of a user that are their profile, as in the probe."""


def symmetric_counts(train: Interactions) -> sparse.csr_array:
    """Counts of the transitions between two items in both directions."""
    counts = transition_counts(train.sequences(), train.n_items, DISTANCES)
    counts.setdiag(0.0)
    counts.eliminate_zeros()
    return sparse.csr_array(counts + counts.T)


def smoothed_counts(counts: sparse.csr_array, how: str) -> sparse.csr_array:
    """Return ln(1 + counts), or counts over the geometric mean of both items' sums."""
    if how == "log":
        return counts.log1p()
    scale = sparse.diags_array(1 / np.sqrt(np.maximum(counts.sum(axis=1), 1.0)))
    return sparse.csr_array(scale @ counts @ scale)


def strongest(weights: sparse.csr_array, k: int) -> sparse.csr_array:
    """Keep an edge that is among the `k` largest of either of its items."""
    weights = canonical(weights)
    sizes = np.diff(weights.indptr)
    row = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((weights.indices, -weights.data, row))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(weights.indptr[:-1], sizes)
    kept = weights.copy()
    kept.data = np.where(rank < k, weights.data, 0.0).astype(np.float32)
    kept.eliminate_zeros()
    return sparse.csr_array(kept.maximum(kept.T))


def mixed(jaccard: sparse.csr_array, other: sparse.csr_array, share: float) -> sparse.csr_array:
    """Sum of both graphs, each divided by the mean of its entries, by their shares."""
    first = jaccard * ((1 - share) / jaccard.data.mean())
    second = other * (share / other.data.mean())
    both = sparse.csr_array(first + second)
    both.eliminate_zeros()
    return both


GRAPHS = {
    f"sum, {how}, share {share}": (how, share) for how, share in itertools.product(SMOOTHED, SHARES)
}
"""Mixed graphs by name: how counts are smoothed, and the share of the transitions."""


def graphs(train: Interactions) -> Iterator[tuple[str, sparse.csr_array]]:
    """Yield every item graph with its name."""
    jaccard = knn_graph(train.csr().T.tocsr(), k=NEIGHBOURS, side="items").csr()
    yield "Jaccard", jaccard
    counts = symmetric_counts(train)
    smoothed = {how: strongest(smoothed_counts(counts, how), NEIGHBOURS) for how in SMOOTHED}
    for name, (how, share) in GRAPHS.items():
        yield name, mixed(jaccard, smoothed[how], share)


def neighbour_scores(
    weights: sparse.csr_array, users: NDArray[np.int32], known: Sequences
) -> NDArray[np.float32]:
    """Scores of an item-kNN model: sums of the weights of a user's newest items."""
    profile = known.take(users).last(LAST).csr(weights.shape[0])
    return np.asarray((profile @ weights).toarray(), np.float32)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length one; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-30), np.float32)


def values(split: Split, name: str, graph: sparse.csr_array) -> list[dict[str, float | str]]:
    """NDCG@10 of one graph: as an item-kNN model, and of its vectors for each alpha and length."""
    scores = partial(neighbour_scores, canonical(graph))
    knn = leporid.evaluate(scores, split, at=(10,), part="valid", metrics=("NDCG",))
    rows: list[dict[str, float | str]] = []
    for alpha in ALPHAS:
        estimator = Leporid(dim=64, alpha=alpha, metric="precomputed")
        fitted = estimator.fit(graph)
        for lengths, vectors in (
            ("as-is", fitted.embedding_),
            ("unit", unit(fitted.embedding_)),
        ):
            found = leporid.probe((None, vectors), split).value()["items"]
            row = {"graph": name, "alpha": alpha, "lengths": lengths, "probe": round(found, 4)}
            rows.append(row | {"item-kNN": round(knn.mean()["NDCG@10"], 4)})
    return rows


def by_graph(rows: list[dict[str, float | str]]) -> list[dict[str, float | str]]:
    """Each graph by the probe of its vectors and as an item-kNN model, a column per data set."""
    found: dict[str, dict[str, float | str]] = {}
    for row in rows:
        log = str(row["log"])
        vectors = f"alpha {row['alpha']}, {row['lengths']}"
        for kind, value in ((vectors, row["probe"]), ("item-kNN", row["item-kNN"])):
            key = f"{row['graph']}: {kind}"
            found.setdefault(key, {"graph": row["graph"], "judged by": kind})[log] = value
    return list(found.values())


def choices(rows: list[dict[str, float | str]]) -> list[dict[str, float | str]]:
    """For each data set, the other sets' choice of a graph and its vectors beside Jaccard's."""
    table: dict[str, dict[tuple[str, float, str], float]] = {}
    for row in rows:
        key = (str(row["graph"]), float(row["alpha"]), str(row["lengths"]))
        table.setdefault(str(row["log"]), {})[key] = float(row["probe"])
    adapted = {
        row["log"]: row["valid"]
        for row in read_object(RECORDS / "probe_vectors.json")["rows"]
        if row["vectors"] == "adapted"
    }
    found: list[dict[str, float | str]] = []
    for log, own in table.items():
        left_out = {log, SAME_SOURCE.get(log)}
        others = [table[other] for other in table if other not in left_out]

        def share(key: tuple[str, float, str]) -> float:
            return sum(other[key] / max(other.values()) for other in others)  # noqa: B023

        with_order = max((key for key in own if key[0] != "Jaccard"), key=share)
        jaccard = max((key for key in own if key[0] == "Jaccard"), key=share)
        default = own["Jaccard", 0.5, "as-is"]
        found.append(
            {
                "log": log,
                "leporid": default,
                "chosen with Jaccard": ", ".join(map(str, jaccard[1:])),
                "probe with Jaccard": own[jaccard],
                "chosen with transitions": ", ".join(map(str, with_order)),
                "probe with transitions": own[with_order],
                "leporid, adapted": round(adapted[log], 4) if log in adapted else "",
            }
        )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--journal", type=Path, required=True, help="Lines of finished values.")
    arguments = parser.parse_args()
    journal = Journal(arguments.journal)
    for log in LOGS:
        if all(journal.has(log=log, graph=name) for name in ("Jaccard", *GRAPHS)):
            continue
        split = sampled_split(arguments.data, log)
        for name, graph in graphs(split.train):
            if not journal.has(log=log, graph=name):
                for row in values(split, name, graph):
                    journal.add({"log": log} | row)
    rows = journal.rows
    settings = {"neighbours": NEIGHBOURS, "columns": 64, "last": LAST}
    notes = [
        "NDCG@10 on validation users, at most 3,000; the test part is not read.",
        "Transitions are counted over ten events with weights (1 + d)^-.5.",
    ]
    write_record(
        "transition_graph",
        choices(rows),
        settings,
        [
            *notes,
            "Files of the same ratings are left out together.",
            "Adapted (alpha and the rows' lengths chosen by the probe inside the training part; "
            "its item vectors are sums of user vectors): all validation users, from probe_vectors.",
        ],
    )
    write_record("transition_graph_values", by_graph(rows), settings, notes)
