"""DGCF: its routing, its reduction to LightGCN, and distance correlation against a definition."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from leporid.errors import ConfigError
from leporid.models.neural.dgcf import DGCF, distance_correlation
from leporid.models.neural.lightgcn import LightGCN
from tests.models.neural_data import DIM, N_ITEMS, N_USERS, initial_vectors, small_split

ALL = np.arange(N_USERS, dtype=np.int32)
FIXED: dict[str, Any] = {
    "dim": DIM, "steps": 1, "freeze_steps": -1, "standardize": False, "init_scale": 1.0,
    "eval_every": 0, "batch_size": 16,
}  # fmt: skip


def fitted(**settings: Any) -> DGCF:
    return DGCF(**FIXED, **settings).fit(small_split(), init=initial_vectors(), device="cpu")


@pytest.mark.parametrize("layers", [1, 2])
def test_one_intent_without_routing_is_lightgcn(layers: int) -> None:
    dgcf = fitted(intents=1, iterations=1, layers=layers)
    lightgcn = LightGCN(**FIXED, layers=layers)
    lightgcn.fit(small_split(), init=initial_vectors(), device="cpu")
    np.testing.assert_allclose(dgcf.score(ALL), lightgcn.score(ALL), rtol=1e-4, atol=1e-5)


def test_routing_weights_sum_to_one_and_differ_between_intents() -> None:
    net: Any = fitted(intents=2, iterations=3, layers=2).net
    with torch.no_grad():
        _, share = net.route()
    torch.testing.assert_close(share.sum(dim=0), torch.ones(share.shape[1]))
    assert (share[0] - share[1]).abs().max() > 0.05


def test_routing_is_the_dense_formula() -> None:
    """K = 2, T = 2, L = 2 on dense matrices, edge weights in both directions apart."""
    model = fitted(intents=2, iterations=2, layers=2)
    init = initial_vectors()
    matrix = torch.from_numpy(small_split().train.csr().toarray())
    n_users, n_items = matrix.shape
    graph = torch.zeros(n_users + n_items, n_users + n_items)
    graph[:n_users, n_users:], graph[n_users:, :n_users] = matrix, matrix.T
    x = torch.cat([torch.from_numpy(init.users.vectors), torch.from_numpy(init.items.vectors)])
    total, affinity = x.clone(), [graph.clone(), graph.clone()]
    for _ in range(2):
        chunks = x.chunk(2, dim=1)
        for _ in range(2):
            shares = [a.exp() / (affinity[0].exp() + affinity[1].exp()) * graph for a in affinity]
            heads = []
            for share, chunk in zip(shares, chunks, strict=True):
                root = share.sum(1).clamp(min=1e-12).rsqrt()
                heads.append((root[:, None] * share * root[None, :]) @ chunk)
            affinity = [
                a + functional.normalize(h) @ functional.normalize(c).tanh().T * graph
                for a, h, c in zip(affinity, heads, chunks, strict=True)
            ]
        x = torch.cat(heads, dim=1)
        total = total + x
    users, items = (total / 3).split([n_users, n_items])
    np.testing.assert_allclose(model.score(ALL), (users @ items.T).numpy(), rtol=1e-3, atol=1e-4)


def test_distance_correlation_is_the_definition() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(9, 2)), rng.normal(size=(9, 3))
    b[:, 0] += a[:, 0]

    def centred(x: np.ndarray) -> np.ndarray:
        d = np.linalg.norm(x[:, None] - x[None], axis=2)
        return d - d.mean(0) - d.mean(1)[:, None] + d.mean()

    x, y = centred(a), centred(b)
    expected = np.sqrt((x * y).mean()) / ((x * x).mean() * (y * y).mean()) ** 0.25
    found = distance_correlation(torch.from_numpy(a), torch.from_numpy(b)).item()
    assert found == pytest.approx(expected, rel=1e-3)
    c = torch.from_numpy(rng.normal(size=(9, 1)))
    ab, ac, bc = (
        distance_correlation(x, y).item()
        for x, y in (
            (torch.from_numpy(a), torch.from_numpy(b)),
            (torch.from_numpy(a), c),
            (torch.from_numpy(b), c),
        )
    )
    all_three = distance_correlation(torch.from_numpy(a), torch.from_numpy(b), c).item()
    assert all_three == pytest.approx((ab + ac + bc) / 3, rel=1e-6)
    same = distance_correlation(torch.from_numpy(a), torch.from_numpy(3 * a + 1)).item()
    assert same == pytest.approx(1.0, rel=1e-3)


def test_the_correlation_loss_has_a_finite_gradient_for_equal_rows() -> None:
    x = torch.ones(5, 2, requires_grad=True)
    distance_correlation(x[:, :1], x[:, 1:]).backward()
    assert torch.isfinite(x.grad).all()


def test_the_loss_has_the_mean_correlation_of_the_intents() -> None:
    model = fitted(intents=2, correlation_weight=0.5, correlation_nodes=400)
    with torch.no_grad():
        vectors = model.net()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            found = model.vector_loss(vectors)
        # Many draws with equal shares of users and items come near the whole table.
        users, items = vectors.split([N_USERS, N_ITEMS])
        every = torch.cat([users.repeat(N_ITEMS, 1), items.repeat(N_USERS, 1)])
        expected = 0.5 * distance_correlation(*every.chunk(2, dim=1))
    assert found is not None
    assert found.item() == pytest.approx(expected.item(), abs=0.03)
    assert fitted(intents=1).vector_loss(vectors) is None
    assert fitted(intents=2, correlation_weight=0.0).vector_loss(vectors) is None


def test_the_authors_compare_each_intent_with_the_next() -> None:
    model = fitted(intents=4, correlation_weight=0.5, correlation_pairs="next")
    with torch.no_grad():
        vectors = model.net()
        losses = []
        for pairs in ("next", "all"):
            model.config = model.config.replace(correlation_pairs=pairs)
            torch.manual_seed(0)
            losses.append(model.vector_loss(vectors))
        torch.manual_seed(0)
        nodes = model.config.correlation_nodes
        users, items = (
            torch.randint(*ends, (nodes,)) for ends in ((0, N_USERS), (N_USERS, len(vectors)))
        )
        chunks = vectors[torch.cat([users, items])].chunk(4, dim=1)
        following = sum(distance_correlation(*pair) for pair in pairwise(chunks))
    assert losses[0].item() == pytest.approx(0.5 * following.item() / 10, rel=1e-5)
    assert losses[1].item() == pytest.approx(0.5 * distance_correlation(*chunks).item(), rel=1e-5)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="multiple of intents"):
        DGCF(dim=6, intents=4)
    with pytest.raises(ConfigError, match="iterations"):
        DGCF(iterations=0)
    with pytest.raises(ConfigError, match="correlation_weight"):
        DGCF(correlation_weight=-1.0)
