"""Embedding tables: what a network is built from, initial size, features, held rows.

`init_scale="auto"` goes by size: training moves an entry by about the learning rate per step, so an
initialisation that is too large for the steps a rare item gets is never left. A row that does not
occur in the training part would only be pushed away as a negative: where its initial embedding
comes from content it is held there, and then gets the mean direction of its nearest neighbours.

With a table about items the network reads E_i + sum_f B_if F_f of item i. Row i of B has length
one and holds the words, categories and numbers of the item (`leporid.data.item_features`); where
they weigh alike each is 1 / sqrt(count). F begins at zero. After training the sums are the rows.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode

from leporid.data import TABLES, Interactions, item_features
from leporid.embeddings import (
    Embedding,
    InitialEmbeddings,
    fill_isolated_rows,
    nearest_by_content,
)
from leporid.errors import ConfigError, DataError, LeporidError
from leporid.models.neural.layers import SparseProduct, apply, csr_tensor
from leporid.models.neural.settings import TrainingConfig

_RANDOM_SCALE = 0.01
"""Without initial embeddings the tables are drawn from N(0, 0.01^2), as in the paper."""
_NEIGHBOURS = 30
"""Rows that one which was never trained follows."""
_MAX_FEATURES = 10_000
"""Features that get an embedding: those that most rows have."""


@dataclass(frozen=True)
class HeldRows:
    """Rows of a table that keep their initial embeddings while the others are trained."""

    table: nn.Embedding
    initial: Tensor
    """float[n, d]: the whole table before training."""
    held: Tensor
    """bool[n]"""
    trained: Tensor
    """bool[n]: rows with an initial embedding that occur in the training part."""
    side: str
    """Whose rows: "users" or "items"."""

    @torch.no_grad()
    def restore(self) -> None:
        """Undo what an optimiser step did to them."""
        weight = next(self.table.parameters())  # without what features add
        weight.copy_(torch.where(self.held[:, None], self.initial, weight))

    def to(self, device: torch.device) -> Self:
        initial, held, trained = (
            t.to(device) for t in (self.initial, self.held, self.trained)
        )
        return type(self)(self.table, initial, held, trained, self.side)

    @torch.no_grad()
    def settle(self) -> None:
        """After training they follow the nearest rows that were trained."""
        held, trained = self.held.cpu().numpy(), self.trained.cpu().numpy()
        initial = self.initial.float().cpu().numpy()
        unit = initial / np.maximum(
            np.linalg.norm(initial, axis=1, keepdims=True), 1e-30
        )
        same = np.zeros(len(initial), np.int64)
        near = nearest_by_content(
            sparse.csr_array(unit), np.flatnonzero(held), _NEIGHBOURS, same, trained
        )
        weight = self.table.weight
        rows = neighbour_rows(weight.float().cpu().numpy()[trained], near[:, trained])
        weight[self.held] = torch.from_numpy(rows).to(weight)


@dataclass
class BuildContext:
    """What a network is built from."""

    train: Interactions
    dim: int
    init: InitialEmbeddings | None = None
    """As they go into the tables: standardised and scaled already."""
    tables: list[tuple[nn.Embedding, Tensor, str]] = field(default_factory=list)
    """Every table made here, with the vectors it was given and its side."""
    held: list[HeldRows] = field(default_factory=list)
    """Of the tables with rows that training must not move."""
    isolated: dict[str, int] = field(default_factory=dict)
    """Rows of each side without an initial embedding, which are drawn."""
    sketch: bool = False
    """Whether only shapes are asked for, on the device "meta"."""

    def user_table(self) -> nn.Embedding:
        """A trainable float32[n_users, D] table that holds the initial user embeddings."""
        return self._table(
            "users", self.train.n_users, self.init.users if self.init else None
        )

    def item_table(self) -> nn.Embedding:
        """A trainable float32[n_items, D] table that holds the initial item embeddings."""
        return self._table(
            "items", self.train.n_items, self.init.items if self.init else None
        )

    def _table(self, side: str, rows: int, initial: Embedding | None) -> nn.Embedding:
        if self.sketch:
            return nn.Embedding(rows, self.dim, _weight=torch.empty(rows, self.dim))
        if initial is None:
            vectors = torch.randn(rows, self.dim) * _RANDOM_SCALE
        elif initial.vectors.shape != (rows, self.dim):
            raise ConfigError(
                f"the initial embeddings have shape {list(initial.vectors.shape)}, the model needs "
                f"{[rows, self.dim]}: fit the initialiser on this training part with "
                f"dim={self.dim}"
            )
        else:
            vectors = torch.from_numpy(fill_isolated_rows(initial, self._draw))
            if initial.isolated.any():
                self.isolated[side] = int(initial.isolated.sum())
        table = nn.Embedding(rows, self.dim, _weight=vectors)
        vectors = vectors.clone()
        self.tables.append((table, vectors, side))
        if initial is not None and initial.provenance.get("content"):
            touched = self.train.user if side == "users" else self.train.item
            given = ~torch.from_numpy(initial.isolated)
            trained = torch.from_numpy(np.bincount(touched, minlength=rows) > 0)
            if (given & trained).any() and (given & ~trained).any():
                self.held.append(
                    HeldRows(table, vectors, given & ~trained, given & trained, side)
                )
        return table

    def _draw(self, rows: int) -> NDArray[np.float32]:
        """float32[rows, D]: small random numbers, of torch's generator."""
        return (torch.randn(rows, self.dim) * _RANDOM_SCALE).numpy()

    def add_features(
        self, config: TrainingConfig, tables: Mapping[str, Any] | None
    ) -> None:
        """Make tables sums, by the files of the settings, or by tables in memory instead of them.

        Those who read a table see the sums; `fold_features` makes them its rows.
        """
        files = ("items", config.item_table), ("users", config.user_table)
        for side, file in ((side, file) for side, file in files if file):
            own = [table for table, _, whose in self.tables if whose == side]
            if not own:
                raise ConfigError(
                    f"the model has no table of {side}: leave {side}= out"
                )
            ids = self.train.items if side == "items" else self.train.users
            described = TABLES[side].load((tables or {}).get(side, file))
            features = item_features(ids, described).matrix
            rows = np.bincount(features.indices, minlength=features.shape[1])
            common = np.sort(np.argsort(-rows, kind="stable")[:_MAX_FEATURES])
            for table in own:
                added = FeatureSum(sparse.csr_array(features[:, common]), self.dim)
                parametrize.register_parametrization(table, "weight", added)

    def fold_features(self) -> None:
        for table, *_ in self.tables:
            if parametrize.is_parametrized(table):
                parametrize.remove_parametrizations(table, "weight")


class FeatureSum(nn.Module):
    """float32[n, D] -> the same: adds to each row the embeddings of its features."""

    matrix: Tensor
    transposed: Tensor

    def __init__(self, features: sparse.csr_array, dim: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(features.shape[1], dim))
        for name, csr in (("matrix", features), ("transposed", features.T.tocsr())):
            indptr, indices, values = map(
                torch.from_numpy, (csr.indptr, csr.indices, csr.data)
            )
            tensor = csr_tensor(indptr.int(), indices.int(), values, csr.shape[1])
            self.register_buffer(name, tensor, persistent=False)
        # A checkpoint holds it: a run is not resumed with another table.
        digest = [
            zlib.crc32(array)
            for array in (features.indptr, features.indices, features.data)
        ]
        self.register_buffer("digest", torch.tensor(digest))

    def forward(self, table: Tensor) -> Tensor:
        return table + apply(SparseProduct, self.matrix, self.transposed, self.rows)


class _NothingDrawn(TorchFunctionMode):
    """Leaves out random numbers: "meta" tensors hold none, yet torch prepares a lot."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def sketched(
    build: Callable[[BuildContext], nn.Module], train: Interactions, dim: int
) -> nn.Module | None:
    """The network without memory for its weights; None where `build` looks into them."""
    try:
        with torch.device("meta"), _NothingDrawn():
            return build(BuildContext(train, dim, sketch=True))
    except RuntimeError:
        return None
    except LeporidError:
        raise
    except (
        ArithmeticError,
        AssertionError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"its settings do not give a network: {reason}") from None


def movement(
    tables: Sequence[nn.Embedding], initial: Sequence[Tensor]
) -> dict[str, Any]:
    """The size of the initial embeddings of each table, and how far it moved relative to it."""
    moved = [
        t.weight.detach().float().cpu() - b
        for t, b in zip(tables, initial, strict=True)
    ]
    lengths = zip(moved, initial, strict=True)
    return {
        "start_size": [float(b.square().mean().sqrt()) for b in initial],
        "drift": [float(m.norm() / b.norm().clamp(min=1e-12)) for m, b in lengths],
    }


def neighbour_rows(
    table: NDArray[np.float32], edges: sparse.csr_array, length: float | None = 1.0
) -> NDArray[np.float32]:
    """float32[m, d]: the mean of each row's neighbours by weights csr[m, n], of a usual length.

    `length` is in units of the median length of the table's rows; None is half way (geometrically)
    between that and the mean's own. Without neighbours a row is the mean of all.
    """
    total = np.asarray(edges.sum(axis=1)).reshape(-1, 1)
    mean = np.where(
        total > 0, edges @ table / np.where(total > 0, total, 1), table.mean(axis=0)
    )
    if table.shape[1] > 1:
        own = np.linalg.norm(mean, axis=1, keepdims=True)
        usual = np.median(np.linalg.norm(table, axis=1))
        scale = usual / np.maximum(own, 1e-30)
        scale = np.sqrt(scale) if length is None else scale * length
        mean = mean * np.where((total > 0) & (own > 0), scale, 1)
    return np.ascontiguousarray(mean, dtype=np.float32)
