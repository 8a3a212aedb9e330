"""`Rules`: what lists must and should contain, beside the model's scores.

`Rules.bind` turns them into arrays over the items of a model; `BoundRules.top_k` then ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import sparse

from leporid.errors import ConfigError, DataError, shortened
from leporid.foundation import (
    BOUNDS,
    Config,
    described,
    read_object,
    read_toml,
    setting,
)
from leporid.ranking.bound_rules import BoundRules
from leporid.ranking.item_columns import Condition, ItemColumns, Numbers
from leporid.ranking.top_k import Mask

_MAX_ENTRIES = 20
"""Entries of a rule: each of them is compared with every item."""
_MAX_NAME_LENGTH = 200
_MAX_RANK = 10_000


@dataclass(frozen=True, kw_only=True)
class Rules(Config):
    """Rules for lists. A condition is a value, a list of values, or a range.

    Ranges are written as `{"at_least": 1990, "below": 2000}` (`at_least`, `above`, `at_most`,
    `below`). A cell that lists several values ("Drama|War") has each of them. An item without a
    value meets no condition.
    """

    only: dict[str, Condition] = field(default_factory=dict)
    """Column to condition: items must meet all of them."""
    exclude: dict[str, Condition] = field(default_factory=dict)
    """Column to condition: items must meet none of them."""
    max_per: dict[str, int] = field(default_factory=dict)
    """Column to the number of items with the same value that a list may have."""
    max_per_rarest: dict[str, int] = field(default_factory=dict)
    """Column to a number of items as in `max_per`, where an item counts once, under the value of
    its cell that fewest items have: the most specific one of "Clothing|Shoes|Sneakers"."""
    diversity: float = setting(0.0, at_least=0, at_most=1)
    """d of maximal marginal relevance: each next item has the largest (1 - d) r - d c, r its score
    scaled to [0, 1] over the candidates, c its largest cosine to an item above it, at least 0."""
    boost: dict[str, float] = field(default_factory=dict)
    """Column to factor: adds factor x standard deviation of the candidates' scores x the column,
    standardised over all items (0 where missing). "recency" is the time of the first interaction
    where the table has no such column."""
    slots: dict[int, str | int] = field(default_factory=dict)
    """Rank to the id of the item that is fixed there. Users who have the item do not get it."""

    @classmethod
    def read(cls, path: str | Path) -> Rules:
        """Read the rules of a .toml or .json file."""
        if not isinstance(path, str | Path):
            raise ConfigError(f"rules are read from a path, not {described(path)}")
        suffix = Path(path).suffix
        if suffix == ".toml":
            return cls.from_dict(read_toml(path))
        if suffix == ".json":
            return cls.from_dict(read_object(path))
        raise ConfigError(f"{path}: rules are read from a .toml or a .json file")

    def __post_init__(self) -> None:
        """Check what is inside the tables; ranks, text in files, become numbers."""
        super().__post_init__()
        conditions = f"a value, a list, or numbers for {', '.join(BOUNDS)}"
        counts = f"a whole number up to {_MAX_RANK}"
        _check_entries("only", self.only, _is_condition, conditions)
        _check_entries("exclude", self.exclude, _is_condition, conditions)
        _check_entries("max_per", self.max_per, _is_count, counts)
        _check_entries("max_per_rarest", self.max_per_rarest, _is_count, counts)
        _check_entries("boost", self.boost, _is_factor, "a number within -100 .. 100")
        _check_entries("slots", self.slots, _is_item_id, "the id of an item")
        object.__setattr__(self, "slots", _checked_slots(self.slots))

    def alone(self) -> dict[str, Rules]:
        """Return each kind of rule that there is, without the others."""
        return {
            name: Rules.from_dict({name: value})
            for name, value in vars(self).items()
            if value
        }

    def bind(self, item_columns: ItemColumns) -> BoundRules:
        """Return these rules as arrays: `rules.bind(model.item_columns(items))`.

        A column that the table does not have is an `UnknownNameError`.
        """
        items = item_columns.known.items
        allowed = self._allowed(item_columns)
        slots = {rank: items.index(self.slots[rank]) for rank in sorted(self.slots)}
        for rank, item in slots.items():
            if not allowed[item]:
                raise ConfigError(
                    f"slots.{rank} fixes an item that `only` or `exclude` rules out"
                )
        boost = np.zeros(len(items))
        for column, factor in self.boost.items():
            boost += factor * _standardised(item_columns.numbers(column))
        capped = [item_columns.column(name).labels for name in self.max_per]
        capped += [item_columns.column(name).rarest for name in self.max_per_rarest]
        limits = [*self.max_per.values(), *self.max_per_rarest.values()]
        n_values = np.array([labels.shape[1] for labels in capped], np.int64)
        caps = np.repeat(np.array(limits, np.int32), n_values)
        no_labels = sparse.csr_array((len(items), 0), dtype=np.float32)
        vectors = np.zeros((0, 0), np.float32)
        if self.diversity:
            vectors = item_columns.vectors
        return BoundRules(
            items=items,
            allowed=allowed,
            boost=boost,
            labels=sparse.hstack([no_labels, *capped], "csr"),
            caps=caps,
            diversity=self.diversity,
            vectors=vectors,
            slots=slots,
            reorders=bool(self.boost or len(caps) or self.diversity),
        )

    def _allowed(self, item_columns: ItemColumns) -> Mask:
        """Return bool[n_items]: the items that `only` and `exclude` leave."""
        allowed = np.ones(len(item_columns.known.items), np.bool_)
        for column, condition in self.only.items():
            allowed &= item_columns.meeting(column, condition)
        for column, condition in self.exclude.items():
            allowed &= ~item_columns.meeting(column, condition)
        if not allowed.any():
            raise DataError("no item is left: the rules exclude each other")
        return allowed


def _check_entries(
    name: str,
    entries: Mapping[str, object] | Mapping[int, object],
    is_valid: Callable[[object], bool],
    meant: str,
) -> None:
    """Refuse a rule with too many entries, too long a name, or a value of another kind."""
    if len(entries) > _MAX_ENTRIES or any(
        len(str(key)) > _MAX_NAME_LENGTH for key in entries
    ):
        raise ConfigError(
            f"{name} has more than {_MAX_ENTRIES} entries, or too long a name"
        )
    for key, value in entries.items():
        if not is_valid(value):
            shown = shortened(value, 60)
            raise ConfigError(f"{name}.{key} must be {meant}, not {shown!r}")


def _checked_slots(slots: Mapping[int, str | int]) -> dict[int, str | int]:
    """Return slots with ranks as numbers; a rank or an item that is there twice is refused."""
    item_by_rank: dict[int, str | int] = {}
    for key, item in slots.items():
        rank = int(key) if str(key).isdecimal() else 0
        item_by_rank[rank] = item
    if not all(1 <= rank <= _MAX_RANK for rank in item_by_rank):
        raise ConfigError(f"slots are ranks from 1 to {_MAX_RANK}, not {list(slots)}")
    items = {str(item) for item in item_by_rank.values()}
    if len(items) < len(slots):
        raise ConfigError("slots must have each rank and each item once")
    return item_by_rank


def _is_number(
    value: object,
    most: float = 1e300,
) -> bool:
    return isinstance(value, int | float) and abs(value) <= most


def _is_factor(value: object) -> bool:
    return _is_number(value, 100)


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= _MAX_RANK


def _is_item_id(value: object) -> bool:
    return type(value) in (int, str)


def _is_condition(value: object) -> bool:
    if isinstance(value, Mapping):
        is_range = len(value) > 0 and value.keys() <= BOUNDS.keys()
        return is_range and all(map(_is_number, value.values()))
    values = value if isinstance(value, list | tuple) else [value]
    return len(values) > 0 and all(
        isinstance(entry, str) or _is_number(entry) for entry in values
    )


def _standardised(numbers: Numbers) -> Numbers:
    """Scale to mean 0 and deviation 1 over the items that have a value; 0 for the others."""
    present = np.ma.masked_invalid(numbers)
    deviation = present.std() or np.inf
    return np.asarray(((present - present.mean()) / deviation).filled(0))
