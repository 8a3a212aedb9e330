"""`export_model`: a model into an index, a database or a file, checked against its own lists."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leporid.errors import ConfigError, UnknownNameError
from leporid.foundation import atomic_folder, chunk_rows, write_json
from leporid.interop.targets import TARGETS
from leporid.interop.vectors import MOVED, Changes, ModelVectors, Positions, refreshed
from leporid.models import Recommender

_ROUNDING = 1e-5
"""Scores that differ by at most this share of the largest are equal: sums are rounded."""


class Parity(NamedTuple):
    """Agreement of the target's lists with the model's own."""

    users: int
    """Number of users compared, all with a history."""
    n: int
    """Length of the lists."""
    equal: int
    """Number of users with the same list, up to rounding of scores.

    For a first stage, the lists only need to have the same items.
    """
    recall: float
    """Mean share of the model's items that the other list has."""

    def __str__(self) -> str:
        return (
            f"top-{self.n} lists of {self.equal:,} of {self.users:,} users equal the model's own "
            f"(recall {self.recall:.4f})"
        )


def export_model(  # noqa: PLR0913 (options are spelled out)
    model: Recommender,
    path: str | Path,
    to: str,
    *,
    address: str | None = None,
    name: str = "leporid",
    check: int = 1000,
    n: int = 10,
    refresh: str | Path | None = None,
    moved: float = MOVED,
) -> Parity | None:
    """Write the vectors of `model` (or its encoder) into the folder `path`.

    Parameters
    ----------
    to : "parquet", "faiss", "qdrant" or "pgvector"
    address : of a Qdrant server (http://...) or of a PostgreSQL database (postgresql://...) that is
        loaded too; without it Qdrant's local mode, and `load.sql` for psql
    name : begins the names of Qdrant's collections; the schema in PostgreSQL
    check : search for this many users and compare with the model's lists of `n`; 0 does not.
        PostgreSQL is only searched at an `address`
    refresh : an earlier export's folder (or the run that was exported whole): vectors keep its
        coordinates, and only rows that are new, or moved by more than the share `moved` of the
        median length, are written; what is gone is deleted
    """
    if to not in TARGETS:
        raise UnknownNameError("target", to, TARGETS)
    if address and to not in ("qdrant", "pgvector"):
        raise ConfigError(f"{to} has no address: it is written into a folder")
    vectors = ModelVectors.of(model)
    changes: Changes | None = None
    if refresh is not None:
        vectors, changes = refreshed(vectors, refresh, moved)
    n = min(n, len(vectors.items) - 1)
    history_sizes = np.diff(vectors.seen.indptr)
    with atomic_folder(path) as folder:
        target = TARGETS[to](folder, address, name)
        target.write(vectors, changes)
        parity = None
        if check and (to != "pgvector" or address):
            users = _evenly_spread(np.flatnonzero(history_sizes), check)
            lists = target.search(vectors, users, n)
            parity = compare(model, vectors, users, lists)
        counts = {} if changes is None else changes.counts()
        facts: dict[str, object] = {
            "model": model.name,
            "config": model.config.to_dict(),
            "target": to,
            "width": vectors.width,
            "users": len(vectors.users),
            "items": len(vectors.items),
            "product_ranks": model.vectors_rank,
            "users_without_history": int((history_sizes == 0).sum()),
            "parity": None if parity is None else parity._asdict(),
        }
        write_json(folder / "export.json", facts | counts)
    return parity


def _evenly_spread(users: NDArray[np.int64], count: int) -> NDArray[np.int32]:
    """Return at most `count` of the users, evenly spread."""
    positions = np.linspace(0, len(users) - 1, min(count, len(users)))
    return users[positions.astype(np.int64)].astype(np.int32)


def compare(
    model: Recommender,
    vectors: ModelVectors,
    users: Positions,
    lists: Positions,
) -> Parity:
    """Compare lists of item positions with the model's, or with those of its first stage."""
    n = lists.shape[1]
    equal = 0
    recall = 0.0
    step = chunk_rows(len(vectors.items))
    for first in range(0, len(users), step):
        chunk = users[first : first + step]
        exported = lists[first : first + step]
        if model.vectors_rank == "everything":
            # Targets never show what a user has seen, whatever the model was fitted for.
            expected = model.top_k(chunk, n, include_seen=False).items
            share = _shares_found(expected, exported)
            is_equal = _equal_up_to_rounding(model, chunk, expected, exported)
        else:
            expected = vectors.top_k(vectors.users[chunk], vectors.seen.take(chunk), n)
            share = _shares_found(expected, exported)
            is_equal = share == 1
        equal += int(is_equal.sum())
        recall += float(share.sum())
    return Parity(len(users), n, equal, recall / max(len(users), 1))


def _shares_found(expected: Positions, exported: Positions) -> NDArray[np.float64]:
    """Return, per user, the share of the model's items that the exported list has."""
    n_shared = [
        len(np.intersect1d(items[items >= 0], other))
        for items, other in zip(expected, exported, strict=True)
    ]
    return np.asarray(np.array(n_shared) / np.maximum((expected >= 0).sum(axis=1), 1))


def _equal_up_to_rounding(
    model: Recommender, users: Positions, expected: Positions, exported: Positions
) -> NDArray[np.bool_]:
    """Return, per user, whether both lists have the same scores at every rank."""
    scores = model.score(users)
    largest = np.abs(scores).max(axis=1, keepdims=True)
    expected_scores = np.take_along_axis(scores, np.maximum(expected, 0), axis=1)
    exported_scores = np.take_along_axis(scores, np.maximum(exported, 0), axis=1)
    is_close = np.abs(expected_scores - exported_scores) <= _ROUNDING * largest
    is_same = (is_close & (exported >= 0)) | (expected < 0)
    return np.asarray(is_same.all(axis=1))
