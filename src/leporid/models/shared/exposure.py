"""How long the rows of new items must be to get their share of the first places.

A row that training never moved as a target is on no scale that compares with the others: a little
shorter and nobody is ever shown the item, a little longer and everybody is. So the length is found
by looking: the one at which new items take the wanted share of the first ten places of people the
model knows. Nothing is learnt from what these people wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from leporid.models.shared.neural import NeuralRecommender

_PEOPLE, _PLACES = 500, 10
_FACTORS, _HALVINGS = (0.1, 5.0), 8
"""The lengths considered, in units of the present one, and how often their range is halved."""


@torch.no_grad()
def fit_lengths(
    model: NeuralRecommender, tables: list[Tensor], new: NDArray[np.int64], share: float
) -> float:
    """Multiply the rows `new` of the item tables so that they get `share` of the places.

    Returns the factor. A model whose lists do not depend on lengths in that way keeps the factor
    that came nearest.
    """
    known = np.unique(model.known.user)
    people = known[np.unique(np.linspace(0, len(known) - 1, _PEOPLE).astype(np.int64))]
    rows = torch.from_numpy(new)
    start = [table[rows.to(table.device)].clone() for table in tables]

    def apply(factor: float) -> None:
        for table, own in zip(tables, start, strict=True):
            table[rows.to(table.device)] = own * factor
        model.weights_changed()

    def missed(factor: float) -> float:
        """Places wanted less places given."""
        apply(factor)
        items = model.top_k(people.astype(np.int32), _PLACES).items
        return share - float(np.isin(items, new).mean())

    low, high = np.log(_FACTORS)
    tried: dict[float, float] = {}
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        tried[middle] = missed(float(np.exp(middle)))
        low, high = (middle, high) if tried[middle] > 0 else (low, middle)
    best = float(np.exp(min(tried, key=lambda level: abs(tried[level]))))
    apply(best)
    return best
