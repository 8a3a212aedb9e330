"""`node2vec`: random walks on the bipartite user-item graph, then skip-gram, in compiled code.

From `current`, having come from `previous`, a walk goes to a neighbour x with probability
proportional to 1/p if x is `previous`, 1 if x is a neighbour of `previous`, and 1/q otherwise.
Rejection sampling: a uniform neighbour is accepted with its weight over the largest weight.

At every position of a walk the nodes within the window (shrunk at random, as in word2vec) are
inputs; the node itself and a few negatives, shared by the whole window, are targets.

R replicas of the two tables each train on their own walks for a round; then every row becomes the
mean of its replicas weighted by how often each one used it. R is a setting, so the bits do not
depend on the number of threads.
"""

from dataclasses import dataclass

import numba
import numpy as np
from scipy import sparse

from leporid.data import Interactions
from leporid.embeddings.arrays import Float32Array, Float64Array, Int32Array, Int64Array
from leporid.embeddings.base import Initializer, InitializerConfig
from leporid.embeddings.vectors import InitialEmbeddings
from leporid.foundation import (
    ProgressLike,
    kernel,
    next_state,
    randint,
    setting,
    stream,
    to_bits,
    uniform,
)

_NODES_PER_REPLICA = 4096
"""Averaging replicas slows learning: small graphs get fewer of them."""
_REACH = 8.0
"""The logistic function is read from a table over [-8, 8]."""
_CELLS = 4096
"""Cells of the table of the logistic function."""


@dataclass(frozen=True, kw_only=True)
class Node2VecConfig(InitializerConfig):
    walks: int = setting(10, at_least=1)
    """Walks from every node (paper: 10)."""
    length: int = setting(80, at_least=2)
    """Nodes of a walk (paper: 80)."""
    p: float = setting(1.0, above=0)
    """Return parameter: large values avoid going straight back."""
    q: float = setting(1.0, above=0)
    """In-out parameter: large values stay near. Two neighbours of a node are never linked in a
    bipartite graph, so here only the ratio of p and q counts."""
    window: int = setting(10, at_least=1)
    """Positions on either side that count as context, shrunk at random."""
    negatives: int = setting(5, at_least=1)
    """Negative samples per position, from the visits to the power 3/4."""
    epochs: int = setting(1, at_least=1)
    """Epochs over the walks."""
    step: float = setting(0.025, above=0)
    """Initial learning rate; it falls linearly to a thousandth of it."""
    replicas: int = setting(4, at_least=1)
    """Copies trained side by side, at most one per 4096 nodes, and the most threads used. Another
    number of copies gives other vectors."""


class Node2Vec(Initializer):
    """Walks are generated where they are used and never stored."""

    name = "node2vec"
    config_class = Node2VecConfig
    config: Node2VecConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        config = self.config
        rng = np.random.default_rng(config.seed)
        seed = np.uint64(config.seed)
        indptr, indices = bipartite_adjacency(train.csr())
        n = len(indptr) - 1
        linked = np.flatnonzero(np.diff(indptr)).astype(np.int32)
        starts = np.concatenate([rng.permutation(linked) for _ in range(config.walks)])
        progress.start("counting visits", 1)
        visits = count_visits(
            indptr,
            indices,
            starts,
            config.length,
            config.p,
            config.q,
            seed,
            numba.get_num_threads(),
        )
        chance, other = alias_table(visits.astype(np.float64) ** 0.75)

        replicas = max(1, min(config.replicas, n // _NODES_PER_REPLICA))
        uniform_numbers = rng.random((n, config.dim), dtype=np.float32)
        init = (uniform_numbers - np.float32(0.5)) / config.dim
        inputs = np.repeat(init[None].astype(np.float32), replicas, axis=0)
        outputs = np.zeros_like(inputs)
        used_in = np.zeros((replicas, n), np.int32)
        used_out = np.zeros((replicas, n), np.int32)
        sigmoid = sigmoid_table()
        # Short rounds keep the replicas together; a merge costs a pass over the tables.
        walks = int(np.clip(len(starts) // (replicas * 64), 1, 1024))
        firsts = range(0, len(starts), replicas * walks)
        rounds = config.epochs * len(firsts)
        progress.start("skip-gram", rounds)
        for number in range(rounds):
            epoch, turn = divmod(number, len(firsts))
            step = np.float32(config.step * max(1 - number / rounds, 1e-3))
            train_round(
                inputs,
                outputs,
                used_in,
                used_out,
                indptr,
                indices,
                starts,
                firsts[turn],
                walks,
                config.length,
                config.p,
                config.q,
                config.window,
                config.negatives,
                chance,
                other,
                seed,
                epoch,
                step,
                sigmoid,
            )
            if replicas > 1:
                merge_replicas(inputs, used_in)
                merge_replicas(outputs, used_out)
            progress.advance()
        users, items = np.split(inputs[0], [train.n_users])
        return self._embeddings(train, users, items)


def bipartite_adjacency(
    matrix: sparse.csr_array,
) -> tuple[Int64Array, Int32Array]:
    """indptr int64[n + 1] and indices int32: users 0..m-1, then items; neighbours ascending."""
    transposed = matrix.T.tocsr()
    transposed.sort_indices()
    ends = matrix.nnz + transposed.indptr[1:].astype(np.int64)
    indptr = np.concatenate([matrix.indptr.astype(np.int64), ends])
    indices = np.concatenate([matrix.indices + matrix.shape[0], transposed.indices])
    return indptr, indices.astype(np.int32)


@kernel
def in_row(
    indptr: Int64Array,
    indices: Int32Array,
    row: int | np.int32,
    value: int | np.int32,
) -> bool:
    """Whether `value` is among the ascending indices of a row; by bisection."""
    low = indptr[row]
    high = indptr[row + 1]
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < value:
            low = middle + 1
        else:
            high = middle
    return bool(low < indptr[row + 1] and indices[low] == value)


@kernel
def biased_step(
    indptr: Int64Array,
    indices: Int32Array,
    previous: np.int32,
    current: np.int32,
    p: float,
    q: float,
    state: np.uint64,
) -> tuple[np.int32, np.uint64]:
    """Draw the next node and the new state of the random stream; `current` has neighbours."""
    start = indptr[current]
    degree = indptr[current + 1] - start
    back = 1.0 / p
    out = 1.0 / q
    smallest = min(back, 1.0, out)
    largest = max(back, 1.0, out)
    while True:
        state = next_state(state)
        candidate = indices[start + randint(to_bits(state), degree)]
        if smallest == largest:
            return candidate, state
        state = next_state(state)
        height = uniform(to_bits(state)) * largest
        if height < smallest:
            return candidate, state
        if candidate == previous:
            weight = back
        elif in_row(indptr, indices, previous, candidate):
            weight = 1.0
        else:
            weight = out
        if height < weight:
            return candidate, state


@kernel
def walk_into(
    walk: Int32Array,
    indptr: Int64Array,
    indices: Int32Array,
    start: np.int32,
    p: float,
    q: float,
    seed: np.uint64,
    name: np.uint64,
) -> None:
    """Fill int32[length] `walk` from `start`; (seed, name) names its random stream."""
    state = next_state(stream(seed, name, np.uint64(1)))
    walk[0] = start
    degree = indptr[start + 1] - indptr[start]
    walk[1] = indices[indptr[start] + randint(to_bits(state), degree)]
    for step in range(2, len(walk)):
        following, state = biased_step(
            indptr,
            indices,
            walk[step - 2],
            walk[step - 1],
            p,
            q,
            state,
        )
        walk[step] = following


@kernel(parallel=True)
def count_visits(
    indptr: Int64Array,
    indices: Int32Array,
    starts: Int32Array,
    length: int,
    p: float,
    q: float,
    seed: np.uint64,
    lanes: int,
) -> Int64Array:
    """int64[n]: how often each node occurs in all walks (walk w begins at starts[w])."""
    visits = np.zeros((lanes, len(indptr) - 1), np.int64)
    for lane in numba.prange(lanes):
        walk = np.empty(length, np.int32)
        for w in range(lane, len(starts), lanes):
            walk_into(
                walk,
                indptr,
                indices,
                starts[w],
                p,
                q,
                seed,
                np.uint64(w),
            )
            for node in walk:
                visits[lane, node] += 1
    total: Int64Array = visits.sum(axis=0)
    return total


def alias_table(
    weights: Float64Array,
) -> tuple[Float32Array, Int32Array]:
    """Walker's alias table: cell i is kept with chance[i], else it stands for other[i]."""
    scaled = weights * (len(weights) / weights.sum())
    chance = np.ones(len(scaled))
    other = np.arange(len(scaled), dtype=np.int32)
    small = list(np.flatnonzero(scaled < 1))
    large = list(np.flatnonzero(scaled >= 1))
    while small and large:
        poor = small.pop()
        rich = large[-1]
        chance[poor] = scaled[poor]
        other[poor] = rich
        scaled[rich] -= 1 - scaled[poor]
        if scaled[rich] < 1:
            small.append(large.pop())
    return chance.astype(np.float32), other


def sigmoid_table() -> Float32Array:
    """float32[4096]: the logistic function on [-8, 8]."""
    x = (np.arange(_CELLS) + 0.5) / _CELLS * 2 * _REACH - _REACH
    return (1 / (1 + np.exp(-x))).astype(np.float32)


@kernel(fastmath=True)
def update_position(  # noqa: PLR0913 - a compiled kernel
    inputs: Float32Array,
    outputs: Float32Array,
    contexts: Int32Array,
    n_contexts: int,
    targets: Int32Array,
    n_targets: int,
    step: np.float32,
    sigmoid: Float32Array,
    space: Float32Array,
) -> None:
    """Make one gradient step for the pairs (contexts x targets); targets[0] is the true one.

    All dot products use the rows as they were before the step. `space` is working space,
    float32[n_contexts + 2 n_targets, d].
    """
    dim = inputs.shape[1]
    scale = np.float32(_CELLS / (2 * _REACH))
    heads = space[:n_targets]
    pulls = space[n_targets : 2 * n_targets]
    rows = space[2 * n_targets :]
    # Copied rows are fetched all at once: half the time. Unsigned indices need no sign test.
    pulls[:] = 0.0
    for t in range(n_targets):
        heads[t] = outputs[np.uint32(targets[t])]
    for c in range(n_contexts):
        rows[c] = inputs[np.uint32(contexts[c])]
    for c in range(n_contexts):
        row = np.uint32(contexts[c])
        for t in range(n_targets):
            score = np.float32(0.0)
            for d in range(dim):
                score += rows[c, d] * heads[t, d]
            cell = np.int32((score + np.float32(_REACH)) * scale)
            cell = max(np.int32(0), min(np.int32(_CELLS - 1), cell))
            label = np.float32(1.0) if t == 0 else np.float32(0.0)
            gain = (label - sigmoid[np.uint32(cell)]) * step
            for d in range(dim):
                pulls[t, d] += gain * rows[c, d]
            for d in range(dim):
                inputs[row, d] += gain * heads[t, d]
    for t in range(n_targets):
        row = np.uint32(targets[t])
        for d in range(dim):
            outputs[row, d] += pulls[t, d]


@kernel(parallel=True, fastmath=True)
def train_round(  # noqa: PLR0913 - a compiled kernel
    inputs: Float32Array,
    outputs: Float32Array,
    used_in: Int32Array,
    used_out: Int32Array,
    indptr: Int64Array,
    indices: Int32Array,
    starts: Int32Array,
    first: int,
    walks: int,
    length: int,
    p: float,
    q: float,
    window: int,
    negatives: int,
    chance: Float32Array,
    other: Int32Array,
    seed: np.uint64,
    epoch: int,
    step: np.float32,
    sigmoid: Float32Array,
) -> None:
    """Let replica r train float32[R, n, d] tables on walks first + r * walks ... of this epoch."""
    n = inputs.shape[1]
    space_rows = 2 * window + 2 * (negatives + 1)
    for r in numba.prange(inputs.shape[0]):
        walk = np.empty(length, np.int32)
        contexts = np.empty(2 * window, np.int32)
        targets = np.empty(negatives + 1, np.int32)
        space = np.empty((space_rows, inputs.shape[2]), np.float32)
        begin = first + r * walks
        for w in range(begin, min(begin + walks, len(starts))):
            walk_into(
                walk,
                indptr,
                indices,
                starts[w],
                p,
                q,
                seed,
                np.uint64(w),
            )
            state = stream(seed, np.uint64(w), np.uint64(epoch + 2))
            for position in range(length):
                state = next_state(state)
                reach = 1 + randint(to_bits(state), window)
                window_start = max(0, position - reach)
                window_stop = min(length, position + reach + 1)
                n_contexts = 0
                for near in range(window_start, window_stop):
                    if near != position:
                        contexts[n_contexts] = walk[near]
                        n_contexts += 1
                        used_in[r, walk[near]] += 1
                targets[0] = walk[position]
                n_targets = 1
                for _ in range(negatives):
                    state = next_state(state)
                    cell = randint(to_bits(state), n)
                    state = next_state(state)
                    if uniform(to_bits(state)) >= chance[cell]:
                        cell = np.int64(other[cell])
                    if cell != walk[position]:
                        targets[n_targets] = cell
                        n_targets += 1
                for t in range(n_targets):
                    used_out[r, targets[t]] += 1
                update_position(
                    inputs[r],
                    outputs[r],
                    contexts,
                    n_contexts,
                    targets,
                    n_targets,
                    step,
                    sigmoid,
                    space,
                )


@kernel(parallel=True, fastmath=True)
def merge_replicas(tables: Float32Array, used: Int32Array) -> None:
    """Replace rows of float32[R, n, d] by their mean weighted by int32[R, n] `used`, set to 0."""
    replicas, n, dim = tables.shape
    for row in numba.prange(n):
        total = np.int64(0)
        for r in range(replicas):
            total += used[r, row]
        if total > 0:
            mean = np.zeros(dim, np.float32)
            for r in range(replicas):
                share = np.float32(used[r, row] / total)
                for d in range(dim):
                    mean[d] += share * tables[r, row, d]
            for r in range(replicas):
                used[r, row] = 0
                for d in range(dim):
                    tables[r, row, d] = mean[d]
