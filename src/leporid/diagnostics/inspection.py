"""`inspect_embeddings`: spectrum, norms, neighbours, the probe, and how far training moved rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.data import Split
from leporid.errors import DataError, UnknownIdError, closest
from leporid.evaluation import Probe, probe
from leporid.initializers import InitialEmbeddings
from leporid.spectral import Embedding, standardize


def summarize(embedding: Embedding) -> dict[str, Any]:
    """The users' or the items' vectors in a few plain values.

    `eigenvalues` of A where the method has them, else `singular values` of the vectors; the
    `effective rank` is (sum s^2)^2 / sum s^4 of the centred vectors' singular values s.
    """
    vectors = embedding.vectors
    lengths = np.linalg.norm(vectors, axis=1)
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    # The d x d second moments have the squares of the singular values: cheap for tall matrices.
    squares = np.maximum(np.linalg.eigvalsh(centred.T @ centred)[::-1], 0.0)
    spectrum = {"singular values": np.sqrt(squares).tolist()}
    if embedding.eigenvalues is not None:
        spectrum = {"eigenvalues": np.asarray(embedding.eigenvalues, np.float64).tolist()}
    return {
        "rows": embedding.n,
        "dim": embedding.dim,
        "isolated": int(np.count_nonzero(lengths == 0)),
        **spectrum,
        "effective rank": float(squares.sum() ** 2 / max((squares**2).sum(), 1e-300)),
        "norm quantiles": np.quantile(lengths, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist(),
    }


def nearest(vectors: NDArray[np.float32], row: int, n: int = 10) -> list[tuple[int, float]]:
    """The `n` rows nearest to `row` by the cosine of standardised vectors, best first."""
    ready = standardize(vectors)
    ready /= np.maximum(np.linalg.norm(ready, axis=1, keepdims=True), 1e-12)
    cosine = ready @ ready[row]
    cosine[row] = -np.inf
    best = np.argsort(-cosine, kind="stable")[: min(n, len(vectors) - 1)]
    return [(int(i), float(cosine[i])) for i in best]


@dataclass(frozen=True, eq=False)
class Movement:
    """How far training moved each row from its initial embedding."""

    distance: NDArray[np.float64]
    """float64[n]: ||after - factor x initial|| over the mean norm of factor x initial."""
    factor: float
    """What the initial embeddings were multiplied by: the given scale, or the least-squares fit."""
    groups: list[dict[str, Any]]
    """Mean distance by degree, tail first (quarters); one group without degrees."""


def movement(
    initial: Embedding,
    after: Embedding,
    degrees: NDArray[Any] | None = None,
    scale: float | None = None,
) -> Movement:
    """Compare the trained vectors with the standardised initial ones, row by row.

    Models multiply initial embeddings by a scale of their own. Without `scale` it is estimated by
    least squares.
    """
    if initial.vectors.shape != after.vectors.shape:
        raise DataError(
            f"the initial embeddings have shape {list(initial.vectors.shape)} and the trained ones "
            f"{list(after.vectors.shape)}: they are not of one model"
        )
    ready = initial.provenance.get("standardized") or initial.provenance.get("method") == "random"
    first = (initial.vectors if ready else standardize(initial.vectors)).astype(np.float64)
    last = after.vectors.astype(np.float64)
    best = float((first * last).sum() / max((first * first).sum(), 1e-300))
    factor = best if scale is None else scale
    unit = float(np.linalg.norm(first * factor, axis=1).mean())
    distance = np.linalg.norm(last - factor * first, axis=1) / max(unit, 1e-12)
    if degrees is None:
        groups = [{"group": "all", "rows": len(distance), "moved": float(distance.mean())}]
    else:
        order = np.argsort(degrees, kind="stable")
        names = ("tail (fewest 25%)", "second quarter", "third quarter", "head (most 25%)")
        groups = [
            {"group": name, "rows": len(part), "moved": float(distance[part].mean())}
            for name, part in zip(names, np.array_split(order, 4), strict=True)
            if len(part)
        ]
    return Movement(distance, factor, groups)


@dataclass(frozen=True, eq=False)
class Inspection:
    """What was measured on the embeddings of users and items."""

    summaries: dict[str, dict[str, Any]]
    neighbours: list[dict[str, Any]]
    """The rows nearest to one item: rank, id, title, cosine."""
    movements: dict[str, Movement]
    probe: Probe | None = None
    """What the vectors predict of the validation part, where a split was given."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "sides": self.summaries,
            "neighbours": self.neighbours,
            "movement": {
                side: {"factor": moved.factor, "groups": moved.groups}
                for side, moved in self.movements.items()
            },
            "probe": [] if self.probe is None else self.probe.rows(),
        }

    def tables(self, side: str) -> dict[str, list[dict[str, Any]]]:
        """The tables of one side by their headings."""
        measured = self.summaries[side].items()
        tables = {side: [{"measure": name, "value": _first_five(v)} for name, v in measured]}
        if side in self.movements:
            tables[f"{side}: distance from the initialisation"] = self.movements[side].groups
        if side == "items" and self.neighbours:
            tables["nearest items"] = self.neighbours
        return tables


def _first_five(value: Any) -> Any:
    """A list of numbers as text."""
    return ", ".join(f"{x:.4g}" for x in value[:5]) if isinstance(value, list) else value


def inspect_embeddings(
    embeddings: InitialEmbeddings,
    *,
    train: Any = None,
    split: Split | None = None,
    after: InitialEmbeddings | None = None,
    item: str | None = None,
    titles: Mapping[Any, Any] | None = None,
    neighbours: int = 10,
) -> Inspection:
    """Measure `embeddings`.

    `after` are the vectors after training from these, `train` (Interactions) tells tail from head
    then. `split` asks for the probe of its validation part, which the vectors must not have seen.
    `item` is an item's id or title, with `titles` mapping external ids to objects with a `.title`.
    """
    summaries, movements = {}, {}
    for side in ("users", "items"):
        one = side[:-1]
        vectors, ids = getattr(embeddings, side), getattr(embeddings, f"{one}_ids")
        degrees = None
        if train is not None:
            known = getattr(train, side)
            counts = np.bincount(getattr(train, one), minlength=len(known))
            degrees = _aligned(counts, ids, known, vectors.n, side)
        summaries[side] = summarize(vectors)
        if after is not None:
            if getattr(after, f"{one}_ids") not in (None, ids):
                raise DataError(f"the {side} of the two embeddings are not the same {side}")
            movements[side] = movement(vectors, getattr(after, side), degrees)
    near, ranked = list[dict[str, Any]](), list[tuple[int, float]]()
    if item is not None:
        ranked = nearest(embeddings.items.vectors, find_item(embeddings, item, titles), neighbours)
    for rank, (other, cosine) in enumerate(ranked, start=1):
        external, title = _named(embeddings, other, titles)
        shown = {} if titles is None else {"title": title}
        near.append({"rank": rank, "item": external, **shown, "cosine": cosine})
    found = None if split is None else probe(embeddings, split)
    return Inspection(summaries, near, movements, found)


def _aligned(counts: Any, own: Any, known: Any, n: int, side: str) -> NDArray[Any]:
    """Degrees in the order of the embedding's rows; ids that do not occur have degree 0."""
    if own is None:
        if len(counts) != n:
            raise DataError(f"the data has {len(counts)} {side}, the embeddings have {n}")
        return np.asarray(counts)
    rows = known.encode(own.ids)
    if np.all(rows < 0):
        raise DataError(f"none of the {n} {side} of the embeddings occurs in the data")
    return np.where(rows >= 0, counts[np.maximum(rows, 0)], 0)


def _named(
    embeddings: InitialEmbeddings, row: int, titles: Mapping[Any, Any] | None
) -> tuple[Any, str]:
    """The external id of an item, and its title."""
    ids, titles = embeddings.item_ids, titles or {}
    external = row if ids is None else ids.external(row)
    known = titles.get(external, titles.get(str(external)))
    return external, "" if known is None else str(known.title)


def find_item(
    embeddings: InitialEmbeddings, item: str, titles: Mapping[Any, Any] | None = None
) -> int:
    """The row of an item given by its id, its title, or a part of one title only."""
    ids = embeddings.item_ids
    if ids is not None:
        try:
            return ids.index(item)
        except UnknownIdError:
            if titles is None:
                raise
    elif item.isdigit() and int(item) < embeddings.items.n:
        return int(item)
    named = {_named(embeddings, row, titles)[1]: row for row in range(embeddings.items.n)}
    named.pop("", None)
    if item in named:
        return named[item]
    holding = [title for title in named if item.lower() in title.lower()]
    if len(holding) == 1:
        return named[holding[0]]
    guess = closest(item, named)
    hint = f"did you mean {guess!r}?" if guess else "give an id or a title of the embeddings"
    if holding:
        hint = f"{len(holding)} titles contain it, for instance {holding[0]!r}"
    raise UnknownIdError(f"no item {item!r}: {hint}")
