"""Turbo-CF: polynomial low-pass filters of the item graph (Park et al., SIGIR 2024).

With R~ = D_U^-alpha X D_I^(alpha - 1), the graph is P = R~' R~ with each entry raised to the power
s, and a profile p becomes p H(P):

    linear         H = P
    second order   H = 2 P - P^2
    third order    H = P + 0.01 (-P^3 + 10 P^2 - 29 P)

Nothing is trained and nothing decomposed.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Split
from leporid.errors import DataError
from leporid.foundation import Float, OneOf, SearchSpace, setting
from leporid.graph import canonical
from leporid.models.closed_form.history_window import WINDOW_SPACE
from leporid.models.closed_form.products import normalised
from leporid.models.closed_form.profiles import ItemWeights, ProfileConfig
from leporid.models.context import FitContext
from leporid.models.fitted_arrays import FittedArray
from leporid.models.recipes import kinds_of

FILTERS = {
    "linear": (1.0,),
    "second_order": (2.0, -1.0),
    "third_order": (0.71, 0.1, -0.01),
}
"""The coefficients of P, P^2, P^3 in H."""


@dataclass(frozen=True, kw_only=True)
class TurboCFConfig(ProfileConfig):
    """Settings of Turbo-CF; P is sparse, filters of higher order are dense."""

    max_items: int = setting(25_000, at_least=1)
    """A matrix of as many rows is the largest: 8 n_items^2 bytes are 5 GB at this limit."""
    alpha: float | Literal["auto"] = setting("auto", at_least=0, at_most=1)
    """How much the activity of users is held back; the popularity of items is by 1 - alpha. `auto`:
    .55 where users have fewer than 25 training interactions on average, else .5."""
    power: float = setting(0.6, above=0)
    """s: every entry of the graph is raised to it; below 1 weak edges count for more."""
    filter: Literal["linear", "second_order", "third_order"] = "linear"
    """H, the order of the polynomial."""


class TurboCF(ItemWeights):
    """Scores p H(P)."""

    name = "turbocf"
    config_class = TurboCFConfig
    config: TurboCFConfig
    search_space: ClassVar[SearchSpace] = {
        "alpha": Float(0.0, 1.0),
        "power": Float(0.3, 2.0),
        "filter": OneOf(*FILTERS),
        **WINDOW_SPACE,
    }
    weights: FittedArray[sparse.csr_array | NDArray[np.float32]] = FittedArray(
        shape=("items", "items")
    )
    """float32[n_items, n_items]: H, sparse where it is linear."""

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        config = self.config
        coefficients = FILTERS[config.filter]
        is_linear = len(coefficients) == 1
        alpha = config.alpha
        if alpha == "auto":
            alpha = 0.55 if "short histories" in kinds_of(split.train) else 0.5
            self.config = config.replace(alpha=alpha)
        context.progress.start("turbocf", 1)
        rows = self._remember(split.train)
        pairs = split.n_items**2
        if is_linear:
            # The graph has as many entries as there are pairs in a profile, or fewer.
            pairs_in_profiles = int((np.diff(rows.indptr) ** 2).sum())
            pairs = min(pairs, pairs_in_profiles)
        if pairs > config.max_items**2:
            raise DataError(
                f"Turbo-CF holds a weight for each of {pairs:,} pairs of items, which needs "
                f"{8 * pairs / 2**30:.0f} GiB for {split.n_items} items: raise max_items (now "
                f"{config.max_items}), filter rare items, or use slim or itemknn"
            )
        graph = item_graph(rows, alpha, config.power)
        self.weights = graph if is_linear else polynomial(graph, coefficients)
        context.progress.advance(1)


def item_graph(
    profiles: sparse.csr_array,
    alpha: float,
    power: float,
) -> sparse.csr_array:
    """Return float32[n_items, n_items]: P, for binary rows [n_users, n_items]."""
    rows = normalised(profiles, alpha)
    graph = canonical(rows.T @ rows)
    graph.data **= np.float32(power)
    return graph


def polynomial(
    graph: sparse.csr_array, coefficients: tuple[float, ...]
) -> NDArray[np.float32]:
    """Return float32[n, n]: c_1 P + c_2 P^2 + ..., dense, by Horner's rule."""
    dense = graph.toarray()
    diagonal = np.diag_indices_from(dense)
    result = np.float32(coefficients[-1]) * dense
    for coefficient in coefficients[-2::-1]:
        result[diagonal] += coefficient
        result = dense @ result
    return np.asarray(result)
