"""`export_model`: a model into an index, a database or a file, checked against its own lists."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leporid.artifacts import atomic_folder, write_json
from leporid.errors import ConfigError, UnknownNameError
from leporid.interop.targets import TARGETS
from leporid.interop.vectors import MOVED, Changes, ModelVectors, Positions, refreshed
from leporid.models import Recommender
from leporid.ranking import chunk_rows

_ROUNDING = 1e-5
"""Scores that differ by this share of the largest are equal: rounding of another sum order."""


class Parity(NamedTuple):
    """How the target's lists compare with the model's own."""

    users: int
    """Users compared, all with a history."""
    n: int
    """Length of the lists."""
    equal: int
    """Users with the same list, up to rounding of scores; of a first stage, with the same set."""
    recall: float
    """Mean share of the model's items that the other list has."""

    def __str__(self) -> str:
        return (
            f"top-{self.n} lists of {self.equal:,} of {self.users:,} users equal the model's own "
            f"(recall {self.recall:.4f})"
        )


def export_model(
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
    vectors, parity = ModelVectors.of(model), None
    changes: Changes | None = None
    if refresh is not None:
        vectors, changes = refreshed(vectors, refresh, moved)
    n = min(n, len(vectors.items) - 1)
    with atomic_folder(path) as folder:
        target = TARGETS[to](folder, address, name)
        target.write(vectors, changes)
        sizes = np.diff(vectors.seen.indptr)
        if check and (to != "pgvector" or address):
            users = np.flatnonzero(sizes).astype(
                np.int32
            )  # of which some, evenly spread
            users = users[
                np.linspace(0, len(users) - 1, min(check, len(users))).astype(np.int64)
            ]
            parity = compare(model, vectors, users, target.search(vectors, users, n))
        blank = int((sizes == 0).sum())
        about: Any = {
            "model": model.name,
            "config": model.config.to_dict(),
            "target": to,
        }
        about |= {
            "width": vectors.width,
            "users": len(vectors.users),
            "items": len(vectors.items),
        }
        about |= {"product_ranks": model.vectors_rank, "users_without_history": blank}
        about |= {"parity": parity and parity._asdict()}
        about |= changes.counts() if changes else {}
        write_json(folder / "export.json", about)
    return parity


def compare(
    model: Recommender, vectors: ModelVectors, users: Positions, found: Positions
) -> Parity:
    """Compare lists of item positions with the model's, or with those of its first stage."""
    n, equal, recall = found.shape[1], 0, 0.0
    step = chunk_rows(len(vectors.items))
    for first in range(0, len(users), step):
        some, theirs = users[first : first + step], found[first : first + step]
        ranks_all = model.vectors_rank == "everything"
        if ranks_all:
            own = model.top_k(
                some, n, include_seen=False
            ).items  # as the target searches
        else:
            own = vectors.top_k(vectors.users[some], vectors.seen.take(some), n)
        shared = [
            len(np.intersect1d(a[a >= 0], b)) for a, b in zip(own, theirs, strict=True)
        ]
        share = np.array(shared) / np.maximum((own >= 0).sum(axis=1), 1)
        same = share == 1
        if ranks_all:
            scores = model.score(some)
            largest = np.abs(scores).max(axis=1, keepdims=True)
            values = [
                np.take_along_axis(scores, np.maximum(x, 0), axis=1)
                for x in (own, theirs)
            ]
            close = np.abs(values[0] - values[1]) <= _ROUNDING * largest
            same = ((close & (theirs >= 0)) | (own < 0)).all(axis=1)
        equal, recall = equal + int(same.sum()), recall + float(share.sum())
    return Parity(len(users), n, equal, recall / max(len(users), 1))
