"""The scaling of initial vectors before a model trains them.

The z-scores themselves are `standardize` and `Embedding.standardized` in `embeddings.vectors`.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from leporid.embeddings.isolated import cleared
from leporid.embeddings.registry import get
from leporid.embeddings.vectors import Embedding, InitialEmbeddings
from leporid.errors import UnknownNameError


def standardizes(method: str | None, otherwise: bool) -> bool:
    """Whether models z-score the vectors of `method`; `otherwise` for those of unknown origin."""
    if method is None:
        return otherwise
    try:
        return get(method).standardize_by_default
    except UnknownNameError:
        return otherwise


def scale_for_model(
    init: InitialEmbeddings,
    *,
    standardize: bool | None,
    init_scale: float | Literal["auto"],
    size: float,
) -> InitialEmbeddings:
    """Scale initial embeddings for a model; isolated rows stay zero.

    With `standardize` the columns are z-scored first; None asks the initialiser. A number as
    `init_scale` multiplies the vectors. With "auto" the root mean square of their entries becomes
    `size`, except for vectors that are used as drawn: they are returned unchanged.
    """
    method = init.items.provenance.get("method")
    as_drawn = not standardizes(method, otherwise=True)
    if standardize is None:
        standardize = not as_drawn
    if init_scale == "auto" and as_drawn and not standardize:
        return init

    def scale(side: Embedding) -> Embedding:
        if init_scale != "auto":
            return _scaled(side, init_scale, standardize)
        unit = _scaled(side, 1.0, standardize)
        return _scaled(side, size / (unit.size or 1.0), standardize)

    return replace(init, users=scale(init.users), items=scale(init.items))


def _scaled(side: Embedding, scale: float, standardize: bool) -> Embedding:
    if standardize:
        scaled = side.standardized(scale)
    else:
        scaled = replace(side, vectors=side.vectors * np.float32(scale))
    # The z-scores of a zero row are not zero.
    return replace(scaled, vectors=cleared(scaled.vectors, side.isolated))
