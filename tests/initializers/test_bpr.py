"""`bpr`: its gradient, its ranking on planted data, and the same bits on any thread count."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from leporid.embeddings.bpr import BPRInitializer, bpr_update, partner
from leporid.errors import ConfigError
from tests.initializers.helpers import SplitMix, make_interactions, planted


def test_update_is_the_gradient_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal(5) for _ in range(3)]

    def loss(flat: Any) -> float:
        u, i, j = flat.reshape(3, 5)
        return float(np.log1p(np.exp(-(u @ (i - j)))) + 0.05 * (flat @ flat))

    flat = np.concatenate(rows)
    gradient = np.array(
        [(loss(flat + h) - loss(flat - h)) / 2e-6 for h in np.eye(15) * 1e-6]
    ).reshape(3, 5)
    moved = [row.astype(np.float32) for row in rows]
    bpr_update(*moved, np.float32(0.5), np.float32(0.1))
    for before, after, slope in zip(rows, moved, gradient, strict=True):
        np.testing.assert_allclose(after, before - 0.5 * slope, atol=1e-5)


def reference_bpr(train: Any, config: Any, n_blocks: int = 16) -> tuple[Any, Any]:
    """`BPR` one triple after another, in plain Python."""
    rng = np.random.default_rng(config.seed)
    users, items = (
        rng.standard_normal((n, config.dim), dtype=np.float32).astype(float) * 0.1 / config.dim**0.5
        for n in (train.n_users, train.n_items)
    )
    owned = [set(row.indices.tolist()) for row in train.csr()]
    blocks = min(n_blocks, train.n_users, max(train.n_items // 2, 1))
    for epoch in range(config.epochs):
        dealt = []
        for n in (train.n_users, train.n_items):
            dealt.append(np.empty(n, int))
            dealt[-1][rng.permutation(n)] = np.arange(n) % blocks
        for turn in range(blocks):
            for block in range(blocks):
                met = (block + turn) % blocks
                inside = (dealt[0][train.user] == block) & (dealt[1][train.item] == met)
                pairs, members = np.flatnonzero(inside), np.flatnonzero(dealt[1] == met)
                stream = SplitMix(config.seed, epoch * blocks + turn, block)
                for _ in range(len(pairs)):
                    pair = pairs[stream.below(len(pairs))]
                    u, i = train.user[pair], train.item[pair]
                    for _ in range(32):
                        j = members[stream.below(len(members))]
                        if j not in owned[u]:
                            a, b, c = users[u].copy(), items[i].copy(), items[j].copy()
                            pull = 1 / (1 + np.exp(a @ (b - c)))
                            users[u] += config.step * (pull * (b - c) - config.regularization * a)
                            items[i] += config.step * (pull * a - config.regularization * b)
                            items[j] += config.step * (-pull * a - config.regularization * c)
                            break
    return users, items


def test_the_kernel_is_plain_stochastic_gradient_descent() -> None:
    train = planted(40, 34)
    bpr = BPRInitializer(dim=5, epochs=3, seed=8)
    made = bpr.fit(train)
    users, items = reference_bpr(train, bpr.config)
    np.testing.assert_allclose(made.users.vectors, users, atol=1e-4)
    np.testing.assert_allclose(made.items.vectors, items, atol=1e-4)


def auc(users: Any, items: Any, seen: Any, hidden: Any) -> float:
    """Chance that a hidden item scores above an item the user has nowhere."""
    scores, parts = users @ items.T, []
    for row, known, held in zip(scores, seen, hidden, strict=True):
        if held.any():
            others = row[~known & ~held]
            parts.append(np.mean(row[held][:, None] > others[None, :]))
    return float(np.mean(parts))


def test_held_out_items_rank_high_on_planted_data() -> None:
    full = planted(200, 90, seed=3).csr().toarray() > 0
    hidden = full & (np.random.default_rng(1).random(full.shape) < 0.2)
    made = BPRInitializer(dim=8, seed=1).fit(make_interactions(full & ~hidden))
    assert np.isfinite(made.users.vectors).all()
    found = auc(made.users.vectors, made.items.vectors, full & ~hidden, hidden)
    # A ranking that knew the communities, and nothing else, would reach this.
    inside = (np.arange(200) % 3)[:, None] == (np.arange(90) // 30)[None, :]
    rng = np.random.default_rng(0)
    best = np.mean(
        [
            np.mean(
                (inside[u][hidden[u]] + 1e-6 * rng.random(hidden[u].sum()))[:, None]
                > (inside[u] + 1e-6 * rng.random(90))[~full[u]][None, :]
            )
            for u in range(200)
            if hidden[u].any()
        ]
    )
    assert found > best - 0.05
    assert found > 0.75


def test_no_two_tasks_of_a_round_share_items_and_every_pair_of_blocks_meets() -> None:
    rounds = [[int(partner(b, turn, 5)) for b in range(5)] for turn in range(5)]
    assert all(sorted(met) == list(range(5)) for met in rounds)
    assert all(sorted(met[b] for met in rounds) == list(range(5)) for b in range(5))


def test_same_bits_on_any_number_of_threads_and_other_bits_for_another_seed() -> None:
    train = planted(150, 70)
    threads = numba.get_num_threads()
    made = BPRInitializer(dim=8, epochs=3, seed=5).fit(train)
    try:
        numba.set_num_threads(1)
        alone = BPRInitializer(dim=8, epochs=3, seed=5).fit(train)
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(made.users.vectors, alone.users.vectors)
    np.testing.assert_array_equal(made.items.vectors, alone.items.vectors)
    other = BPRInitializer(dim=8, epochs=3, seed=6).fit(train)
    assert not np.allclose(made.users.vectors, other.users.vectors)


def test_users_with_every_item_and_tiny_data_do_no_harm() -> None:
    dense = np.zeros((3, 4), bool)
    dense[0] = True
    dense[1, :2] = True
    made = BPRInitializer(dim=3, epochs=2).fit(make_interactions(dense))
    assert np.isfinite(made.users.vectors).all()
    assert np.isfinite(
        BPRInitializer(dim=2, epochs=2).fit(make_interactions(dense[:, :1])).items.vectors
    ).all()


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="step"):
        BPRInitializer(step=20.0)
    with pytest.raises(ConfigError, match="step must be above 0"):
        BPRInitializer(step=0.0)
    with pytest.raises(ConfigError, match="epochs"):
        BPRInitializer(epochs=0)
