"""Initial vectors as the tables of a model take them: standardised and of the right size.

`init_scale="auto"` goes by size, not by a factor: the root mean square of the entries becomes what
the model was built for, whatever the initialiser's norms and however many columns are zero.
Training moves an entry by about the learning rate a step, however large it is; a start that is too
large for the steps a rare item gets is never left.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leporid.initializers import InitialEmbeddings, standardizes
from leporid.spectral import Embedding
from leporid.training import TrainingConfig


def sized(
    init: InitialEmbeddings, config: TrainingConfig, size: float, factor: float
) -> InitialEmbeddings:
    """The vectors with root mean square `size` (auto), or times `factor` (None).

    Isolated rows stay zero. Vectors that are used as drawn keep the size they were drawn with.
    """
    as_drawn = not standardizes(init.items.provenance.get("method"), otherwise=True)
    standardize = not as_drawn if config.standardize is None else config.standardize

    def scaled(side: Embedding, scale: float) -> Embedding:
        if standardize:
            ready = side.standardized(scale)
        else:
            ready = replace(side, vectors=side.vectors * np.float32(scale))
        vectors = np.where(side.isolated[:, None], np.float32(0), ready.vectors)
        return replace(ready, vectors=vectors)

    def started(side: Embedding) -> Embedding:
        if config.init_scale != "auto":
            default = factor if standardize else 1.0
            return scaled(side, default if config.init_scale is None else config.init_scale)
        if as_drawn and not standardize:
            return side
        return scaled(side, size / (scaled(side, 1.0).size or 1.0))

    return replace(init, users=started(init.users), items=started(init.items))
