"""Interactions back into a file, with their external ids."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from leporid.artifacts import atomic_path
from leporid.data.interactions import Interactions
from leporid.errors import DataError


def write_log(data: Interactions, path: str | Path) -> Path:
    """Write parquet, CSV, TSV or RecBole `.inter`, by the ending; atomically.

    The columns are user_id, item_id and, where there are times and weights, timestamp and weight.
    `load` of the file gives the same interactions: with `weight="weight"`, and with
    `duplicates="all"` where there are repeats.
    """
    path = Path(path)
    if path.suffix not in (".parquet", ".csv", ".tsv", ".inter"):
        raise DataError(f"cannot write {path}: use the ending .parquet, .csv, .tsv or .inter")
    columns = {"user_id": data.users.ids.take(pa.array(data.user))}
    columns["item_id"] = data.items.ids.take(pa.array(data.item))
    if data.time is not None:
        columns["timestamp"] = pa.array(data.time)
    if data.weight is not None:
        columns["weight"] = pa.array(data.weight)
    table, is_inter = pa.table(columns), path.suffix == ".inter"
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pa_parquet.write_table(table, temporary, compression="zstd")
            return path
        kinds = {"user_id": ":token", "item_id": ":token"}
        names = [name + kinds.get(name, ":float") * is_inter for name in columns]
        separator = "," if path.suffix == ".csv" else "\t"
        options = pa_csv.WriteOptions(
            include_header=False,
            delimiter=separator,
            quoting_style="none" if is_inter else "needed",
        )
        with open(temporary, "wb") as file:
            # pyarrow would quote the names; programs and people expect them bare.
            file.write((separator.join(names) + "\n").encode())
            pa_csv.write_csv(table, file, write_options=options)
    return path
