"""`Extension`: rows for new items and users in the tables of a trained model.

A new user gets the mean of the rows of users with shared items (`TableExtension`). A new item gets
the direction of the mean of its neighbours' trained rows: items with shared users and items with
similar content, which counts the more the fewer interactions the item has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from leporid.data import IdMap, Interactions, ItemTable, Split, item_features, load
from leporid.embeddings import TableExtension, content_edges
from leporid.errors import ConfigError, DataError, LeporidError, article, warn
from leporid.graph import top_k_neighbours
from leporid.models.context import FitContext
from leporid.models.neural.cold_items import content_vectors, fit_cold_items
from leporid.models.neural.tables import BuildContext, neighbour_rows
from leporid.models.neural.trainer import Trainable, train_loop
from leporid.progress import ProgressLike

_USER_NEIGHBOURS, _ITEM_NEIGHBOURS = 50, 100
"""Neighbours by shared users of a new item, and neighbours by shared items of a new user."""
_CONTENT_NEIGHBOURS = 5
"""Neighbours by content of a new item."""
_MOST_UNASKED = 0.1
"""Share of the ranks that cold items get unasked: of more, nobody measured what it costs."""
_MIN_INTERACTIONS = 10
"""Of an item, from which on content no longer counts."""


@dataclass(frozen=True)
class Side:
    """The users or the items before and after."""

    kind: str
    before: int
    after: int
    kept: NDArray[np.int64]
    """int64[m]: the rows before of those that are still there."""
    old: NDArray[np.int64]
    """int64[m]: the rows that these have now."""
    new: NDArray[np.int64]

    @classmethod
    def of(cls, before: IdMap, after: IdMap) -> Self:
        rows = after.encode(before.ids).astype(np.int64)
        kept = np.flatnonzero(rows >= 0)
        if not len(kept):
            raise DataError(
                f"the model knows none of these {len(after):,} {before.kind}s"
            )
        new = np.setdiff1d(np.arange(len(after)), rows)
        return cls(before.kind, len(before), len(after), kept, rows[kept], new)

    @property
    def changed(self) -> bool:
        return self.before != self.after or not np.array_equal(
            self.old, np.arange(self.after)
        )


def extended(
    model: Any,
    items: Any,
    interactions: Any,
    columns: tuple[str, ...],
    length: float | None,
    share: float | None,
    steps: int,
    progress: ProgressLike,
) -> Any:
    tables = item_tables(model.items, items, model.fitting.item_table)
    if interactions is not None and not isinstance(interactions, Interactions):
        interactions = load(interactions)
    merged = _merged(
        model.known, interactions, tables[0].ids.to_pylist() if tables else []
    )
    extension = Extension(model.known, merged, tables, columns, length)
    if not len(extension.users.new) and not len(extension.items.new):
        raise DataError(
            "nothing is new: the model knows all of these items and users already"
        )
    new = type(model)(model.config)
    new._known = new._train = merged
    new.fitting = model.fitting
    new._build(BuildContext(new.train, new.config.dim), seed=0)
    extension.copy(model, new)
    new.to(model.device)
    new.net.eval()
    new.linear = model.linear and model.linear.extended(merged, extension.shares)
    if steps:
        extension.train(new, steps, model.fitting.seed, progress)
    cold, n_items = extension.items.new, extension.items.after
    earlier = model.cold_items and model.cold_items.among(extension.items.old, n_items)
    if length is not None or not len(cold):
        new.cold_items = earlier
        return new
    content = (
        None if extension.features is None else content_vectors(extension.features)
    )
    if earlier is not None:
        cold = np.union1d(cold, earlier.items.cpu().numpy())
        content = content if tables else earlier.content.cpu().numpy()
    weight = np.maximum(0, 1 - extension.counts[cold] / _MIN_INTERACTIONS)
    ranks = (1.0 if share is None else share) * len(cold) / n_items
    if share is None and ranks > _MOST_UNASKED:
        text = f"{ranks:.0%} of the items are cold and get {_MOST_UNASKED:.0%} of the ranks: "
        advice = "cold_item_share=1 (--cold-item-share 1) gives them their share"
        warn(text + advice, 3)
        ranks = _MOST_UNASKED
    new.cold_items = fit_cold_items(new, cold, content, weight, share=ranks)
    return new


class Extension:
    """The rows that the users and items of `merged` get in the tables of a model of `known`."""

    def __init__(
        self,
        known: Interactions,
        merged: Interactions,
        tables: Sequence[ItemTable] = (),
        columns: tuple[str, ...] = (),
        length: float | None = None,
    ) -> None:
        self.merged = merged
        self.users = Side.of(known.users, merged.users)
        self.items = items = Side.of(known.items, merged.items)
        self._length, self.features = length, None
        self._matrix = sparse.csr_array(merged.csr())
        self.counts = np.bincount(merged.item, minlength=merged.n_items)
        if not len(items.new):
            return
        by_item = sparse.csr_array(self._matrix.T.tocsr())
        sample = items.old[
            np.unique(np.linspace(0, len(items.old) - 1, 512).astype(np.int64))
        ]
        mean_degree = (
            float(_shared_users(by_item, items, sample).sum(axis=1).mean()) or 1.0
        )
        self._edges = _shared_users(by_item, items, items.new)
        if tables:
            self.features = item_features(merged.items, *tables, columns=columns).matrix
            is_old = np.isin(np.arange(items.after), items.old)
            content = content_edges(
                self.features, self.counts, mean_degree, _CONTENT_NEIGHBOURS, 1.0,
                _MIN_INTERACTIONS, items.new, is_old,
            )  # fmt: skip
            self._edges = sparse.csr_array(self._edges + content[:, items.old])
        if lonely := int(np.count_nonzero(self._edges.sum(axis=1) == 0)):
            warn(
                f"{lonely:,} new items share neither users nor content with another: their rows "
                f"are the mean of all items",
                4,
            )

    @property
    def shares(self) -> sparse.csr_array | None:
        """float32[before, after]: of which old items each new one is the mean."""
        if not len(self.items.new):
            return None
        edges = sparse.coo_array(self._edges)
        data = edges.data / self._edges.sum(axis=1)[edges.row]
        entries = data.astype(np.float32), (edges.col, self.items.new[edges.row])
        return sparse.csr_array(entries, shape=(self.items.before, self.items.after))

    def copy(self, old: Any, new: Any) -> None:
        """Give a model all weights of the old one, and rows to its new users and items."""
        same = old.name == new.name
        if not same or old.net.state_dict().keys() != new.net.state_dict().keys():
            raise ConfigError(
                f"{new.name} goes on from {article(new.name)} of the same settings only"
            )
        shapes = {
            name: tuple(tensor.shape) for name, tensor in new.net.state_dict().items()
        }
        weights = old.net.state_dict().items()
        new.net.load_state_dict(
            {k: self._tensor(k, value, shapes[k]) for k, value in weights}
        )

    def _tensor(self, name: str, old: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A tensor of the new network from that of the old one."""
        side = self._side(name, old, shape)
        if side is None:
            return old
        extended, kept = (
            torch.empty(shape, dtype=old.dtype),
            old.detach().cpu()[side.kept],
        )
        flat = kept.float().reshape(len(kept), -1).numpy()
        extended[side.old] = kept
        if not len(side.new):
            return extended
        if side is self.users:
            placement = TableExtension(self._matrix[side.old], flat, _ITEM_NEIGHBOURS)
            rows = placement.extend(self._matrix[side.new])
        else:
            rows = neighbour_rows(flat, self._edges, self._length)
        new = torch.from_numpy(rows).reshape(len(side.new), *shape[1:])
        extended[side.new] = new.to(old.dtype)
        return extended

    def _side(self, name: str, old: Tensor, shape: tuple[int, ...]) -> Side | None:
        """Whose rows a tensor holds; None for neither's."""
        sides = [side for side in (self.users, self.items) if side.changed and shape]
        fitting = [s for s in sides if (len(old), shape[0]) == (s.before, s.after)]
        if not fitting and tuple(old.shape) == shape:
            return None
        if len(fitting) == 2:
            fitting = [s for s in fitting if s.kind in name] or fitting
        if old.shape[1:] != shape[1:] or len(fitting) != 1:
            raise ConfigError(
                f"cannot extend {name!r} from {list(old.shape)} to {list(shape)}: "
                f"train the model again"
            )
        return fitting[0]

    def train(
        self, model: Trainable, steps: int, seed: int, progress: ProgressLike
    ) -> None:
        """Move the new rows and nothing else, on the histories of new users and of new items."""
        merged, config = self.merged, model.config
        new = np.isin(merged.user, self.users.new) | np.isin(
            merged.item, self.items.new
        )
        part = merged.select(np.isin(merged.user, merged.user[new]))
        if not len(part):
            raise ConfigError(
                "steps need interactions with the new items: give interactions="
            )
        nothing = merged.select(np.zeros(len(merged), bool))
        hooks, sides = [], [side for side in (self.users, self.items) if len(side.new)]
        parameters: Any = model.net.parameters()
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        for parameter in trainable:
            rows = parameter.shape[0] if parameter.dim() else 0
            side = next((side for side in sides if side.after == rows), None)
            if side is None:
                parameter.requires_grad_(False)
                continue
            mask = torch.zeros(rows, *[1] * (parameter.dim() - 1))
            mask[side.new] = 1
            mask = mask.to(parameter)
            hooks.append(
                parameter.register_hook(lambda gradient, mask=mask: gradient * mask)
            )
        model.config = config.replace(
            steps=steps, stop_at=0, passes=0.0, eval_every=0, weight_decay=0.0, freeze_steps=0,
            ema_decay=0.0, ema_share=0.0, cuda_graph=False,
        )  # fmt: skip
        model.tables = []  # the loop would make them trainable as a whole
        histories = Split(part, nothing, nothing, "new rows")
        train_loop(model, histories, seed, FitContext(progress=progress))
        for hook in hooks:
            hook.remove()
        for parameter in trainable:
            parameter.requires_grad_(True)
        model.config = config
        model.net.eval()


def item_tables(known: IdMap, items: Any, initial: Any) -> list[ItemTable]:
    """The table of new items, and the `initial` one of the fit where it still exists."""
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


def _shared_users(
    by_item: sparse.csr_array, items: Side, rows: NDArray[np.int64]
) -> sparse.csr_array:
    """csr[len(rows), before]: Jaccard with the nearest old items, the item itself left out."""
    own = np.full(items.after, -1)
    own[items.old] = np.arange(len(items.old))
    old = by_item[items.old]
    found = top_k_neighbours(
        by_item[rows], _USER_NEIGHBOURS, against=old, own=own[rows]
    )
    return sparse.csr_array(found.csr())


def _merged(
    old: Interactions, new: Interactions | None, listed: list[Any]
) -> Interactions:
    """All interactions, in one order, with the ids of both and of the listed items."""
    items = _more_ids(
        old.items, [*listed, *([] if new is None else new.items.ids.to_pylist())]
    )
    users = _more_ids(old.users, [] if new is None else new.users.ids.to_pylist())
    parts = [old] if new is None or not len(new) else [old, new]
    if old.time is not None and any(part.time is None for part in parts):
        raise DataError(
            "the new interactions have no times, and those of the model have"
        )
    both = (
        part.renumbered(
            _rows(users, part.users), _rows(items, part.items), users, items
        )
        for part in parts
    )
    rows = Interactions.joined(*both)
    return Interactions.from_arrays(
        rows.user, rows.item, rows.time, users, items, weight=rows.weight, goal=rows.goal,
        disliked=rows.disliked, duplicates="all" if old.repeats else "first",
    )  # fmt: skip


def _rows(ids: IdMap, part: IdMap) -> NDArray[np.int32]:
    return ids.encode(part.ids.cast(ids.ids.type))


def _more_ids(old: IdMap, new: list[Any]) -> IdMap:
    kind: Any = int if old.is_integer else str
    try:
        more = [kind(value) for value in new if value is not None]
    except ValueError as error:
        raise DataError(
            f"the model's {old.kind} ids are whole numbers: {error}"
        ) from None
    both = IdMap.from_values([*old.ids.to_pylist(), *more], old.kind)
    return IdMap(both.ids, old.kind, old.dropped, old.core)
