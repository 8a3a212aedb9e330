"""`Rules`: what lists must and should contain, beside the model's scores.

`Catalogue` is what they read of the items of a model, each column once. `Rules.bind` turns them
into arrays; `BoundRules.top_k` then ranks as `masked_top_k` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numba import prange
from numpy.typing import NDArray
from scipy import sparse

from leporid.arguments import described
from leporid.artifacts import read_object, read_toml
from leporid.config import BOUNDS, Config, setting
from leporid.data import IdMap, Interactions, ItemTable, Sequences
from leporid.errors import ConfigError, DataError, UnknownNameError, article, shortened
from leporid.kernel import kernel
from leporid.ranking.top_k import TopK, masked_top_k

Floats: TypeAlias = NDArray[np.float32]
_POOL, _POOL_PER_ITEM = 200, 10
"""Lists of n items are chosen from the best max(200, 10 n) that are allowed."""
_MOST, _LONGEST, _RANKS = 20, 200, 10_000
"""Entries of a rule, since each is compared with every item; characters of a name; ranks."""


@dataclass(frozen=True, kw_only=True)
class Rules(Config):
    """Rules for lists. A condition is a value, a list of values, or a range.

    Ranges are written as `{"at_least": 1990, "below": 2000}` (`at_least`, `above`, `at_most`,
    `below`). A cell that lists several values ("Drama|War") has each of them. An item without a
    value meets no condition.
    """

    only: dict[str, Any] = field(default_factory=dict)
    """Column to condition: items must meet all of them."""
    exclude: dict[str, Any] = field(default_factory=dict)
    """Column to condition: items must meet none of them."""
    max_per: dict[str, Any] = field(default_factory=dict)
    """Column to the number of items with the same value that a list may have."""
    max_per_rarest: dict[str, Any] = field(default_factory=dict)
    """The same where an item counts once, under the value of its cell that fewest items have: the
    most specific one of "Clothing|Shoes|Sneakers"."""
    diversity: float = setting(0.0, at_least=0, at_most=1)
    """d of maximal marginal relevance: each next item has the largest (1 - d) r - d c, r its score
    scaled to [0, 1] over the candidates, c its largest cosine to an item above it, at least 0."""
    boost: dict[str, Any] = field(default_factory=dict)
    """Column to factor: adds factor x standard deviation of the candidates' scores x the column,
    standardised over all items (0 where missing). "recency" is the time of the first interaction
    where the table has no such column."""
    slots: dict[Any, Any] = field(default_factory=dict)
    """Rank to the id of the item that is fixed there. Users who have the item do not get it."""

    @classmethod
    def read(cls, path: str | Path) -> Rules:
        """From a .toml or .json file."""
        if not isinstance(path, str | Path):
            raise ConfigError(f"rules are read from a path, not {described(path)}")
        if Path(path).suffix not in (".toml", ".json"):
            raise ConfigError(f"{path}: rules are read from a .toml or a .json file")
        return cls.from_dict(
            (read_toml if Path(path).suffix == ".toml" else read_object)(path)
        )

    def validate(self) -> None:
        """Check what is inside the tables; ranks, text in files, become numbers."""
        for name, (is_sound, meant) in _ENTRIES.items():
            own = getattr(self, name)
            if len(own) > _MOST or any(len(str(key)) > _LONGEST for key in own):
                raise ConfigError(
                    f"{name} has more than {_MOST} entries, or too long a name"
                )
            for key, value in own.items():
                if not is_sound(value):
                    shown = shortened(value, 60)
                    raise ConfigError(f"{name}.{key} must be {meant}, not {shown!r}")
        slots = {
            int(r) if str(r).isdecimal() else 0: item for r, item in self.slots.items()
        }
        if not all(1 <= rank <= _RANKS for rank in slots):
            raise ConfigError(
                f"slots are ranks from 1 to {_RANKS}, not {list(self.slots)}"
            )
        if len(set(map(str, slots.values()))) < len(self.slots):
            raise ConfigError("slots must have each rank and each item once")
        object.__setattr__(self, "slots", slots)

    def alone(self) -> dict[str, Rules]:
        """Each kind of rule that there is, without the others."""
        return {
            name: Rules(**{name: value}) for name, value in vars(self).items() if value
        }

    def bind(self, catalogue: Catalogue) -> BoundRules:
        """The arrays of these rules for the items of a model: `rules.bind(model.catalogue(items))`.

        A column that the table does not have is an `UnknownNameError`.
        """
        items, allowed = catalogue.known.items, self._allowed(catalogue)
        slots = {rank: items.index(self.slots[rank]) for rank in sorted(self.slots)}
        for rank, item in slots.items():
            if not allowed[item]:
                raise ConfigError(
                    f"slots.{rank} fixes an item that `only` or `exclude` rules out"
                )
        boost = np.zeros(len(items))
        for column, factor in self.boost.items():
            boost += factor * _standardised(catalogue.numbers(column))
        parts = [sparse.csr_array((len(items), 0), dtype=np.float32)]
        parts += [catalogue.column(name).labels for name in self.max_per]
        parts += [catalogue.column(name).rarest for name in self.max_per_rarest]
        most = [0, *self.max_per.values(), *self.max_per_rarest.values()]
        caps = np.repeat(np.asarray(most, np.int32), [part.shape[1] for part in parts])
        labels = sparse.hstack(parts, "csr")
        vectors = catalogue.vectors if self.diversity else np.zeros((0, 0), np.float32)
        return BoundRules(self, items, allowed, boost, labels, caps, vectors, slots)

    def _allowed(self, catalogue: Catalogue) -> NDArray[np.bool_]:
        allowed = np.ones(len(catalogue.known.items), np.bool_)
        for column, condition in self.only.items():
            allowed &= catalogue.meeting(column, condition)
        for column, condition in self.exclude.items():
            allowed &= ~catalogue.meeting(column, condition)
        if not allowed.any():
            raise DataError("no item is left: the rules exclude each other")
        return allowed


@dataclass(frozen=True, eq=False)
class BoundRules:
    """Rules as arrays over the items of one model."""

    rules: Rules
    items: IdMap
    allowed: NDArray[np.bool_]
    """bool[n_items]."""
    boost: NDArray[np.float64]
    """float64[n_items]: factors times standardised columns."""
    labels: sparse.csr_array
    """float32[n_items, n_values]: the values that are capped."""
    caps: NDArray[np.int32]
    """int32[n_values]: how often each may occur in a list."""
    vectors: Floats
    """float32[n_items, d] of length 1; empty without diversity."""
    slots: dict[int, int]
    """Rank to item index, ascending."""

    def work(self, n: int) -> int:
        """Operations that a list of `n` items takes, roughly."""
        return self._pool(n) * (20 + n * (4 + int(self.vectors.shape[1])))

    def check_n(self, n: int) -> None:
        """Refuse lists too short for a slot."""
        if self.slots and max(self.slots) > n:
            raise ConfigError(
                f"slots.{max(self.slots)} is beyond the list of {n} items: raise n"
            )

    def top_k(
        self,
        scores: Floats,
        n: int,
        *,
        seen: Sequences | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> TopK:
        """As `masked_top_k`, under the rules. The scores stay the model's, in the rules' order.

        A list is shorter than n where the best max(200, 10 n) items have no more within `max_per`.
        """
        self.check_n(n)
        scores = np.ascontiguousarray(scores, np.float32)
        mask = self.allowed & (True if allowed is None else allowed)
        fixed = {rank: item for rank, item in self.slots.items() if mask[item]}
        mask[list(fixed.values())] = False
        if self.rules.boost or len(self.caps) or self.rules.diversity:
            pool = masked_top_k(scores, self._pool(n), seen=seen, allowed=mask)
            top = self._chosen(pool, n)
        else:
            top = masked_top_k(scores, n, seen=seen, allowed=mask)
        for rank, item in fixed.items():
            _insert(top, rank, item, scores[:, item], seen)
        return top

    def _pool(self, n: int) -> int:
        return max(n, min(len(self.items), max(_POOL, _POOL_PER_ITEM * n)))

    def _chosen(self, pool: TopK, n: int) -> TopK:
        """The `n` best of each pool, one after the other."""
        value = np.ma.masked_array(pool.scores.astype(np.float64), pool.items < 0)
        value = value + value.std(axis=1, keepdims=True) * self.boost[pool.items]
        value = value - value.min(axis=1, keepdims=True)
        value = (value / np.maximum(value.max(axis=1, keepdims=True), 1e-30)).filled(0)
        items = np.full((len(value), n), -1, np.int32)
        lists = items, np.full(items.shape, -np.inf, np.float32)
        labels = self.labels.indptr, self.labels.indices, self.caps
        pools = pool.items, pool.scores
        _choose(pools, value, labels, self.vectors, self.rules.diversity, lists)
        return TopK(*lists)


@kernel(parallel=True)
def _choose(
    pools: Any, value: Any, labels: Any, vectors: Floats, diversity: float, lists: Any
) -> None:
    """Fill the lists (items, scores) from the pools; value float64[m, p] is within [0, 1]."""
    indptr, codes, caps = labels
    for user in prange(len(value)):
        pool, chosen = pools[0][user], lists[0][user]
        used, near, closed = (
            np.zeros(len(caps), np.int32),
            np.zeros(len(pool)),
            pool < 0,
        )
        for rank in range(len(chosen)):
            best, most = -1, -np.inf
            for column in range(len(pool)):
                if closed[column]:
                    continue
                for code in codes[indptr[pool[column]] : indptr[pool[column] + 1]]:
                    closed[column] |= used[code] >= caps[code]
                worth = (1 - diversity) * value[user, column] - diversity * near[column]
                if not closed[column] and worth > most:
                    best, most = column, worth
            if best < 0:
                break
            item, closed[best] = pool[best], True
            chosen[rank], lists[1][user, rank] = item, pools[1][user, best]
            for code in codes[indptr[item] : indptr[item + 1]]:
                used[code] += 1
            for column in range(len(pool) if diversity > 0 else 0):
                if not closed[column]:
                    cosine = np.dot(vectors[item], vectors[pool[column]])
                    near[column] = max(near[column], cosine)


def _insert(
    top: TopK, rank: int, item: int, scores: Floats, seen: Sequences | None
) -> None:
    """Put an item at a rank of every list whose user may get it; a short list has no gap."""
    may = np.isfinite(scores)
    if seen is not None:
        may &= [item not in seen.of(row) for row in range(len(seen))]
    at = np.minimum(rank - 1, (top.items >= 0).sum(axis=1))
    for row in np.flatnonzero(may):
        for values, new in ((top.items[row], item), (top.scores[row], scores[row])):
            values[at[row] + 1 :] = values[at[row] : -1].copy()
            values[at[row]] = new


def _is_number(value: Any, most: float = 1e300) -> bool:
    return isinstance(value, int | float) and abs(value) <= most


def _is_condition(value: Any) -> bool:
    if isinstance(value, Mapping):
        known = value.keys() <= BOUNDS.keys()
        return len(value) > 0 and known and all(map(_is_number, value.values()))
    values = value if isinstance(value, list | tuple) else [value]
    return len(values) > 0 and all(isinstance(v, str) or _is_number(v) for v in values)


_CONDITION = _is_condition, f"a value, a list, or numbers for {', '.join(BOUNDS)}"
_COUNT = (
    (lambda v: type(v) is int and 1 <= v <= _RANKS),
    f"a whole number up to {_RANKS}",
)
_ENTRIES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "only": _CONDITION,
    "exclude": _CONDITION,
    "max_per": _COUNT,
    "max_per_rarest": _COUNT,
    "boost": (lambda v: _is_number(v, 100), "a number within -100 .. 100"),
    "slots": (lambda v: type(v) in (int, str), "the id of an item"),
}
"""What the values of each table must be."""


def _standardised(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean 0 and standard deviation 1 over the items that have a value; 0 for the others."""
    there = np.ma.masked_invalid(numbers)
    return np.asarray(((there - there.mean()) / (there.std() or np.inf)).filled(0))


class Column(NamedTuple):
    """A column of the item table, by item index."""

    numbers: NDArray[np.float64] | None
    """float64[n_items], NaN where missing, seconds since 1970 for dates; None for text."""
    names: dict[str, int]
    """Code of each value as text in lower case: of cells, and of their parts in "Drama|War"."""
    labels: sparse.csr_array
    """float32[n_items, n_values]: 1 where an item has a value."""
    rarest: sparse.csr_array
    """The same with one value per item: of the parts of its cell the one that fewest items have."""


class Catalogue:
    """The columns of an item table, item vectors and first times, by item index.

    Parameters
    ----------
    known : what the model was fitted with: the ids and times of its items
    table : as `ItemTable.load` takes it; None where the rules name no column
    vectors : gives float32[n_items, d], whose cosines are the similarity for `diversity`
    """

    def __init__(
        self, known: Interactions, table: Any, vectors: Callable[[], Floats]
    ) -> None:
        self.known, self._make_vectors = known, vectors
        self.table = None if table is None else ItemTable.load(table)
        self._columns: dict[str, Column] = {}

    @cached_property
    def vectors(self) -> Floats:
        """float32[n_items, d] of length 1, or 0 for an item without a vector."""
        vectors = self._make_vectors()
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.ascontiguousarray(vectors / np.maximum(length, 1e-12), np.float32)

    def column(self, name: str) -> Column:
        """A column by its name in any spelling, "genre" for "genres" too."""
        if self.table is None:
            raise DataError(
                f"the rule for {name!r} needs a table of items (--items FILE)"
            )
        spelled = "".join(name.split())
        found = (
            name if name in self.table.raw else self.table.find(f"{spelled} {spelled}s")
        )
        if found is None:
            raise UnknownNameError("column of the item table", name, self.table.raw)
        if found not in self._columns:
            self._columns[found] = _read(self.table, found, self._rows)
        return self._columns[found]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """float64[n_items]: `Column.numbers`; "recency" may be the first time of each item."""
        if name == "recency" and (self.table is None or self.table.find(name) is None):
            return self._first_times
        numbers = self.column(name).numbers
        if numbers is None:
            raise ConfigError(
                f"the column {name!r} holds text, and the rule needs numbers"
            )
        return numbers

    def meeting(self, name: str, condition: Any) -> NDArray[np.bool_]:
        """bool[n_items]: the items that meet a condition of `Rules`."""
        if isinstance(condition, Mapping):
            numbers = self.numbers(name)
            met = [
                BOUNDS[bound][1](numbers, limit) for bound, limit in condition.items()
            ]
            return np.asarray(np.logical_and.reduce(met))
        values = condition if isinstance(condition, list | tuple) else [condition]
        column = self.column(name)
        if column.numbers is not None and not any(
            isinstance(value, str) for value in values
        ):
            return np.isin(column.numbers, np.asarray(values, np.float64))
        asked = [
            column.names.get(str(value).casefold().strip(), -1) for value in values
        ]
        found = np.asarray(
            column.labels @ np.isin(np.arange(len(column.names)), asked) > 0
        )
        if not found.any():
            known = ", ".join([*column.names][:10]) or "none"
            raise DataError(
                f"no item has such {article(name)}: {values[0]!r}; there are {known}"
            )
        return found

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """int64[n_items]: each item's row of the table, -1 where it has none."""
        assert self.table is not None
        rows, places = (
            np.full(len(self.known.items), -1),
            self.table.places(self.known.items),
        )
        rows[places[places >= 0]] = np.flatnonzero(places >= 0)
        if (rows < 0).all():
            raise DataError(
                f"the item table has none of the {len(rows):,} items: compare the ids"
            )
        return rows

    @cached_property
    def _first_times(self) -> NDArray[np.float64]:
        if self.known.time is None:
            raise DataError(
                "a boost by recency needs times in the log, or a column of that name"
            )
        first = np.full(self.known.n_items, np.inf)
        np.minimum.at(first, self.known.item, self.known.time)
        return np.where(np.isinf(first), np.nan, first)


def _read(table: ItemTable, name: str, rows: NDArray[np.int64]) -> Column:
    cells, numbers = table.columns[name].take(pa.array(rows, mask=rows < 0)), None
    if pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type):
        cells = cells.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    if pa.types.is_primitive(cells.type) or pa.types.is_decimal(cells.type):
        numbers = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    texts, names, listed = table.texts(name), dict[str, int](), list[list[int]]()
    for row in rows.tolist():
        text = texts[row].strip() if row >= 0 else ""
        parts = dict.fromkeys(part.casefold() for part in (text, *table.genres(text)))
        listed.append([names.setdefault(part, len(names)) for part in parts if part])
    count = Counter(code for codes in listed for code in codes)
    # Of several the first is the whole cell.
    rarest = [sorted(codes[1:] or codes, key=count.__getitem__)[:1] for codes in listed]
    return Column(
        numbers, names, *(_labels(codes, len(names)) for codes in (listed, rarest))
    )


def _labels(listed: list[list[int]], n_values: int) -> sparse.csr_array:
    """float32[len(listed), n_values]: 1 where a row lists a code."""
    codes, ends = (
        [code for row in listed for code in row],
        np.cumsum([0, *map(len, listed)]),
    )
    ones = np.ones(len(codes), np.float32)
    return sparse.csr_array((ones, codes, ends), shape=(len(listed), n_values))
