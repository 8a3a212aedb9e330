"""A small asymmetric log and initial vectors, for the tests of the neural models."""

from __future__ import annotations

import numpy as np

from leporid.data import IdMap, Interactions, Split
from leporid.embeddings import Embedding, InitialEmbeddings

N_USERS, N_ITEMS, DIM = 13, 9, 4


def small_split(seed: int = 0) -> Split:
    """13 users with 3 to 8 of 9 items; the last two of each are held out. User 5 has none."""
    rng = np.random.default_rng(seed)
    parts: list[list[tuple[int, int, int]]] = [[], [], []]
    for user in range(N_USERS):
        if user == 5:
            continue
        size = int(rng.integers(4, N_ITEMS))
        for place, item in enumerate(rng.permutation(N_ITEMS)[:size]):
            parts[max(0, place - size + 3)].append((user, int(item), place))
    users, items = IdMap.range(N_USERS, "user"), IdMap.range(N_ITEMS, "item")
    train, valid, test = (
        Interactions.from_arrays(*np.array(part).T, users=users, items=items) for part in parts
    )
    return Split(train, valid, test, "small")


def initial_vectors(dim: int = DIM, seed: int = 1) -> InitialEmbeddings:
    """Vectors far from what a model would draw itself."""
    rng = np.random.default_rng(seed)
    users = rng.normal(2.0, 3.0, (N_USERS, dim)).astype(np.float32)
    items = rng.normal(-1.0, 2.0, (N_ITEMS, dim)).astype(np.float32)
    return InitialEmbeddings(Embedding(users), Embedding(items))
