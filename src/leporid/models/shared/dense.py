"""How many pairs of items a model may hold at once: the one rule for items x items matrices."""

from __future__ import annotations

from dataclasses import dataclass

from leporid.config import setting
from leporid.errors import DataError
from leporid.models.shared.profiles import ProfileConfig


@dataclass(frozen=True, kw_only=True)
class DenseConfig(ProfileConfig):
    """Settings of every model with an items x items matrix that is dense, or may become so."""

    max_items: int = setting(25_000, at_least=1)
    """A matrix of as many rows is the largest: 8 n_items^2 bytes are 5 GB at this limit."""

    def check_size(self, model: str, pairs: int, n_items: int) -> None:
        """Refuse more pairs of items than `max_items` allows."""
        if pairs > self.max_items**2:
            raise DataError(
                f"{model} holds a weight for each of {pairs:,} pairs of items, which needs "
                f"{8 * pairs / 2**30:.0f} GiB for {n_items} items: raise max_items (now "
                f"{self.max_items}), filter rare items, or use slim or itemknn"
            )
