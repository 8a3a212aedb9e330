"""`ContentNeighbours` against sums of cosines by hand."""

from __future__ import annotations

import numpy as np

from leporid.data import Sequences, cold_items_split, item_features, synthesize
from leporid.evaluation import evaluate
from leporid.models import ContentNeighbours


def test_scores_are_sums_of_cosines_with_the_history() -> None:
    split = cold_items_split(synthesize(60, 30, 700, seed=2), 0.2)
    ids = split.items.ids.to_pylist()
    table = {"item_id": ids, "tags": [[f"a{n % 4}", f"b{n % 3}"] for n in range(len(ids))]}
    model = ContentNeighbours(split.items, table)
    features = item_features(split.items, table).matrix.toarray()
    history = Sequences.from_rows([[1, 2], [], [5, 7, 29], [0]])
    for users in ([2, 3], [3, 0, 2], [1]):
        scores = model.score(np.array(users, np.int32), history)
        for user, row in zip(users, scores, strict=True):
            own = history.items[history.indptr[user] : history.indptr[user + 1]]
            np.testing.assert_allclose(row, (features @ features[own].T).sum(axis=1), atol=1e-5)
    means = evaluate(model, split, at=(10,)).mean(stratum="cold-items")
    assert means["NDCG@10"] > 0
