"""`inspect_embeddings`: everything `leporid inspect` shows, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.diagnostics.measures import (
    Movement,
    SideSummary,
    movement,
    nearest,
    norms_by_degree,
    summarize,
)
from leporid.errors import DataError, UnknownIdError, closest
from leporid.initializers import InitialEmbeddings


@dataclass(frozen=True, eq=False)
class Inspection:
    """What was measured on the embeddings of users and items."""

    embeddings: InitialEmbeddings
    degrees: dict[str, NDArray[Any] | None]
    summaries: dict[str, SideSummary]
    neighbours: list[dict[str, Any]]
    """The rows nearest to one item: rank, id, title, cosine."""
    movements: dict[str, Movement]

    def to_dict(self) -> dict[str, Any]:
        return {
            "sides": {side: summary.to_dict() for side, summary in self.summaries.items()},
            "neighbours": self.neighbours,
            "movement": {
                side: {"factor": moved.factor, "groups": moved.groups}
                for side, moved in self.movements.items()
            },
        }

    def tables(self, side: str) -> dict[str, list[dict[str, Any]]]:
        """The tables of one side by their headings."""
        rows = [
            {"measure": name, "value": _first_five(value)}
            for name, value in self.summaries[side].to_dict().items()
        ]
        tables = {side: rows}
        degrees = self.degrees[side]
        if degrees is not None:
            vectors = getattr(self.embeddings, side).vectors
            tables[f"{side}: norms by degree"] = norms_by_degree(vectors, degrees)
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
    after: InitialEmbeddings | None = None,
    scale: float | None = None,
    item: str | None = None,
    titles: Mapping[Any, Any] | None = None,
    neighbours: int = 10,
) -> Inspection:
    """Measure `embeddings`.

    `train` (Interactions) gives degrees; `after` the vectors after training from these; `item`
    an item's id or title, with `titles` mapping external ids to objects with a `.title`.
    """
    degrees: dict[str, NDArray[Any] | None] = {}
    summaries, movements = {}, {}
    for side in ("users", "items"):
        one = side[:-1]
        vectors, ids = getattr(embeddings, side), getattr(embeddings, f"{one}_ids")
        degrees[side] = None
        if train is not None:
            known = getattr(train, side)
            counts = np.bincount(getattr(train, one), minlength=len(known))
            degrees[side] = _aligned(counts, ids, known, vectors.n, side)
        summaries[side] = summarize(vectors, degrees[side])
        if after is not None:
            if getattr(after, f"{one}_ids") not in (None, ids):
                raise DataError(f"the {side} of the two embeddings are not the same {side}")
            movements[side] = movement(vectors, getattr(after, side), degrees[side], scale)
    near: list[dict[str, Any]] = []
    if item is not None:
        row = find_item(embeddings, item, titles)
        ranked = nearest(embeddings.items.vectors, row, neighbours)
        for rank, (other, cosine) in enumerate(ranked, start=1):
            external, title = _named(embeddings, other, titles)
            shown = {} if titles is None else {"title": title}
            near.append({"rank": rank, "item": external, **shown, "cosine": cosine})
    return Inspection(embeddings, degrees, summaries, near, movements)


def _aligned(counts: Any, own: Any, known: Any, n: int, side: str) -> NDArray[Any]:
    """Degrees in the order of the embedding's rows; ids that do not occur have degree 0."""
    if own is None:
        if len(counts) != n:
            raise DataError(f"the data has {len(counts)} {side}, the embeddings have {n}")
        return np.asarray(counts)
    rows = known.matches(own)
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
