"""`evaluate`: one full ranking of every candidate, for a model or for lists from elsewhere.

Lists come as a `TopK` (indices) or as `Recommendations` (external ids, from a file).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numba import prange
from numpy.typing import NDArray

from leporid.arguments import checks_arguments, described, takes_exclude_seen
from leporid.data import IdMap, Interactions, Part, Sequences, Split, expect
from leporid.errors import (
    ConfigError,
    DataError,
    UnknownIdError,
    UnknownNameError,
    article,
    warn,
)
from leporid.evaluation.metric_table import MetricTable
from leporid.evaluation.metrics import FAMILIES, popularity_class
from leporid.kernel import kernel
from leporid.progress import ProgressLike, make_progress
from leporid.ranking import (
    BoundRules,
    NanScoreError,
    TopK,
    chunk_rows,
    masked_top_k,
    masked_top_k_torch,
)

Users = NDArray[np.int32]


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
    score: NDArray[np.float64] | None
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
        if not path.is_file():
            raise DataError(f"no such file: {path}")
        # Ids are read as text, so that '007' stays itself.
        types = dict.fromkeys((user, item), pa.string())
        as_text = pcsv.ConvertOptions(column_types=types, strings_can_be_null=True)
        lines = pcsv.ParseOptions(newlines_in_values=True)
        try:
            if path.suffix in (".parquet", ".pq"):
                table = pq.read_table(path)
            else:
                table = pcsv.read_csv(
                    path, parse_options=lines, convert_options=as_text
                )
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise DataError(f"cannot read {path}: {error}") from None
        for name in (user, item):
            if name not in table.column_names:
                raise UnknownNameError(f"column of {path}:", name, table.column_names)
        for name in {user, item, score}.intersection(table.column_names):
            if table[name].null_count:
                row = int(np.argmax(table[name].is_null().to_numpy()))
                raise DataError(
                    f"{path}, column {name!r}: the value in row {row + 1} is missing"
                )
        users, items = (table[name].combine_chunks() for name in (user, item))
        if score not in table.column_names:
            return cls(users, items, None, str(path))
        try:
            scores = table[score].cast(pa.float64()).to_numpy()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"{path}, column {score!r}: {error}") from None
        if np.isnan(scores).any():
            raise DataError(
                f"{path}, row {np.argmax(np.isnan(scores)) + 1}: the score is NaN"
            )
        return cls(users, items, scores, str(path))

    def lists(self, split: Split, users: NDArray[np.int32], n: int) -> TopK:
        """The first `n` recommendations of user indices; -1 and -inf fill short lists."""
        row_user = split.users.encode(self.user)
        if strangers := pc.unique(self.user.filter(pa.array(row_user < 0))).to_pylist():
            raise UnknownIdError(
                f"{self.source} has {len(strangers)} users that are not in the data, the first is "
                f"{strangers[0]!r}: evaluate on the data and the core the lists were made for"
            )
        row_item = split.items.encode(self.item)
        pairs = pa.table({"user": self.user, "item": self.item}).group_by(
            ["user", "item"]
        )
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
                warn(f"{self.source}: {np.count_nonzero(rows):,} {what}", 3)
        return TopK(items[users], scores[users])


@takes_exclude_seen
@checks_arguments({"batch_size": 1})
def evaluate(
    model: Any,
    split: Split,
    at: Sequence[int] = (1, 5, 10),
    part: Part = "test",
    *,
    batch_size: int | None = None,
    progress: bool | ProgressLike | None = None,
    metrics: Sequence[str] | None = None,
    include_seen: bool | None = None,
    rules: BoundRules | None = None,
) -> MetricTable:
    """Rank every candidate for every user with items in `part`, and compare.

    Candidates are the items the user neither has (of the goal, if there is one) nor dislikes in
    `split.known(part)`; a held-out item that is none is left out, counted in `.repeated`. Nothing
    is sampled, ties go to the smaller item index. Users are scored in chunks that fit the free
    memory, which never changes the result. Users without items in `part` are left out and counted
    in `.skipped`; those without a training interaction are ranked, and a stratum ('cold-users').

    Parameters
    ----------
    model : one of
        a `Recommender`, or any object with `score(users, history)`; one with
        `score_tensor(users, history)` is ranked on the device its tensor is on;
        a callable `(users int32[m], history Sequences) -> float32[m, n_items]`;
        float32[n_users, n_items] scores; a `TopK` with one list for each user of the split;
        `Recommendations`. Lists are evaluated as given, scores are masked first.
    at, part, metrics : cut-offs N; 'test' or 'valid'; names without cut-off ('HR') [all]
    batch_size, progress : users scored at once [found]; True for a bar on the terminal
    include_seen : True makes every item a candidate, and lets all held-out items count; None does
        so where the split (`Split.include_seen`) or the model was made for it
    rules : what the lists must and should contain, `Rules.bind(model.item_columns(items))`
    """
    expect(split, Split, "evaluate(model, split)")
    if part not in ("valid", "test"):
        raise UnknownNameError("part", str(part), ["valid", "test"])
    cuts, families = _asked(at, FAMILIES if metrics is None else metrics)
    shows = split.include_seen or getattr(
        getattr(model, "fitting", None), "include_seen", False
    )
    include_seen = shows if include_seen is None else include_seen
    known, hidden = (
        split.known(part).sequences(),
        split.known(part).hidden(include_seen),
    )
    held_out, repeated = _items_to_find(split, part, include_seen)
    to_find, n = held_out.sequences(), cuts[-1]
    users = np.flatnonzero(np.diff(to_find.indptr)).astype(np.int32)
    if rules is not None and not isinstance(rules, BoundRules):
        raise ConfigError(
            f"rules must be bound to the items of the model, Rules.bind(model.item_columns(items)), "
            f"and these are {described(rules)}"
        )
    if rules is not None and isinstance(model, Recommendations | TopK):
        raise ConfigError(
            "lists are evaluated as given: rules need a model or its scores"
        )
    if isinstance(model, Recommendations):
        top = model.lists(split, users, n).items
    elif isinstance(model, TopK):
        top = _given_lists(model, split, users, n)
    else:
        _refuse_known(model, split.part(part).goals, part)
        scorer = _scorer(model, split, known)
        reporter, step = make_progress(progress), chunk_rows(split.n_items, batch_size)
        reporter.start("evaluate", total=len(users))
        top = np.empty((len(users), n), dtype=np.int32)
        for start in range(0, len(users), step):
            chunk = users[start : start + step]
            about = split, n, hidden.take(chunk), rules
            top[start : start + step] = _ranked(scorer(chunk), chunk, *about)
            reporter.advance(len(chunk))
        reporter.close()
    popularity, lists = split.train.popularity, (to_find.indptr, to_find.items)
    hits, relevant, cold = _compare(
        top, users, lists, popularity_class(popularity), popularity
    )
    return MetricTable(
        user=users,
        users=split.users,
        top=top,
        hits=np.asfortranarray(hits),  # metrics add up ranks over all users at once
        relevant=relevant,
        cold_relevant=cold,
        activity=np.diff(split.train.sequences().indptr).astype(np.int32),
        popularity=popularity,
        at=cuts,
        families=families,
        part=part,
        protocol=split.protocol,
        include_seen=include_seen,
        repeated=repeated,
    )


def _asked(
    at: Sequence[int], metrics: Sequence[str]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The cut-offs and metrics, in order."""
    for n in at:
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ConfigError(f"at must list whole numbers of at least 1, not {n!r}")
    if len(at) == 0:
        raise ConfigError("at must list at least one cut-off, for example (1, 5, 10)")
    for name in metrics:
        if name not in FAMILIES:
            raise UnknownNameError("metric", name, FAMILIES)
    return tuple(sorted({int(n) for n in at})), tuple(
        f for f in FAMILIES if f in metrics
    )


def _items_to_find(
    split: Split, part: Part, include_seen: bool
) -> tuple[Interactions, int]:
    """What counts as found, each item once; how many others the users have already."""
    held_out = split.targets(part, include_seen)
    distinct = np.count_nonzero(split.part(part).goals.is_first)
    if not distinct:
        what = "is empty" if not len(split.part(part)) else "has no event of the goal"
        raise DataError(
            f"the {part} part of the split {what}: there is nothing to evaluate on"
        )
    if not len(held_out):
        raise DataError(
            f"the users have all their {part} items already: include_seen=True (--include-seen) "
            f"lets known items be recommended again"
        )
    return held_out, int(distinct) - len(held_out)


def _ranked(
    scores: Any,
    users: Users,
    split: Split,
    n: int,
    seen: Sequences,
    rules: BoundRules | None,
) -> NDArray[np.int32]:
    """int32[m, n]: the best items for some users, from their scores."""
    if tuple(scores.shape) != (len(users), split.n_items):
        raise DataError(
            f"the model gave scores of shape {tuple(scores.shape)} for {len(users)} users and "
            f"{split.n_items} items: it must give one row per user and one column per item"
        )
    top_k: Callable[..., TopK] = masked_top_k
    if rules is not None:
        scores, top_k = (
            np.asarray(getattr(scores, "cpu", lambda: scores)()),
            rules.top_k,
        )
    elif not isinstance(scores, np.ndarray):
        top_k = masked_top_k_torch
    try:
        return top_k(scores, n, seen=seen).items
    except NanScoreError as error:
        user = split.users.external(int(users[error.row]))
        raise DataError(f"the model scored an item for user {user!r} as NaN") from error


def _scorer(model: Any, split: Split, known: Sequences) -> Callable[[Users], Any]:
    """One function from user indices to scores, whatever the model is."""
    if isinstance(model, type):
        raise ConfigError(
            f"cannot evaluate {described(model)}: make a model of it and fit that, "
            f"{model.__name__}().fit(split)"
        )
    if isinstance(model, np.ndarray):
        if model.shape != (split.n_users, split.n_items):
            raise DataError(
                f"the scores have shape {model.shape}, the split has {split.n_users} users and "
                f"{split.n_items} items"
            )
        # Rows of consecutive users are not copied.
        return lambda u: model[slice(u[0], u[-1] + 1) if np.ptp(u) < len(u) else u]
    for side in ("users", "items"):
        fitted = getattr(model, side, None)
        if isinstance(fitted, IdMap) and fitted != getattr(split, side):
            raise DataError(
                f"the model was fitted on other {side} than those of the split: "
                f"load and filter the data as for the fit"
            )
    if hasattr(model, "score_tensor"):
        return lambda users: _on_device(model.score_tensor(users, history=known))
    if hasattr(model, "score"):
        return lambda users: np.asarray(model.score(users, history=known))
    if callable(model):
        return lambda users: np.asarray(model(users, known))
    raise ConfigError(
        f"cannot evaluate {article(type(model).__name__)}: give a model with "
        f"score(users, history), a function, an array of scores, a TopK or Recommendations"
    )


def _on_device(scores: Any) -> Any:
    """A CUDA tensor as it is, anything else as a numpy array (the faster path on a CPU)."""
    return scores if getattr(scores, "is_cuda", False) else np.asarray(scores.detach())


def _refuse_known(model: Any, held_out: Interactions, part: Part) -> None:
    """A final model has been fitted on everything: on what it knows it would look splendid."""
    if not getattr(getattr(model, "fitting", None), "final", False):
        return
    asked, fitted = (
        p.user * np.int64(p.n_items) + p.item for p in (held_out, model.train.goals)
    )
    if np.isin(asked, fitted).any():
        raise DataError(
            f"this is a final model, fitted on the {part} part too: evaluate the validated one "
            f"(the run's folder, or model.validated after leporid.train(..., final=True))"
        )


def _given_lists(
    lists: TopK, split: Split, users: NDArray[np.int32], n: int
) -> NDArray[np.int32]:
    rows, k = lists.items.shape
    if rows != split.n_users:
        raise DataError(
            f"there are {rows} lists for the {split.n_users} users of the split"
        )
    if k < n:
        raise ConfigError(f"the lists have {k} items, the largest cut-off needs {n}")
    if lists.items.max(initial=-1) >= split.n_items:
        raise DataError(f"the lists name items beyond the {split.n_items} of the split")
    return np.ascontiguousarray(lists.items[users, :n], dtype=np.int32)


@kernel(parallel=True)
def _compare(
    top: Users, users: Users, held_out: Any, classes: Any, popularity: Any
) -> Any:
    """Hits bool[m, k], and each user's held-out items: by class int32[m, 3], cold ones int32[m]."""
    indptr, items = held_out
    hits = np.zeros(top.shape, np.bool_)
    relevant, cold = np.zeros((len(users), 3), np.int32), np.zeros(len(users), np.int32)
    for row in prange(len(users)):
        for item in items[indptr[users[row]] : indptr[users[row] + 1]]:
            relevant[row, classes[item]] += 1
            cold[row] += popularity[item] == 0
            for rank in range(top.shape[1]):
                hits[row, rank] |= top[row, rank] == item
    return hits, relevant, cold
