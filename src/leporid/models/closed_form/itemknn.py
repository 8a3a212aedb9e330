"""ItemKNN: items whose users are most like those of the items in a profile.

UserKNN shares the settings, the weighting of entries and the search for neighbours.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Interactions, ItemTable, Split, item_features
from leporid.embeddings import nearest_by_content
from leporid.errors import ConfigError
from leporid.foundation import Float, Int, OneOf, SearchSpace, setting
from leporid.graph import canonical, top_k_neighbours
from leporid.models.closed_form.history_window import WINDOW_SPACE
from leporid.models.closed_form.products import top_k_products
from leporid.models.closed_form.profiles import ItemWeights, ProfileConfig
from leporid.models.context import FitContext
from leporid.ranking import Indices

_COSINES = ("cosine", "asymmetric_cosine")
_COUNTS_SHRINK = 1e9
"""Shrinkage so large that only the number of shared entries matters."""


@dataclass(frozen=True, kw_only=True)
class KNNConfig(ProfileConfig):
    """Settings of the neighbourhood models, as in the RecSys'19 evaluation study."""

    k: int = setting(100, at_least=1)
    """Neighbours of each row."""
    similarity: Literal["jaccard", "cosine", "asymmetric_cosine", "tversky", "dice"] = (
        "jaccard"
    )
    shrink: float = setting(20.0, at_least=0)
    """Added to the denominator: similarities that rest on few shared entries get smaller."""
    weighting: Literal["none", "tfidf", "bm25"] = "none"
    """How entries of a cosine are weighted: users with few items count more, in "bm25" popular
    items less."""
    normalize: bool = True
    """Whether a cosine is divided by the lengths of the rows; False counts shared entries."""
    asymmetric_alpha: float = setting(0.5, at_least=0, at_most=1)
    """Share of a row's own length in the asymmetric cosine; 0.5 is the cosine."""
    tversky_alpha: float = setting(1.0, at_least=0)
    """Tversky: weight of what only the row itself has."""
    tversky_beta: float = setting(1.0, at_least=0)
    """Tversky: weight of what only the neighbour has; both 1 is Jaccard, both 0.5 is Dice."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.normalize and self.similarity not in _COSINES:
            raise ConfigError(
                f"normalize=False is defined for cosines, not for {self.similarity}"
            )
        if self.weighting != "none" and self.similarity not in _COSINES:
            raise ConfigError(
                f"weighting={self.weighting!r} is defined for cosines, not for {self.similarity}"
            )


NEIGHBOUR_SPACE: SearchSpace = {
    "similarity": OneOf("jaccard", "cosine", "asymmetric_cosine", "tversky", "dice"),
    "k": Int(10, 1000, log=True),
    "shrink": Float(0.0, 200.0),
    "weighting": OneOf("none", "tfidf", "bm25", when={"similarity": _COSINES}),
    "asymmetric_alpha": Float(0.0, 1.0, when={"similarity": ("asymmetric_cosine",)}),
    "tversky_alpha": Float(0.0, 2.0, when={"similarity": ("tversky",)}),
    "tversky_beta": Float(0.0, 2.0, when={"similarity": ("tversky",)}),
    **WINDOW_SPACE,
}


@dataclass(frozen=True, kw_only=True)
class ItemKNNConfig(KNNConfig):
    k: int = setting(30, at_least=1)
    similarity: Literal["jaccard", "cosine", "asymmetric_cosine", "tversky", "dice"] = (
        "tversky"
    )
    tversky_beta: float = setting(2.0, at_least=0)
    item_table: str = ""
    """An item table: the K nearest items by content (cosine of their features) count too."""
    content: float = setting(0.5, at_least=0, at_most=1)
    """Share of the content, where there is an item table; at 1 shared users do not count."""


class ItemKNN(ItemWeights):
    """Scores X W: item j sums its similarity to those of its K nearest items in the profile."""

    name = "itemknn"
    uses_weights = True
    config_class = ItemKNNConfig
    config: ItemKNNConfig
    search_space: ClassVar[SearchSpace] = NEIGHBOUR_SPACE

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        context.progress.start("itemknn", 1)
        by_item = canonical(self._votes(self._remember(split.train)).T)
        neighbours = neighbour_weights(by_item, self.config)
        if self.config.item_table:
            table = context.tables.get("items", self.config.item_table)
            neighbours = self._with_content(neighbours, split.train, table)
        # Row j holds the neighbours of the target j, so the voting matrix is the transpose.
        self.weights = canonical(neighbours.T)
        context.progress.advance(1)

    def _with_content(
        self,
        by_users: sparse.csr_array,
        train: Interactions,
        table: ItemTable | str,
    ) -> sparse.csr_array:
        """Mix similarities by users and by content, each divided by its mean, by their shares."""
        features = item_features(train.items, table).matrix
        items = np.arange(train.n_items)
        by_content = nearest_by_content(
            features, items, self.config.k, train.popularity
        )
        share = self.config.content
        users_weight = (1 - share) / mean_entry(by_users)
        content_weight = share / mean_entry(by_content)
        mixed = users_weight * by_users + content_weight * by_content
        mixed.eliminate_zeros()
        return sparse.csr_array(mixed)

    def _votes(self, profiles: sparse.csr_array) -> sparse.csr_array:
        return weigh(profiles, self._if_fitted(self._rows), self.config.weighting)


def mean_entry(matrix: sparse.csr_array) -> float:
    """Return the mean of the stored entries, or a tiny number in place of zero."""
    return float(max(matrix.data.sum() / max(matrix.nnz, 1), 1e-30))


def weigh(
    profiles: sparse.csr_array,
    train: sparse.csr_array,
    weighting: str,
) -> sparse.csr_array:
    """Weigh the entries of rows [m, n_items] as the RecSys'19 evaluation study does.

    Items are its documents, users its terms: an entry of 1 is ln(n_items / (1 + the user's items)),
    for BM25 times 2.2 / (1 + 1.2 (0.25 + 0.75 d_i / mean d)), d_i the training users of
    the item.
    """
    if weighting == "none":
        return profiles
    lengths = np.diff(profiles.indptr)
    rarity = np.log(profiles.shape[1] / (1.0 + lengths))
    weights = profiles.data * np.repeat(rarity, lengths)
    if weighting == "bm25":
        popularity = np.bincount(train.indices, minlength=train.shape[1])
        relative = popularity / popularity.mean()
        saturation = 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * relative))
        weights *= saturation[profiles.indices]
    entries = (weights, profiles.indices, profiles.indptr)
    rows = sparse.csr_array(entries, shape=profiles.shape)
    rows.eliminate_zeros()
    return canonical(rows)


def neighbour_weights(
    rows: sparse.csr_array,
    config: KNNConfig,
    against: sparse.csr_array | None = None,
    own: Indices | None = None,
) -> sparse.csr_array:
    """Return float32[len(rows), n]: the k largest similarities of each row to those of `against`.

    Without `against` they are compared with each other; `own` is the row that each one is itself.
    """
    has_weights = (rows.data != 1).any()
    if against is not None:
        has_weights = has_weights or (against.data != 1).any()
    if config.weighting != "none" or (has_weights and config.similarity in _COSINES):
        return _weighted_cosines(rows, config, against, own)
    weights = top_k_neighbours(
        rows,
        config.k,
        against=against,
        own=own,
        similarity=config.similarity,
        shrink=config.shrink if config.normalize else _COUNTS_SHRINK,
        asymmetric_alpha=config.asymmetric_alpha,
        tversky_alpha=config.tversky_alpha,
        tversky_beta=config.tversky_beta,
    ).csr()
    if not config.normalize:
        weights.data = np.round(weights.data * np.float32(_COUNTS_SHRINK))
    return canonical(weights)


def _weighted_cosines(
    rows: sparse.csr_array,
    config: KNNConfig,
    against: sparse.csr_array | None,
    own: Indices | None,
) -> sparse.csr_array:
    """Return x_i . x_j / (|x_i|^2a |x_j|^2(1-a) + shrink), or the product alone."""
    if against is None:
        against = rows
    elif own is None:
        own = np.full(rows.shape[0], -1, np.int32)
    share = config.asymmetric_alpha if config.similarity == "asymmetric_cosine" else 0.5
    row_squares = squared_lengths(rows)
    against_squares = squared_lengths(against)
    return top_k_products(
        rows,
        canonical(against.T),
        config.k,
        rows=row_squares**share * config.normalize,
        columns=against_squares ** (1 - share),
        shrink=config.shrink if config.normalize else 1.0,
        own=own,
    )


def squared_lengths(rows: sparse.csr_array) -> NDArray[np.float64]:
    """Return float64[n]: the squared length of each row."""
    # In float32 the square of a weight of 1e-30 is 0, that of 1e20 infinite.
    exact = rows.astype(np.float64)
    return np.asarray(exact.multiply(exact).sum(axis=1))
