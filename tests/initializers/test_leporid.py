"""`le` and `leporid` against brute-force Jaccard and dense eigenvectors, on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leporid
from leporid.embeddings.leporid import LE, LEPORID
from leporid.errors import ConfigError, LeporidWarning
from tests.initializers.helpers import make_interactions, planted


def operator(rows: Any, k: int, alpha: float) -> Any:
    """A = D_reg^-1/2 W D_reg^-1/2, by the definitions."""
    both = rows @ rows.T
    sizes = rows.sum(axis=1)
    similar = both / np.maximum(sizes[:, None] + sizes[None, :] - both, 1)
    np.fill_diagonal(similar, 0)
    chosen = np.zeros_like(similar, dtype=bool)
    for i, row in enumerate(similar):
        chosen[i, np.argsort(-row, kind="stable")[:k]] = True
    W = np.where(chosen | chosen.T, similar, 0)
    d = W.sum(axis=1)
    d = (1 - alpha) * d + alpha * d.max()
    return W / np.sqrt(d[:, None] * d[None, :])


@pytest.mark.parametrize(("initializer", "alpha"), [(LE, 0.0), (LEPORID, 0.5), (LEPORID, 0.9)])
def test_both_sides_are_the_leading_eigenvectors(initializer: Any, alpha: float) -> None:
    train = planted(70, 40)
    settings = {} if initializer is LE else {"alpha": alpha}
    made = initializer(dim=6, k=9, **settings).fit(train)
    dense = train.csr().toarray()
    for embedding, rows in ((made.users, dense), (made.items, dense.T)):
        A = operator(rows, 9, alpha)
        values = np.linalg.eigvalsh(A)[::-1][:6]
        np.testing.assert_allclose(embedding.eigenvalues, values, atol=1e-5)
        Q = embedding.vectors.astype(float)
        np.testing.assert_allclose(A @ Q, Q * values, atol=1e-4)
        np.testing.assert_allclose(Q.T @ Q, np.eye(6), atol=1e-4)
        assert embedding.provenance["residual"] < 1e-4
        assert embedding.provenance["isolated"] == 0


def test_isolated_rows_and_missing_columns_are_zero_and_counted() -> None:
    dense = planted(30, 12).csr().toarray() > 0
    dense[4] = False
    with pytest.warns(LeporidWarning):
        made = LEPORID(dim=20, k=5).fit(make_interactions(dense))
    assert made.users.provenance["isolated"] == 1
    assert not made.users.vectors[4].any()
    assert made.items.vectors.shape == (12, 20)
    assert not made.items.vectors[:, 12:].any()


def test_settings_out_of_range() -> None:
    with pytest.raises(ConfigError, match="alpha"):
        LEPORID(alpha=-0.1)
    with pytest.raises(ConfigError, match="k must"):
        LE(k=0)


@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
@pytest.mark.parametrize("model", ["dlr2", "sasrec", "bpr", "lightgcn"])
def test_models_train_where_all_users_have_the_same_items(model: str) -> None:
    """The graphs of users and of items are complete: all eigenvalues but one are equal."""
    pytest.importorskip("torch")
    pairs = [(user, item) for user in range(100) for item in range(5)]
    columns = {"user": [user for user, _ in pairs], "item": [item for _, item in pairs]}
    log = leporid.load({**columns, "time": list(range(len(pairs)))})
    split = leporid.temporal_split(log)
    everything = LEPORID(dim=64).fit(log)
    assert np.isfinite(everything.users.vectors).all()
    assert everything.items.eigenvalues[:5] == pytest.approx([1.0] + [-0.25] * 4, abs=1e-6)
    settings = {"dim": 64, "steps": 2, "batch_size": 16, "device": "cpu"}
    trained = leporid.train(model, split, init="leporid", progress=False, **settings)
    assert np.isfinite(trained.score(np.arange(100, dtype=np.int32))).all()
