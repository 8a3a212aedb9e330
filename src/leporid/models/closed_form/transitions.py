"""Transitions: what users had next, counted over a few steps and smoothed.

After Petrov et al., "Do Sequential Recommendation Benchmarks Really Require Higher-Order Sequence
Modelling?" (RecSys 2026). Items are weighed by

    C_ij = sum over d < distance of c_d x (how often j is the event d + 1 places after i)
    E_ij = ln(1 + C_ij n_items / tau)

and a history h, newest event first, scores item j by sum_r k_r E[h_r, j]. With `distance=1`, the
newest event alone and no `popularity` this is the first-order Markov chain; with a large tau it is
sequential rules, counts weighted by c_d.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numba import prange
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Interactions, Sequences, Split, load
from leporid.errors import ConfigError, DataError, warn
from leporid.foundation import (
    Float,
    Int,
    OneOf,
    ProgressLike,
    SearchSpace,
    kernel,
    one_thread_pool,
    setting,
)
from leporid.graph import canonical
from leporid.models.closed_form.products import top_k_of_columns
from leporid.models.closed_form.profiles import ItemWeights, ProfileConfig
from leporid.models.context import FitContext
from leporid.models.merged_log import merge_interactions
from leporid.ranking import Indices, ItemNeighbours, Scores

PENALTY_PER_INTERACTION, MOST_PENALTY, USUAL_EVIDENCE = 0.002, 0.2, 5.0
"""Minus the default of `popularity` for each mean interaction of an item, and at most; and from
which evidence on, about that of the default distances."""
Counts = NDArray[np.int64]
Weights = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TransitionsConfig(ProfileConfig):
    """Settings of the transition counts, and of how much each event of a history says."""

    window: int | Literal["auto"] | None = setting(None, at_least=1)
    """How many of a user's newest events are read: None for all, whose weights decay anyway; `auto`
    for the number that suits item neighbours inside the training part."""
    distance: int = setting(10, at_least=1)
    """How many events later an item may follow and still count; 1 is the Markov chain."""
    distance_weights: Literal["power", "geometric"] = "power"
    """c_d, what an event d places behind the next one counts: (1 + d)^-exponent, or
    distance_decay^d."""
    exponent: float = setting(0.5, at_least=0, at_most=10)
    """How fast the weights c_d fall as a power of the distance; 0 counts all distances alike."""
    distance_decay: float = setting(0.8, above=0, at_most=1)
    """The ratio of two neighbouring weights c_d that are geometric."""
    tau: float | Literal["auto"] = setting("auto", above=0)
    """Counts are divided by tau / n_items before the logarithm: the smaller, the less a frequent
    transition counts for more than a rare one. `auto`: the number of items, E = ln(1 + C)."""
    recent: int | None = setting(10, at_least=1)
    """How many of the newest events have weights that decay; the older ones share `older_share`
    evenly. None: the weights of the whole history decay."""
    recency_decay: float = setting(0.65, above=0, at_most=1)
    """The ratio of the weights of an event and of the one after it."""
    older_share: float = setting(0.03, at_least=0, below=1)
    """The share of all weight that the events before the newest `recent` have together."""
    popularity: float | Literal["auto"] = setting("auto", at_least=-10, at_most=10)
    """How many times ln(1 + training interactions of the item) is added to every score. Below 0,
    items that are popular anyway need more evidence, and items without any come last. `auto`: minus
    .002 times the mean number of interactions of an item, at least -.2, and closer to 0 where a
    short `distance` or a large `tau` makes E small."""
    top_k: int | None = setting(None, at_least=1)
    """Successors with the largest weights that are kept for each item; None keeps all."""


class Transitions(ItemWeights):
    """Scores K E: the events of a history vote for what followed them in the training part.

    `distance=1` is the Markov chain; with a large `tau`, other `distance_weights` give sequential
    rules. The weights K of a history's events sum to 1. In data without an order every pair of a
    user's events counts as it would on average over all orders of them, and all events of a history
    have equal weights.
    """

    name = "transitions"
    config_class = TransitionsConfig
    config: TransitionsConfig
    reason_kind, reason_value = "what users had soon after", "share of users"
    search_space: ClassVar[SearchSpace] = {
        "distance": Int(1, 50, log=True),
        "distance_weights": OneOf("power", "geometric"),
        "exponent": Float(0.0, 2.0, when={"distance_weights": ("power",)}),
        "distance_decay": Float(0.3, 1.0, when={"distance_weights": ("geometric",)}),
        "tau": Float(30.0, 100_000.0, log=True),
        "recent": Int(1, 50, log=True),
        "recency_decay": Float(0.3, 1.0),
        "older_share": Float(0.0, 0.5),
        "popularity": Float(-0.5, 0.1),
    }

    def _fit(self, split: Split, seed: int, context: FitContext) -> None:
        train = split.train
        if self.config.tau == "auto":
            self.config = replace(self.config, tau=float(split.n_items))
        config = self.config
        context.progress.start(self.name, 1)
        self._remember(train)
        distances = distance_weights(config)
        assert config.tau != "auto"  # it is known by now
        scale = split.n_items / config.tau
        if config.popularity == "auto":
            per_item = len(train) / split.n_items
            evidence = float(distances.sum()) * scale
            self.config = self.config.replace(popularity=penalty(per_item, evidence))
        if train.has_order:
            counts = transition_counts(
                train.sequences(), split.n_items, distances, config.top_k
            )
        else:
            warn(
                "the training part has no order, so transitions cannot tell what follows what: "
                "every pair of a user's items counts alike; slim and ease suit such data better",
                4,
            )
            counts = counts_without_order(
                train.sequences(), split.n_items, distances, config.top_k
            )
        smoothed = np.log1p(counts.data * scale)
        counts.data = smoothed.astype(np.float32)
        self.weights = canonical(counts)
        context.progress.advance(1)

    def _profiles(self, histories: Sequences) -> sparse.csr_array:
        window = self.config.window
        if isinstance(window, int):
            histories = histories.last(window)
        lengths = np.diff(histories.indptr)
        rows = histories.csr(self.known.n_items)
        if self.train.has_order:
            rows.data[:] = history_weights(lengths, self.config)
        else:
            rows.data /= np.repeat(lengths, lengths)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return canonical(rows)

    def _score_profiles(
        self, profiles: sparse.csr_array, users: Indices | None
    ) -> Scores:
        scores = super()._score_profiles(profiles, users)
        assert self.config.popularity != "auto"  # it is known after a fit
        if self.config.popularity:
            logarithm = np.log1p(self.train.target_events.popularity).astype(np.float32)
            if self.config.popularity < 0:
                # Items that followed nothing of the history come last, the popular ones first.
                without_evidence = 2 * logarithm.max() - logarithm
                logarithm = np.where(scores > 0, logarithm, without_evidence)
            has_history = np.diff(profiles.indptr)[:, None] > 0
            scores += np.where(has_history, self.config.popularity * logarithm, 0.0)
        return scores

    def extend(
        self,
        items: object = None,
        interactions: object = None,
        *,
        columns: tuple[str, ...] = (),
        length: float | None = None,
        cold_item_share: float | None = None,
        steps: int = 0,
        progress: bool | ProgressLike | None = None,
    ) -> Self:
        """Return a new model that also counts the log `interactions`, its new items and users.

        Everything is counted again with the settings that the fit found, since that takes about a
        second. Nothing follows an item without interactions, so there is no other way to extend.
        """
        of_networks = (items, columns or None, length, cold_item_share, steps or None)
        if interactions is None or any(option is not None for option in of_networks):
            raise ConfigError(
                "transitions counts what follows what: extend it by interactions alone"
            )
        if not isinstance(interactions, Interactions):
            interactions = load(interactions)
        merged = merge_interactions(self.known, interactions, [])
        if len(merged) == len(self.known):
            raise DataError(
                "nothing is new: the model knows these interactions already"
            )
        return self.refit(merged, progress=progress)

    def reasons(
        self,
        history: Sequences,
        items: Indices,
        n: int = 3,
        near: ItemNeighbours | None = None,
    ) -> list[list[tuple[int, float]]]:
        """The events of a history that add most to each item's score, the strongest first.

        The number of each is the share of its training users who had the item within `distance`
        events of it; without an order, at any time.
        """
        strongest = super().reasons(history, items, n, near)
        sources = np.unique(history.of(0))
        shares = self._shares_of_users(sources, items)
        row = {item: place for place, item in enumerate(sources.tolist())}
        reasons = []
        for column, pairs in enumerate(strongest):
            share = [(item, float(shares[row[item], column])) for item, _ in pairs]
            reasons.append([pair for pair in share if pair[1] > 0])
        return reasons

    def _shares_of_users(self, sources: Indices, targets: Indices) -> Weights:
        """float64[len(sources), len(targets)]: of a source's users, those who had the target."""
        if self.train.has_order:
            return shares_of_followers(
                self.train.sequences(),
                self.train.n_items,
                sources,
                targets,
                self.config.distance,
            )
        had = self.train_rows[:, sources]
        co_occurrences = (had.T @ self.train_rows[:, targets]).toarray()
        users = np.asarray(had.sum(axis=0))
        return np.asarray(co_occurrences / np.maximum(users, 1)[:, None], np.float64)


def penalty(interactions_per_item: float, evidence: float) -> float:
    """Return the default of `popularity`: the denser the data, the farther below 0.

    `evidence` is the sum of the weights c_d times n_items / tau. Where it is small, so are the
    scores E, and the penalty shrinks with them.
    """
    size = min(PENALTY_PER_INTERACTION * interactions_per_item, MOST_PENALTY)
    return -size * min(evidence / USUAL_EVIDENCE, 1.0)


def distance_weights(config: TransitionsConfig) -> Weights:
    """float64[w]: c_d for d = 0, the next event, and on; those that are 0 are left out."""
    places = np.arange(config.distance, dtype=np.float64)
    if config.distance_weights == "power":
        weights = (1 + places) ** -config.exponent
    else:
        weights = config.distance_decay**places
    return weights[weights > 0]


def history_weights(lengths: Counts, config: TransitionsConfig) -> Weights:
    """Return k for each event of histories with these lengths, oldest first; they sum to 1 each."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    age = np.cumsum(lengths)[row] - 1 - np.arange(len(row))
    weights: Weights = np.power(config.recency_decay, age, dtype=np.float64)
    if config.recent is not None:
        weights[age >= config.recent] = 0.0
    totals = np.bincount(row, weights, minlength=len(lengths))
    weights /= totals[row]
    if config.recent is not None and config.older_share:
        older = np.maximum(lengths - config.recent, 0)
        share = np.where(older > 0, config.older_share, 0.0)
        weights *= (1 - share)[row]
        each = share / np.maximum(older, 1)
        weights += np.where(age >= config.recent, each[row], 0.0)
    return weights


def transition_counts(
    sequences: Sequences,
    n_items: int,
    distances: Weights,
    top_k: int | None = None,
) -> sparse.csr_array:
    """float64[n_items, n_items]: C, the weighted counts of j after i.

    `distances` holds c_d. Of each row the `top_k` largest are kept, of equal ones the smaller
    items. `sequences` are all of their events, from the first.
    """
    items = sequences.items
    order = np.argsort(items, kind="stable")
    events = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=n_items))])
    stop = np.repeat(sequences.indptr[1:], np.diff(sequences.indptr))
    log = items, stop, order, events
    most = min(top_k or n_items, n_items)
    sizes = np.zeros(n_items + 1, np.int64)
    with one_thread_pool() as threads:
        _row_sizes(log, distances, sizes, threads * 8)
        pointers = np.cumsum(np.minimum(sizes, most))
        columns = np.empty(pointers[-1], np.int32)
        values = np.empty(pointers[-1])
        _fill_rows(log, distances, pointers, columns, values, threads * 8)
    return sparse.csr_array((values, columns, pointers), shape=(n_items, n_items))


def counts_without_order(
    sequences: Sequences,
    n_items: int,
    distances: Weights,
    top_k: int | None = None,
) -> sparse.csr_array:
    """float32[n_items, n_items]: the mean of `transition_counts` over all orders of each history.

    Each of the n (n - 1) pairs of places in a history is as likely as the others for two events,
    and n - 1 - d of them are d + 1 apart.
    """
    lengths = np.diff(sequences.indptr)
    apart = np.arange(1, len(distances) + 1)
    places = np.maximum(lengths[:, None] - apart, 0) @ distances
    per_pair = places / np.maximum(lengths * (lengths - 1), 1)
    rows = sequences.csr(n_items).astype(np.float64)
    rows.sum_duplicates()
    weighted = sparse.csr_array(sparse.diags_array(per_pair) @ rows)
    # An event is no pair with itself: the diagonal keeps what came again.
    itself = sparse.diags_array(np.asarray(weighted.sum(axis=0)).ravel())
    counts = sparse.csr_array(rows.T @ weighted - itself)
    counts.data[counts.data < 1e-9] = 0.0  # what rounding leaves of the difference
    counts.eliminate_zeros()
    counts = canonical(counts)
    if top_k is not None:
        counts = canonical(top_k_of_columns(canonical(counts.T), top_k).T)
    return counts


def shares_of_followers(
    sequences: Sequences,
    n_items: int,
    sources: Indices,
    targets: Indices,
    distance: int,
) -> Weights:
    """float64[len(sources), len(targets)]: of a source's users, the share who had the target next.

    That is within `distance` events after it. Sources and targets are distinct items each.
    """
    source_place = np.full(n_items, -1, np.int64)
    target_place = np.full(n_items, -1, np.int64)
    source_place[sources] = np.arange(len(sources))
    target_place[targets] = np.arange(len(targets))
    users = np.zeros(len(sources), np.int64)
    followers = np.zeros((len(sources), len(targets)), np.int64)
    _count_followers(
        sequences.indptr,
        sequences.items,
        source_place,
        target_place,
        distance,
        users,
        followers,
    )
    return followers / np.maximum(users, 1)[:, None]


EventLog = tuple[NDArray[np.int32], Counts, Counts, Counts]
"""The item of each event, the end of its user's events, the events ordered by item, and where those
of each item begin."""


@kernel
def _followers_of(
    item: int,
    log: EventLog,
    distances: Weights,
    sums: Weights,
    touched: NDArray[np.int32],
) -> int:
    """Add the weights of what follows an item to `sums`; return how many `touched` items follow."""
    items, stop, order, events = log
    count = 0
    for place in range(events[item], events[item + 1]):
        event = order[place]
        end = min(stop[event], event + 1 + len(distances))
        for later in range(event + 1, end):
            follower = items[later]
            if sums[follower] == 0.0:
                touched[count] = follower
                count += 1
            sums[follower] += distances[later - event - 1]
    return count


@kernel(parallel=True)
def _row_sizes(log: EventLog, distances: Weights, sizes: Counts, blocks: int) -> None:
    """Write how many items follow item i to sizes[i + 1]."""
    n_items = len(sizes) - 1
    for block in prange(blocks):
        sums = np.zeros(n_items)
        touched = np.empty(n_items, np.int32)
        for item in range(block, n_items, blocks):
            count = _followers_of(item, log, distances, sums, touched)
            sums[touched[:count]] = 0.0
            sizes[item + 1] = count


@kernel(parallel=True)
def _fill_rows(
    log: EventLog,
    distances: Weights,
    pointers: Counts,
    columns: NDArray[np.int32],
    values: Weights,
    blocks: int,
) -> None:
    """Write the largest counts of each item between its pointers, ordered by column."""
    n_items = len(pointers) - 1
    for block in prange(blocks):
        sums = np.zeros(n_items)
        touched = np.empty(n_items, np.int32)
        for item in range(block, n_items, blocks):
            count = _followers_of(item, log, distances, sums, touched)
            reached = np.sort(touched[:count])
            counts = sums[reached]
            sums[reached] = 0.0
            start = pointers[item]
            n_kept = pointers[item + 1] - start
            if n_kept < count:
                largest = np.sort(np.argsort(-counts, kind="mergesort")[:n_kept])
                reached = reached[largest]
                counts = counts[largest]
            columns[start : start + n_kept] = reached
            values[start : start + n_kept] = counts


@kernel
def _count_followers(
    indptr: Counts,
    items: NDArray[np.int32],
    source_place: Counts,
    target_place: Counts,
    distance: int,
    users: Counts,
    followers: Counts,
) -> None:
    """Count the users of each source, and those who had each target soon after it."""
    last_user = np.full(len(users), -1)
    last_follower = np.full(followers.shape, -1)
    for user in range(len(indptr) - 1):
        for event in range(indptr[user], indptr[user + 1]):
            source = source_place[items[event]]
            if source < 0:
                continue
            if last_user[source] != user:
                last_user[source] = user
                users[source] += 1
            for later in range(event + 1, min(indptr[user + 1], event + 1 + distance)):
                target = target_place[items[later]]
                if target >= 0 and last_follower[source, target] != user:
                    last_follower[source, target] = user
                    followers[source, target] += 1
