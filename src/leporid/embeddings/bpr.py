"""`bpr`: matrix factorisation trained to rank a user's items above the others.

Stochastic gradient descent on -ln sigmoid(u . (i - j)) + reg/2 (|u|^2 + |i|^2 + |j|^2) over
random triples (user, item of the user, other item).

Parallel and deterministic: an epoch deals users and items into B random blocks each and runs B
rounds of B tasks; no two tasks of a round share a user block or an item block. A negative comes
from the positive's own item block; the blocks are dealt anew every epoch.
"""

from dataclasses import dataclass

import numba
import numpy as np

from leporid.data import Interactions
from leporid.embeddings.arrays import Float32Array, Int32Array, Int64Array
from leporid.embeddings.base import Initializer, InitializerConfig
from leporid.embeddings.node2vec import in_row
from leporid.embeddings.vectors import InitialEmbeddings
from leporid.errors import ConfigError
from leporid.foundation import (
    ProgressLike,
    kernel,
    next_state,
    randint,
    setting,
    stream,
    to_bits,
)

_BLOCKS = 16
"""B: the most threads one epoch can use. Fixed, so that results do not depend on the machine."""
_TRIES = 32
"""Draws of a negative before the triple is given up (a user may have a whole block)."""


@dataclass(frozen=True, kw_only=True)
class BPRInitializerConfig(InitializerConfig):
    regularization: float = setting(0.1, at_least=0)
    """Weight of the squared norms of the three rows of a triple (paper: 0.1)."""
    step: float = setting(0.25, above=0)
    """Learning rate: the factor on the gradient of one triple (paper: 0.25)."""
    epochs: int = setting(30, at_least=1)
    """Epochs; each draws as many triples as there are interactions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.step * self.regularization < 1:
            raise ConfigError(
                f"step * regularization must be below 1, not with step={self.step}"
            )


class BPRInitializer(Initializer):
    """Bayesian personalised ranking; vectors are drawn from N(0, 0.1^2 / D) first."""

    name = "bpr"
    config_class = BPRInitializerConfig
    config: BPRInitializerConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        config = self.config
        rng = np.random.default_rng(config.seed)
        deviation = np.float32(0.1 / np.sqrt(config.dim))
        users = rng.standard_normal((train.n_users, config.dim), dtype=np.float32)
        items = rng.standard_normal((train.n_items, config.dim), dtype=np.float32)
        users *= deviation
        items *= deviation
        matrix = train.csr()
        blocks = min(_BLOCKS, train.n_users, max(train.n_items // 2, 1))
        indptr = matrix.indptr.astype(np.int64)
        progress.start("bpr epochs", config.epochs)
        for epoch in range(config.epochs):
            user_block = _deal(rng, train.n_users, blocks)
            item_block = _deal(rng, train.n_items, blocks)
            members, member_ptr = _group(item_block, blocks)
            first_cell = user_block[train.user].astype(np.int32) * blocks
            cells = first_cell + item_block[train.item]
            pairs, pair_ptr = _group(cells, blocks * blocks)
            for turn in range(blocks):
                train_round(
                    users,
                    items,
                    train.user,
                    train.item,
                    pairs,
                    pair_ptr,
                    members,
                    member_ptr,
                    indptr,
                    matrix.indices,
                    turn,
                    blocks,
                    np.uint64(config.seed),
                    np.uint64(epoch * blocks + turn),
                    np.float32(config.step),
                    np.float32(config.regularization),
                )
            progress.advance()
        return self._embeddings(train, users, items)


def _deal(rng: np.random.Generator, n: int, blocks: int) -> Int32Array:
    """int32[n]: a random block for every row, sizes equal up to one."""
    block = np.empty(n, dtype=np.int32)
    block[rng.permutation(n)] = np.arange(n) % blocks
    return block


def _group(
    cells: Int32Array,
    n_cells: int,
) -> tuple[Int32Array, Int64Array]:
    """Positions sorted by cell, and int64[n_cells + 1] where each cell begins."""
    order = np.argsort(cells.astype(np.uint16), kind="stable")  # 16 bits: a radix sort
    starts = np.zeros(n_cells + 1, np.int64)
    np.cumsum(np.bincount(cells, minlength=n_cells), out=starts[1:])
    return order.astype(np.int32), starts


@kernel(fastmath=True)
def bpr_update(
    u: Float32Array,
    i: Float32Array,
    j: Float32Array,
    step: np.float32,
    regularization: np.float32,
) -> None:
    """Make one gradient step on the float32[d] rows of a triple, in place."""
    margin = np.float32(0.0)
    for d in range(len(u)):
        margin += u[d] * (i[d] - j[d])
    pull = np.float32(1.0) / (np.float32(1.0) + np.exp(margin))
    for d in range(len(u)):
        a = u[d]
        b = i[d]
        c = j[d]
        u[d] = a + step * (pull * (b - c) - regularization * a)
        i[d] = b + step * (pull * a - regularization * b)
        j[d] = c + step * (-pull * a - regularization * c)


@kernel
def partner(block: int, turn: int, blocks: int) -> int:
    """Return the item block of user block `block` in a round: another one for every task."""
    return (block + turn) % blocks


@kernel(parallel=True, fastmath=True)
def train_round(  # noqa: PLR0913 - a compiled kernel
    users: Float32Array,
    items: Float32Array,
    pair_user: Int32Array,
    pair_item: Int32Array,
    pairs: Int32Array,
    pair_ptr: Int64Array,
    members: Int32Array,
    member_ptr: Int64Array,
    indptr: Int64Array,
    indices: Int32Array,
    turn: int,
    blocks: int,
    seed: np.uint64,
    name: np.uint64,
    step: np.float32,
    regularization: np.float32,
) -> None:
    """Train one round: task b works on user block b and the item block that is its partner."""
    for block in numba.prange(blocks):
        item_block = partner(block, turn, blocks)
        cell = block * blocks + item_block
        start = pair_ptr[cell]
        count = pair_ptr[cell + 1] - start
        first = member_ptr[item_block]
        size = member_ptr[item_block + 1] - first
        state = stream(seed, name, np.uint64(block))
        for _ in range(count):
            state = next_state(state)
            pair = pairs[start + randint(to_bits(state), count)]
            u = pair_user[pair]
            i = pair_item[pair]
            for _try in range(_TRIES):
                state = next_state(state)
                j = members[first + randint(to_bits(state), size)]
                if not in_row(indptr, indices, u, j):
                    bpr_update(users[u], items[i], items[j], step, regularization)
                    break
