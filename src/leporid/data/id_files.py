"""`read_ids`: a list of ids from a text file or from a column of a table."""

import os
from typing import Any

import pyarrow as pa

from leporid.data.columns import USUAL_NAMES, find_column, normalise
from leporid.data.delimited import read_lines, text_table
from leporid.data.files import SourceFile, in_words, reading
from leporid.data.id_map import IdMap, uuids_as_text
from leporid.errors import DataError, UnknownIdError, warn
from leporid.foundation import checks_arguments


@checks_arguments()
def read_ids(
    path: str | os.PathLike[str],
    role: str = "user",
    column: str | None = None,
    among: IdMap | None = None,
) -> list[Any]:
    """Return the ids in a file, in its order, each once.

    A parquet, CSV or TSV file has them in `column`, else in its only column or in the one that
    looks like the `role` ("user" or "item"); any other file has one id per line. Ids that are not
    `among` those of a model are left out and counted in a warning.
    """
    with reading(path) as file:
        values = _id_values(file, role, column)
    ids = [value for value in dict.fromkeys(values) if value not in (None, "")]
    if not ids:
        raise DataError(f"{path} holds no {role} ids")
    if among is None:
        return ids
    index, unknown = among.split_known(ids)
    if len(index) == 0:
        raise UnknownIdError(
            f"the model knows none of the {len(ids):,} {role}s of {path}, the first is {ids[0]!r}"
        )
    if unknown:
        warn(
            f"{len(unknown):,} of {len(ids):,} {role}s of {path} are unknown to the model and left "
            f"out, the first is {unknown[0]!r}",
            3,
        )
    return list(among.externals(index))


def _id_values(
    file: SourceFile,
    role: str,
    column: str | None,
) -> list[Any]:
    if file.is_parquet():
        return _ids_of_parquet(file, role, column)
    if file.suffix not in (".csv", ".tsv"):
        return read_lines(file)
    table = text_table(file, "\t" if file.suffix == ".tsv" else ",")
    names = [values[0].as_py().strip() for values in table.columns]
    # A single column of text may begin with an id: only a usual name is taken for one.
    usual = ("id", *USUAL_NAMES[role].split())
    has_names = len(names) > 1 or column in names or normalise(names[0]) in usual
    position = find_column(names, role, column, file.path)
    values = [value.strip() for value in table.column(position).to_pylist()]
    return values[1:] if has_names else values


def _ids_of_parquet(
    file: SourceFile,
    role: str,
    column: str | None,
) -> list[Any]:
    with (
        in_words(file.path, "is not a whole parquet file"),
        file.parquet() as opened,
    ):
        names = opened.schema_arrow.names
        name = names[find_column(names, role, column, file.path)]
        values = opened.read([name]).column(0)
    if pa.types.is_nested(values.type):
        raise DataError(
            f"{file.path}: the column {name!r} has type {values.type}, no id"
        )
    ids = []
    for chunk in values.chunks:
        ids += uuids_as_text(chunk).to_pylist()
    return ids
