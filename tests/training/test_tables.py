"""Embedding tables begin with the initial embeddings; isolated rows begin with small numbers."""

from __future__ import annotations

import numpy as np
import torch

import leporid
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.models import BuildContext

TRAIN = leporid.synthesize(users=9, items=7, interactions=40, seed=1)


def side(n: int, *isolated: int) -> Embedding:
    vectors = np.random.default_rng(n).normal(2.0, 3.0, (n, 4)).astype(np.float32)
    vectors[list(isolated)] = 0
    return Embedding(vectors)


def test_only_isolated_rows_are_drawn_and_the_embedding_does_not_change() -> None:
    users = side(9, 3, 5)
    before = users.vectors.copy()
    context = BuildContext(TRAIN, 4, InitialEmbeddings(users, side(7)))
    table = context.user_table().weight.detach().numpy()
    assert ((np.abs(table[[3, 5]]) > 0) & (np.abs(table[[3, 5]]) < 0.1)).all()
    assert (table[3] != table[5]).all()
    np.testing.assert_array_equal(
        np.delete(table, [3, 5], axis=0), np.delete(before, [3, 5], axis=0)
    )
    np.testing.assert_array_equal(users.vectors, before)
    assert context.isolated == {"users": 2}


def test_a_table_without_isolated_rows_draws_nothing() -> None:
    context = BuildContext(TRAIN, 4, InitialEmbeddings(side(9), side(7)))
    state = torch.get_rng_state()
    table = context.item_table().weight.detach().numpy()
    np.testing.assert_array_equal(table, side(7).vectors)
    assert torch.equal(torch.get_rng_state(), state)
    assert context.isolated == {}
