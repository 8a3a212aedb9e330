"""A split in which some items occur in the test part alone."""

from __future__ import annotations

from typing import Literal

import numpy as np

from leporid.data.interactions import Interactions
from leporid.data.split import Split, split_by
from leporid.errors import ConfigError, DataError, UnknownNameError


def cold_items_split(
    data: Interactions,
    share: float = 0.1,
    by: Literal["random", "time"] = "random",
    *,
    protocol: str = "temporal",
    train: float = 0.7,
    valid: float = 0.1,
    seed: int = 0,
) -> Split:
    """A split by `protocol` in which a share of the items occurs in the test part alone.

    Their interactions in the training and validation parts are left out; the name of the protocol
    says how many. All parts keep the ids of all items, so that cold items are candidates. Evaluate
    with the strata 'cold-items' and 'warm-items' of a `MetricTable`.

    Parameters
    ----------
    share : of the items, above 0 and below 1
    by : "random" draws the cold items; "time" takes those that appear last, on one clock for all
    protocol, train, valid : as for `leporid.data.split_by`
    seed : of the draw, and of a random protocol
    """
    count = round(share * data.n_items)
    if not 0 < share < 1 or count == 0:
        raise ConfigError(
            f"the share of cold items must be above 0 and below 1, and {share:g} of "
            f"{data.n_items} items at least one"
        )
    if by == "random":
        chosen = np.random.default_rng(seed).permutation(data.n_items)[:count]
    elif by != "time":
        raise UnknownNameError("choice of cold items by", by, ["random", "time"])
    elif data.time is None:
        raise DataError("cold items by time need times: name the time column, or draw by='random'")
    else:
        first_seen = np.full(data.n_items, np.iinfo(np.int64).max)
        np.minimum.at(first_seen, data.item, data.time)
        chosen = np.argsort(first_seen, kind="stable")[-count:]
    cold = np.zeros(data.n_items, bool)
    cold[chosen] = True
    whole = split_by(data, protocol, train=train, valid=valid, seed=seed)
    first, then = (part.select(~cold[part.item]) for part in (whole.train, whole.valid))
    dropped = len(whole.train) + len(whole.valid) - len(first) - len(then)
    name = f"cold-items({share:g}, {by}, seed={seed}, left out {dropped}) of {whole.protocol}"
    return Split(first, then, whole.test, name)
