"""New items and users of a trained model: their tables, interactions, training and cold scores."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leporid.data import (
    IdMap,
    ItemTable,
    Split,
)
from leporid.errors import (
    ConfigError,
    DataError,
    LeporidError,
    warn,
)
from leporid.foundation import ProgressLike
from leporid.models.context import FitContext
from leporid.models.neural.cold_items import (
    ColdItems,
    UserScorer,
    content_vectors,
    fit_cold_items,
)
from leporid.models.neural.table_growth import MIN_INTERACTIONS, TableGrowth
from leporid.models.neural.trainable import Trainable
from leporid.models.neural.trainer import train_loop

_MAX_DEFAULT_SHARE = 0.1
"""Largest share of the ranks that cold items get by default: nobody measured what more costs."""


def item_tables(
    known: IdMap,
    items: object,
    initial: object,
) -> list[ItemTable]:
    """Return the table of new items, and the `initial` one of the fit if it still exists."""
    if items is None:
        return []
    tables = [ItemTable.load(items)]
    if initial:
        try:
            tables.append(ItemTable.load(initial))
        except LeporidError as error:
            warn(f"the item table of the initial embeddings is not read: {error}", 4)
    if not any((table.places(known) >= 0).any() for table in tables):
        raise DataError(
            f"{tables[0].name} names none of the model's {len(known):,} items, so that "
            f"content has nothing to compare with: give a table of the old and the new items"
        )
    return tables


def train_new_rows(
    model: Trainable,
    growth: TableGrowth,
    steps: int,
    seed: int,
    progress: ProgressLike,
) -> None:
    """Move the new rows and nothing else, on the histories of new users and of new items."""
    merged = growth.merged
    of_new_user = np.isin(merged.user, growth.users.new_rows)
    of_new_item = np.isin(merged.item, growth.items.new_rows)
    users = merged.user[of_new_user | of_new_item]
    part = merged.select(np.isin(merged.user, users))
    if not len(part):
        raise ConfigError(
            "steps need interactions with the new items: give interactions="
        )
    nothing = merged.select(np.zeros(len(merged), bool))
    split = Split(part, nothing, nothing, "new rows")
    config = model.config
    model.config = config.replace(
        steps=steps,
        stop_at=0,
        epochs=0.0,
        eval_every=0,
        weight_decay=0.0,
        freeze_steps=0,
        ema_decay=0.0,
        ema_share=0.0,
        cuda_graph=False,
    )
    model.tables = []  # the loop would make them trainable as a whole
    trainable = [
        parameter for parameter in model.net.parameters() if parameter.requires_grad
    ]
    handles = []
    for parameter in trainable:
        new_rows = _new_rows_of(parameter, growth)
        if new_rows is None:
            parameter.requires_grad_(False)
        else:
            hook = _only_rows(parameter, new_rows)
            handles.append(parameter.register_hook(hook))  # type: ignore[no-untyped-call]
    train_loop(model, split, seed, FitContext(progress=progress))
    for handle in handles:
        handle.remove()
    for parameter in trainable:
        parameter.requires_grad_(True)
    model.config = config
    model.net.eval()


def _new_rows_of(parameter: Tensor, growth: TableGrowth) -> NDArray[np.int64] | None:
    """Return the new rows of a parameter, or None if it has none."""
    n_rows = parameter.shape[0] if parameter.dim() else 0
    for side in (growth.users, growth.items):
        if len(side.new_rows) and side.n_after == n_rows:
            return side.new_rows
    return None


def _only_rows(
    parameter: Tensor,
    rows: NDArray[np.int64],
) -> Callable[[Tensor], Tensor]:
    """Return a hook that sets the gradient of all other rows to zero."""
    ones = [1] * (parameter.dim() - 1)
    mask = torch.zeros(len(parameter), *ones)
    mask[rows] = 1
    mask = mask.to(parameter)
    return lambda gradient: gradient * mask


def fit_new_cold_items(
    model: UserScorer,
    growth: TableGrowth,
    earlier: ColdItems | None,
    share: float | None,
) -> ColdItems:
    """Fit the scores of the new items, and of those that an `earlier` extension added."""
    cold = growth.items.new_rows
    n_items = growth.items.n_after
    content = None
    if growth.features is not None:
        content = content_vectors(growth.features)
    elif earlier is not None:
        content = earlier.content.cpu().numpy()
    if earlier is not None:
        cold = np.union1d(cold, earlier.items.cpu().numpy())
    weight = np.maximum(0, 1 - growth.counts[cold] / MIN_INTERACTIONS)
    ranks = (1.0 if share is None else share) * len(cold) / n_items
    if share is None and ranks > _MAX_DEFAULT_SHARE:
        warn(
            f"{ranks:.0%} of the items are cold and get {_MAX_DEFAULT_SHARE:.0%} of the ranks: "
            f"cold_item_share=1 (--cold-item-share 1) gives them their share",
            3,
        )
        ranks = _MAX_DEFAULT_SHARE
    return fit_cold_items(
        model,
        cold,
        content,
        weight,
        share=ranks,
    )
