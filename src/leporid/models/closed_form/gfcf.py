"""GF-CF: a linear and an ideal low-pass filter of the item graph (Shen et al., CIKM 2021).

With R~ = D_U^-1/2 X D_I^-1/2 and V the right singular vectors of its `rank` largest singular
values, a profile p becomes

    p R~' R~ + alpha p D_I^-1/2 V V' D_I^1/2

Nothing is trained. Up to `max_items` items the filter is one dense matrix, which is faster; beyond
them a profile goes through its factors, and no items x items matrix is ever held.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Interactions, Split
from leporid.embeddings import truncated_svd
from leporid.foundation import Float, Int, SearchSpace, setting
from leporid.graph import canonical
from leporid.models.closed_form.history_window import WINDOW_SPACE
from leporid.models.closed_form.products import item_counts, normalised, rows_times
from leporid.models.closed_form.profiles import ProfileConfig, ProfileRecommender
from leporid.models.context import FitContext
from leporid.models.fitted_arrays import FittedArray
from leporid.ranking import Indices, Scores


@dataclass(frozen=True, kw_only=True)
class GFCFConfig(ProfileConfig):
    max_items: int = setting(25_000, at_least=1)
    """A matrix of as many rows is the largest: 8 n_items^2 bytes are 5 GB at this limit."""
    rank: int = setting(128, at_least=1)
    """k: singular vectors that the ideal low-pass filter lets through."""
    alpha: float = setting(0.3, at_least=0)
    """Weight of the ideal low-pass filter beside the linear one."""


class GFCF(ProfileRecommender):
    """Scores p (R~' R~ + alpha D_I^-1/2 V V' D_I^1/2)."""

    name = "gfcf"
    config_class = GFCFConfig
    config: GFCFConfig
    search_space: ClassVar[SearchSpace] = {
        "rank": Int(16, 256, log=True),
        "alpha": Float(0.0, 2.0),
        **WINDOW_SPACE,
    }
    basis: FittedArray[NDArray[np.float32]] = FittedArray(shape=("items", None))
    """float32[n_items, r]: V, r = min(rank, n_users, n_items)."""
    _normalised: sparse.csr_array
    _filter: NDArray[np.float32] | None

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        context.progress.start("gfcf", 1)
        self._remember(split.train)
        _, _, basis = truncated_svd(self._normalised, self.config.rank, seed)
        self.basis = basis.astype(np.float32)
        context.progress.advance(1)

    def _remember(self, train: Interactions) -> sparse.csr_array:
        """Keep the training rows and their normalised form; forget the filter."""
        rows = super()._remember(train)
        self._normalised = normalised(rows)
        self._filter = None
        return rows

    def _score_profiles(
        self,
        profiles: sparse.csr_array,
        users: Indices | None,
    ) -> Scores:
        roots = np.sqrt(item_counts(self.train_rows))
        root = roots.astype(np.float32)[:, None]
        into_basis = np.float32(self.config.alpha) * self.basis / root
        out_of_basis = (self.basis * root).T
        if len(root) > self.config.max_items:
            across = canonical(profiles @ self._normalised.T)
            linear = rows_times(across, self._normalised)
            return np.asarray(linear + profiles @ into_basis @ out_of_basis)
        if self._filter is None:
            linear_filter = self._normalised.T @ self._normalised
            self._filter = into_basis @ out_of_basis
            self._filter += linear_filter.toarray()
        return np.asarray(profiles @ self._filter, dtype=np.float32)
