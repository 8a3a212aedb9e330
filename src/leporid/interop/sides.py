"""What every file format shares: ids as text, provenance beside the vectors, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.artifacts import read_json, write_json
from leporid.data.id_map import IdMap
from leporid.errors import DataError
from leporid.initializers.base import InitialEmbeddings
from leporid.spectral.embedding import Embedding

__all__ = [
    "PROVENANCE",
    "SIDES",
    "assemble",
    "ids_of",
    "read_provenance",
    "text_ids",
    "text_lines",
    "write_provenance",
]

SIDES = ("users", "items")
PROVENANCE = "provenance.json"

Side = tuple[Any, NDArray[np.float32]]
"""External ids in file order, and float32[n, d]."""


def ids_of(ids: IdMap | None, n: int) -> pa.Array:
    """The external ids of the rows; the positions where none are known."""
    return pa.array(np.arange(n)) if ids is None else ids.ids


def text_ids(
    ids: IdMap | None, n: int, side: str, refused: str, problem: str, where: str
) -> pa.Array:
    """The ids as text; an error where one matches `refused`, which says `problem` of `where`."""
    values = ids_of(ids, n).cast(pa.string())
    bad = values.filter(pc.match_substring_regex(values, refused))
    if len(bad):
        raise DataError(
            f"{len(bad)} {side[:-1]} ids {problem}, the first is {bad[0].as_py()!r}: "
            f"{where} cannot hold them, choose another format"
        )
    return values


def write_provenance(folder: Path, embeddings: InitialEmbeddings) -> None:
    """Keep what a bare table of numbers cannot say."""
    sides: dict[str, Any] = {}
    for side, embedding, ids in embeddings.sides():
        values = embedding.eigenvalues
        sides[side] = {
            "provenance": dict(embedding.provenance),
            "rows": embedding.n,
            "eigenvalues": None if values is None else [float(v) for v in values],
            "ids": "none" if ids is None else "integer" if ids.is_integer else "string",
        }
    write_json(folder / PROVENANCE, sides)


def read_provenance(folder: Path) -> dict[str, Any]:
    """What `write_provenance` wrote, or nothing for files made by someone else."""
    path = folder / PROVENANCE
    found = read_json(path) if path.is_file() else {}
    if not isinstance(found, dict):
        raise DataError(f"{path} must hold a JSON object with the keys 'users' and 'items'")
    return found


def assemble(users: Side, items: Side, noted: dict[str, Any], where: Path) -> InitialEmbeddings:
    """Embeddings from two tables; rows are put into the order of sorted ids."""
    made, maps = [], []
    for side, (values, vectors) in zip(SIDES, (users, items), strict=True):
        notes = noted.get(side, {})
        kind = side[:-1]
        array = _typed(values, notes.get("ids"))
        ids = IdMap.from_values(array, kind)
        if len(ids) != len(array) or len(array) != len(vectors):
            raise DataError(
                f"{where} has {len(vectors)} {kind} vectors for {len(ids)} distinct ids: "
                f"every {kind} needs exactly one"
            )
        if notes.get("rows", len(vectors)) != len(vectors):
            raise DataError(
                f"{where} has {len(vectors)} {kind} vectors where {PROVENANCE} says "
                f"{notes['rows']}: the file is cut short or from another export"
            )
        if not np.all(np.isfinite(vectors)):
            raise DataError(f"{where} has {kind} vectors with NaN or infinite entries")
        order = np.empty(len(ids), dtype=np.int64)
        order[ids.encode(array)] = np.arange(len(ids))
        eigenvalues = notes.get("eigenvalues")
        made.append(
            Embedding(
                np.ascontiguousarray(vectors[order], dtype=np.float32),
                None if eigenvalues is None else np.asarray(eigenvalues, dtype=np.float64),
                notes.get("provenance", {}),
            )
        )
        maps.append(None if notes.get("ids") == "none" else ids)
    return InitialEmbeddings(made[0], made[1], maps[0], maps[1])


def _typed(values: Any, noted: str | None) -> pa.Array:
    """Ids read from text are integers when they all look like one, unless noted otherwise."""
    array = values if isinstance(values, pa.Array) else pa.array(values)
    if not pa.types.is_string(array.type):
        return array
    if noted == "string":
        return array
    whole = pc.all(pc.match_substring_regex(array, r"^(0|-?[1-9][0-9]{0,17})$")).as_py()
    return array.cast(pa.int64()) if whole else array


def text_lines(first: pa.Array, vectors: NDArray[np.float32], separator: str) -> Sequence[Any]:
    """One line a row: the id, `separator`, and the entries apart by single spaces.

    Entries are the shortest decimals that read back to the same float32.
    """
    columns = [pc.cast(pa.array(column), pa.string()) for column in vectors.T.copy()]
    numbers = pc.binary_join_element_wise(*columns, " ")
    lines: Sequence[Any] = pc.binary_join_element_wise(
        first.cast(pa.string()), numbers, separator
    ).to_pylist()
    return lines
