"""`Recommendations`: lists that came from elsewhere, as rows of external ids."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from leporid.data import Split
from leporid.errors import DataError, UnknownIdError, UnknownNameError, warn
from leporid.evaluation.metrics import Values
from leporid.ranking import Indices, TopK


@dataclass(frozen=True, eq=False)
class Recommendations:
    """Lists that came from elsewhere: rows of (user, item, score), external ids.

    They are taken as given. The order is by score, highest first, ties to the smaller item index
    (unknown items after known ones); without a score, the order of the rows.
    - An unknown user is an error: the lists were made for other data.
    - An unknown item keeps its place in the list but cannot be a hit; counted in a warning.
    - A user with test items but without a list gets an empty one; counted in a warning.
    - The same item twice in a list is an error.
    """

    user: pa.Array
    item: pa.Array
    """Text or integers."""
    score: Values | None
    """float64[n], higher is better; None where the order of the rows is the order of the list."""
    source: str = "the recommendations"
    """Where they came from, for messages."""

    def __len__(self) -> int:
        return len(self.user)

    @classmethod
    def read(
        cls,
        path: str | Path,
        user: str = "user",
        item: str = "item",
        score: str = "score",
    ) -> Self:
        """Read a CSV or parquet file with these columns; the score column may be missing."""
        path = Path(path)
        table = _read_table(path, user, item)
        for name in (user, item):
            if name not in table.column_names:
                raise UnknownNameError(f"column of {path}:", name, table.column_names)
        for name in {user, item, score}.intersection(table.column_names):
            if table[name].null_count:
                row = int(np.argmax(table[name].is_null().to_numpy()))
                raise DataError(
                    f"{path}, column {name!r}: the value in row {row + 1} is missing"
                )
        return cls(
            user=table[user].combine_chunks(),
            item=table[item].combine_chunks(),
            score=_scores(table, score, path),
            source=str(path),
        )

    def lists(
        self,
        split: Split,
        users: Indices,
        n: int,
    ) -> TopK:
        """Return the first `n` recommendations of user indices; -1 and -inf fill short lists."""
        row_user = split.users.encode(self.user)
        self._check_users(row_user)
        row_item = split.items.encode(self.item)
        self._check_pairs()
        if self.score is None:
            score = np.zeros(len(self))
            order = np.argsort(row_user, kind="stable")
        else:
            score = self.score
            item_key = np.where(row_item < 0, split.n_items, row_item)
            order = np.lexsort((item_key, -score, row_user))
        starts = np.searchsorted(row_user[order], np.arange(split.n_users))
        rank = np.arange(len(order)) - starts[row_user[order]]
        is_listed = rank < n
        order = order[is_listed]
        rank = rank[is_listed]
        top = TopK.empty(split.n_users, n)
        top.items[row_user[order], rank] = row_item[order]
        top.scores[row_user[order], rank] = score[order]

        n_unknown = np.count_nonzero(row_item < 0)
        if n_unknown:
            warn(
                f"{self.source}: {n_unknown:,} recommended items are not in the data: "
                f"they keep their ranks and count as misses",
                3,
            )
        lengths = np.bincount(row_user, minlength=split.n_users)
        n_missing = np.count_nonzero(lengths[users] == 0)
        if n_missing:
            warn(
                f"{self.source}: {n_missing:,} users with items to find have no list: "
                f"they count with an empty one",
                3,
            )
        return TopK(top.items[users], top.scores[users])

    def _check_users(self, row_user: Indices) -> None:
        """Refuse lists of users that are not in the data."""
        unknown = pc.unique(self.user.filter(pa.array(row_user < 0)))
        if len(unknown):
            raise UnknownIdError(
                f"{self.source} has {len(unknown)} users that are not in the data, the first is "
                f"{unknown[0].as_py()!r}: evaluate on the data and the core the lists were made for"
            )

    def _check_pairs(self) -> None:
        """Refuse lists that hold an item twice."""
        pairs = pa.table({"user": self.user, "item": self.item})
        counts = pairs.group_by(["user", "item"]).aggregate([([], "count_all")])
        for repeated in (
            counts.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist()
        ):
            raise DataError(
                f"{self.source} recommends item {repeated['item']!r} to user "
                f"{repeated['user']!r} more than once: keep one row for each pair"
            )


def _read_table(
    path: Path,
    user: str,
    item: str,
) -> pa.Table:
    """Read the rows of a parquet or CSV file."""
    if not path.is_file():
        raise DataError(f"no such file: {path}")
    try:
        if path.suffix in (".parquet", ".pq"):
            return pq.read_table(path)
        # Ids are read as text, so that '007' stays itself.
        return pcsv.read_csv(
            path,
            parse_options=pcsv.ParseOptions(newlines_in_values=True),
            convert_options=pcsv.ConvertOptions(
                column_types={user: pa.string(), item: pa.string()},
                strings_can_be_null=True,
            ),
        )
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from None


def _scores(
    table: pa.Table,
    column: str,
    path: Path,
) -> Values | None:
    """Return the scores of the rows, or None where there is no such column."""
    if column not in table.column_names:
        return None
    try:
        scores = table[column].cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{path}, column {column!r}: {error}") from None
    is_nan = np.isnan(scores)
    if is_nan.any():
        raise DataError(f"{path}, row {np.argmax(is_nan) + 1}: the score is NaN")
    return np.asarray(scores)
