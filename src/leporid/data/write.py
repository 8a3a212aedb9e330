"""Interactions back into a file, with their external ids."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from leporid.artifacts import atomic_path
from leporid.data.interactions import Interactions
from leporid.errors import DataError

__all__ = ["to_table", "write_log"]


def to_table(data: Interactions) -> pa.Table:
    """The columns user_id, item_id and (where there are times) timestamp, in order."""
    columns = {
        "user_id": data.users.ids.take(pa.array(data.user)),
        "item_id": data.items.ids.take(pa.array(data.item)),
    }
    if data.time is not None:
        columns["timestamp"] = pa.array(data.time)
    return pa.table(columns)


def write_log(data: Interactions, path: str | Path) -> Path:
    """Write parquet, CSV, TSV or RecBole `.inter`, by the ending; atomically.

    `load` of the file gives the same interactions.
    """
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pa_parquet

    path = Path(path)
    table = to_table(data)
    if path.suffix not in (".parquet", ".csv", ".tsv", ".inter"):
        raise DataError(f"cannot write {path}: use the ending .parquet, .csv, .tsv or .inter")
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pa_parquet.write_table(table, temporary, compression="zstd")
            return path
        if path.suffix == ".inter":
            kinds = {"user_id": "token", "item_id": "token", "timestamp": "float"}
            table = table.rename_columns([f"{name}:{kinds[name]}" for name in table.column_names])
        separator = "," if path.suffix == ".csv" else "\t"
        options = pa_csv.WriteOptions(
            include_header=False,
            delimiter=separator,
            quoting_style="none" if path.suffix == ".inter" else "needed",
        )
        with open(temporary, "wb") as file:
            # pyarrow would quote the names; programs and people expect them bare.
            file.write((separator.join(table.column_names) + "\n").encode())
            pa_csv.write_csv(table, file, write_options=options)
    return path
