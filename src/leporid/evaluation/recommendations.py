"""Recommendations that came from elsewhere: a file with user, item and score.

They are judged as given. The order is by score, highest first, ties to the smaller item index
(unknown items after known ones); without a score column, the order of the rows in the file.
- An unknown user is an error: the lists were made for other data.
- An unknown item keeps its place in the list but cannot be a hit; they are counted in a warning.
- A user with test items but without a list gets an empty one; they are counted in a warning.
- The same item twice in a list is an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from leporid.data import IdMap, Split
from leporid.errors import DataError, LeporidWarning, UnknownIdError, UnknownNameError
from leporid.evaluation.ranking import TopK


@dataclass(frozen=True, eq=False)
class Recommendations:
    """Rows of (user, item, score), external ids; the rules are in the module's docstring."""

    user: pa.Array
    item: pa.Array
    """Text or integers."""
    score: NDArray[np.float64] | None
    """float64[n], higher is better; None where the order of the rows is the order of the list."""
    source: str = "the recommendations"
    """Where they came from, for messages."""

    def __len__(self) -> int:
        return len(self.user)

    @classmethod
    def read(
        cls, path: str | Path, user: str = "user", item: str = "item", score: str = "score"
    ) -> Recommendations:
        """Read a CSV or parquet file with these columns; the score column may be missing."""
        table = _read_table(Path(path), (user, item))
        for name in (user, item):
            if name not in table.column_names:
                raise UnknownNameError(f"column of {path}:", name, table.column_names)
        for name in {user, item, score}.intersection(table.column_names):
            if table[name].null_count:
                row = int(np.argmax(table[name].is_null().to_numpy()))
                raise DataError(f"{path}, column {name!r}: the value in row {row + 1} is missing")
        users, items = (table[name].combine_chunks() for name in (user, item))
        if score not in table.column_names:
            return cls(users, items, None, str(path))
        try:
            scores = table[score].cast(pa.float64()).to_numpy()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"{path}, column {score!r}: {error}") from None
        if np.isnan(scores).any():
            raise DataError(f"{path}, row {np.argmax(np.isnan(scores)) + 1}: the score is NaN")
        return cls(users, items, scores, str(path))

    def lists(self, split: Split, users: NDArray[np.int32], n: int) -> TopK:
        """The first `n` recommendations of user indices; -1 and -inf fill short lists."""
        row_user = _encode(self.user, split.users)
        if strangers := pc.unique(self.user.filter(pa.array(row_user < 0))).to_pylist():
            raise UnknownIdError(
                f"{self.source} has {len(strangers)} users that are not in the data, the first is "
                f"{strangers[0]!r}: evaluate on the data and the core the lists were made for"
            )
        row_item = _encode(self.item, split.items)
        pairs = pa.table({"user": self.user, "item": self.item}).group_by(["user", "item"])
        counts = pairs.aggregate([([], "count_all")])
        if repeated := counts.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist():
            raise DataError(
                f"{self.source} recommends item {repeated[0]['item']!r} to user "
                f"{repeated[0]['user']!r} more than once: keep one row for each pair"
            )
        score, order = np.zeros(len(self)), np.argsort(row_user, kind="stable")
        if self.score is not None:
            item_key = np.where(row_item < 0, split.n_items, row_item)
            score, order = self.score, np.lexsort((item_key, -self.score, row_user))
        starts = np.searchsorted(row_user[order], np.arange(split.n_users))
        rank = np.arange(len(order)) - starts[row_user[order]]
        order, rank = order[rank < n], rank[rank < n]
        items = np.full((split.n_users, n), -1, dtype=np.int32)
        scores = np.full((split.n_users, n), -np.inf, dtype=np.float32)
        items[row_user[order], rank] = row_item[order]
        scores[row_user[order], rank] = score[order]
        lengths = np.bincount(row_user, minlength=split.n_users)
        unknown = "recommended items are not in the data: they keep their ranks and count as misses"
        missing = "users with items to find have no list: they count with an empty one"
        for rows, what in ((row_item < 0, unknown), (lengths[users] == 0, missing)):
            if rows.any():
                text = f"{self.source}: {np.count_nonzero(rows):,} {what}"
                warnings.warn(text, LeporidWarning, stacklevel=3)
        return TopK(items[users], scores[users])


def _read_table(path: Path, ids: Sequence[str]) -> pa.Table:
    if not path.is_file():
        raise DataError(f"no such file: {path}")
    try:
        if path.suffix in (".parquet", ".pq"):
            return pyarrow.parquet.read_table(path)
        # Ids are read as text, so that '007' stays itself.
        as_text = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(ids, pa.string()), strings_can_be_null=True
        )
        across_lines = pyarrow.csv.ParseOptions(newlines_in_values=True)
        return pyarrow.csv.read_csv(path, parse_options=across_lines, convert_options=as_text)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from None


def _encode(values: pa.Array, ids: IdMap) -> NDArray[np.int32]:
    """Indices, -1 where unknown; text that is no number is unknown among integer ids."""
    values = values.cast(pa.int64() if pa.types.is_integer(values.type) else pa.string())
    if ids.is_integer and pa.types.is_string(values.type):
        number = pc.match_substring_regex(values, r"^-?[0-9]{1,18}$")
        values = pc.if_else(number, values, pa.scalar(None, pa.string())).cast(pa.int64())
    return ids.encode(values)
