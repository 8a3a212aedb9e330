"""`grow`: rows for new items and users inside the tables of a trained model.

A new user is placed by people with shared items (`TableExtension`). A new item gets the direction
of the mean of its neighbours' trained rows: items with shared users and items with like content,
weighted as in `leporid_content`, so that content counts the more the less is known of who wanted
it. How its scores compare with those of other items is a matter of `newcomers`. All other numbers
of the network stay as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from leporid.data import IdMap, Interactions, ItemTable, Split, item_features, load
from leporid.errors import ConfigError, DataError, LeporidError, LeporidWarning
from leporid.graph import top_k_neighbours
from leporid.initializers import content_edges
from leporid.models.shared.newcomers import content_vectors, fit_newcomers
from leporid.models.shared.row_limits import neighbour_rows
from leporid.progress import ProgressLike, make_progress
from leporid.spectral import TableExtension
from leporid.training import train_loop

if TYPE_CHECKING:
    from leporid.models.shared.neural import NeuralRecommender

Model = TypeVar("Model", bound="NeuralRecommender")

_NEIGHBOURS, _USERS = 50, 100
"""Items with shared users that place a new item, and people who place a new user."""
_ALIKE, _ENOUGH = 5, 10
"""Items with like content that place a new item, and interactions that make them superfluous."""


def grow(
    model: Model,
    items: Any = None,
    interactions: Any = None,
    *,
    columns: tuple[str, ...] = (),
    length: float | None = None,
    exposure: float = 1.0,
    steps: int = 0,
    progress: bool | ProgressLike | None = None,
) -> Model:
    """What `NeuralRecommender.grow` does."""
    tables = _content_tables(model, items)
    new = None if interactions is None else _loaded(interactions)
    listed = [] if items is None else tables[0].ids.to_pylist()
    merged = _merged(model.known, new, listed)
    if (merged.n_users, merged.n_items) == (model.known.n_users, model.known.n_items):
        raise DataError("nothing is new: the model knows all of these items and users already")
    grown = type(model)(model.config)
    grown._known = grown._train = merged
    grown.fitting = model.fitting
    users = _Side.of(model.known.users, merged.users)
    sides = [users, _Side.of(model.known.items, merged.items)]
    place = _Placement(merged, users, sides[1], tables, columns, length)
    grown._adopt(model, lambda name, old, shape: _grown_tensor(name, old, shape, sides, place))
    grown.net.eval()
    if steps:
        with _only_new_rows(grown, sides, steps):
            train_loop(
                grown,
                _part_about(merged, sides),
                seed=model.fitting.seed,
                progress=make_progress(progress),
            )
        grown.net.eval()
        grown.weights_changed()
    earlier = model.newcomers and model.newcomers.among(sides[1].old, sides[1].now)
    if length is not None or not len(sides[1].new):
        grown.newcomers = earlier
        return grown
    newcomers = sides[1].new
    if earlier is not None:
        newcomers = np.union1d(newcomers, earlier.items.cpu().numpy())
    share = exposure * len(newcomers) / sides[1].now
    content, trust = place.content(), place.trust(newcomers)
    if earlier is not None and not tables:
        content = earlier.content.cpu().numpy()
    grown.newcomers = fit_newcomers(grown, newcomers, content, trust, share=share)
    return grown


@dataclass(frozen=True)
class _Side:
    """The rows of one side before and after."""

    kind: str
    before: int
    old: NDArray[np.int64]
    """int64[before]: where each old row is now."""
    new: NDArray[np.int64]
    """The rows that were not there, ascending."""

    @classmethod
    def of(cls, before: IdMap, after: IdMap) -> _Side:
        old = after.encode(before.ids).astype(np.int64)
        return cls(before.kind, len(before), old, np.setdiff1d(np.arange(len(after)), old))

    @property
    def now(self) -> int:
        return self.before + len(self.new)


class _Placement:
    """Places the new rows of a side in any table of that side."""

    def __init__(
        self,
        merged: Interactions,
        users: _Side,
        items: _Side,
        tables: list[ItemTable],
        columns: tuple[str, ...],
        length: float | None,
    ) -> None:
        self._users, self._length, self._features = users, length, None
        self._matrix = sparse.csr_array(merged.csr())
        self._counts = np.bincount(merged.item, minlength=merged.n_items)
        self._edges = sparse.csr_array((0, items.before))
        if not len(items.new):
            return
        people = sparse.csr_array(self._matrix.T.tocsr())
        sample = items.old[np.unique(np.linspace(0, items.before - 1, 512).astype(np.int64))]
        d_mean = float(_shared_users(people, items, sample).sum(axis=1).mean()) or 1.0
        edges = _shared_users(people, items, items.new)
        if tables:
            self._features = item_features(merged.items, *tables, columns=columns).matrix
            known = np.isin(np.arange(items.now), items.old)
            content = content_edges(
                self._features, self._counts, d_mean, _ALIKE, 1.0, _ENOUGH, items.new, known
            )
            edges = sparse.csr_array(edges + content[:, items.old])
        self._edges = edges
        if lonely := int(np.count_nonzero(edges.sum(axis=1) == 0)):
            warnings.warn(
                f"{lonely:,} new items share neither users nor content with another: they start "
                f"as an average item",
                LeporidWarning,
                stacklevel=4,
            )

    def rows(self, side: _Side, table: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32[new, d] for the trained rows float32[before, d]."""
        if side is self._users:
            fitted = TableExtension(self._matrix[side.old], table, _USERS)
            return fitted.extend(self._matrix[side.new])
        return neighbour_rows(table, self._edges, self._length)

    def content(self) -> NDArray[np.float32]:
        """float32[n_items, k]: what the tables say of every item."""
        if self._features is None:
            return np.zeros((len(self._counts), 0), np.float32)
        return content_vectors(self._features)

    def trust(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """What content counts for some items: nothing once people have told enough."""
        return np.maximum(0, 1 - self._counts[items] / _ENOUGH)


def _shared_users(
    people: sparse.csr_array, items: _Side, rows: NDArray[np.int64]
) -> sparse.csr_array:
    """csr[len(rows), before]: Jaccard with the nearest old items, oneself left out."""
    place = np.full(items.now, -1)
    place[items.old] = np.arange(items.before)
    found = top_k_neighbours(people[rows], _NEIGHBOURS, against=people[items.old], own=place[rows])
    return sparse.csr_array(found.csr())


def _grown_tensor(
    name: str, old: Tensor, shape: tuple[int, ...], sides: list[_Side], place: _Placement
) -> Tensor:
    """A tensor of the new network from that of the old one."""
    side = _side(name, old, shape, sides)
    if side is None:
        return old
    grown = torch.empty(shape, dtype=old.dtype)
    flat = old.detach().float().cpu().reshape(len(old), -1).numpy()
    grown[side.old] = old.cpu()
    rows = torch.from_numpy(place.rows(side, flat)).reshape(len(side.new), *shape[1:])
    grown[side.new] = rows.to(old.dtype)
    return grown


def _side(name: str, old: Tensor, shape: tuple[int, ...], sides: list[_Side]) -> _Side | None:
    """Whose rows a tensor holds; None where it does not grow."""
    if tuple(old.shape) == shape:
        return None
    fitting = [s for s in sides if (len(old), shape[0]) == (s.before, s.now)]
    if len(fitting) == 2:
        fitting = [s for s in fitting if s.kind in name] or fitting
    if old.shape[1:] != shape[1:] or len(fitting) != 1:
        raise ConfigError(
            f"cannot grow {name!r} from {list(old.shape)} to {list(shape)}: train the model again"
        )
    return fitting[0]


def _content_tables(model: NeuralRecommender, items: Any) -> list[ItemTable]:
    """The new table, and the one the model started from where it still exists."""
    if items is None:
        return []
    tables = [ItemTable.load(items)]
    start = (model.fitting.start or {}).get("parameters", {}).get("items")
    if start:
        try:
            tables.append(ItemTable.load(start))
        except LeporidError as error:
            warnings.warn(
                f"the table the model started from is not read: {error}",
                LeporidWarning,
                stacklevel=4,
            )
    if not any((table.places(model.known.items) >= 0).any() for table in tables):
        raise DataError(
            f"{tables[0].name} names none of the model's {len(model.known.items):,} items, so that "
            f"content has nothing to compare with: give a table of the old and the new items"
        )
    return tables


def _loaded(interactions: Any) -> Interactions:
    return interactions if isinstance(interactions, Interactions) else load(interactions)


def _merged(old: Interactions, new: Interactions | None, listed: list[Any]) -> Interactions:
    """All interactions, in one order, with the ids of both and of the listed items."""
    items = _more_ids(old.items, [*listed, *([] if new is None else new.items.ids.to_pylist())])
    users = _more_ids(old.users, [] if new is None else new.users.ids.to_pylist())
    parts = [old] if new is None or not len(new) else [old, new]
    if old.time is not None and any(part.time is None for part in parts):
        raise DataError("the new interactions have no times, and those of the model have")
    user = np.concatenate([_places(users, part.users)[part.user] for part in parts])
    item = np.concatenate([_places(items, part.items)[part.item] for part in parts])
    rows = Interactions.joined(*parts)
    return Interactions.from_arrays(
        user, item, rows.time, users, items, weight=rows.weight,
        duplicates="all" if old.repeats else "first",
    )  # fmt: skip


def _places(ids: IdMap, part: IdMap) -> NDArray[np.int32]:
    """Where the ids of a part are now, in whichever type it has them."""
    return ids.encode(part.ids.cast(ids.ids.type))


def _more_ids(old: IdMap, new: list[Any]) -> IdMap:
    kind: Any = int if old.is_integer else str
    try:
        more = [kind(value) for value in new if value is not None]
    except ValueError as error:
        raise DataError(f"the model's {old.kind} ids are whole numbers: {error}") from None
    both = IdMap.from_values([*old.ids.to_pylist(), *more], old.kind)
    return IdMap(both.ids, old.kind, old.dropped, old.core)


def _part_about(merged: Interactions, sides: list[_Side]) -> Split:
    """The histories of new users and of those who had a new item."""
    about = np.isin(merged.user, sides[0].new) | np.isin(merged.item, sides[1].new)
    part = merged.select(np.isin(merged.user, merged.user[about]))
    if not len(part):
        raise ConfigError("steps need interactions with the new items: give interactions=")
    nothing = merged.select(np.zeros(len(merged), bool))
    return Split(part, nothing, nothing, "new rows")


@contextmanager
def _only_new_rows(grown: NeuralRecommender, sides: list[_Side], steps: int) -> Iterator[None]:
    """Settings and hooks by which training moves the new rows and nothing else."""
    config, hooks = grown.config, []
    grown.config = config.replace(
        steps=steps, stop_at=0, passes=0.0, eval_every=0, weight_decay=0.0, freeze_steps=0,
        ema_decay=0.0, ema_share=0.0, cuda_graph=False, compile=False,
    )  # fmt: skip
    grown.tables = []  # the loop would make them trainable as a whole
    try:
        for parameter in grown.net.parameters():
            side = next((s for s in sides if s.now == len(parameter) and len(s.new)), None)
            if side is None:
                parameter.requires_grad_(False)
                continue
            mask = torch.zeros(len(parameter), *[1] * (parameter.dim() - 1))
            mask[side.new] = 1
            mask = mask.to(parameter)
            hooks.append(parameter.register_hook(lambda gradient, mask=mask: gradient * mask))
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for parameter in grown.net.parameters():
            parameter.requires_grad_(True)
        grown.config = config
