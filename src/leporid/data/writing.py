"""`write_log`: interactions, back to a file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from leporid.data.interactions import Interactions
from leporid.errors import ConfigError, DataError
from leporid.foundation import atomic_path, checks_arguments, described


@checks_arguments()
def write_log(data: Interactions | pa.Table, path: str | Path) -> Path:
    """Write parquet, CSV, TSV or RecBole `.inter`, by the ending; atomically.

    The columns are those of a table, or user_id, item_id and, where known, timestamp and weight.
    `load` of the file gives the same interactions: with `weight="weight"`, and with
    `duplicates="all"` where there are repeats. Where there is a column `event` (`to_table`), with
    `event="event", weights={"target": 1, "other": 1, "disliked": -1}, target_events="target"`.
    """
    if not isinstance(data, Interactions | pa.Table):
        raise ConfigError(
            f"write_log: data must be Interactions or an Arrow table, not {described(data)}"
        )
    path = Path(path)
    if path.suffix not in (".parquet", ".csv", ".tsv", ".inter"):
        raise DataError(
            f"cannot write {path}: use the ending .parquet, .csv, .tsv or .inter"
        )
    table = data if isinstance(data, pa.Table) else data.to_table()
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pa_parquet.write_table(table, temporary, compression="zstd")
            return path
        names = list(table.column_names)
        if path.suffix == ".inter":
            names = [_recbole_name(name) for name in names]
        separator = "," if path.suffix == ".csv" else "\t"
        options = pa_csv.WriteOptions(
            include_header=False,
            delimiter=separator,
            quoting_style="none" if path.suffix == ".inter" else "needed",
        )
        with open(temporary, "wb") as file:
            # pyarrow would quote the names; programs expect them bare.
            file.write((separator.join(names) + "\n").encode())
            pa_csv.write_csv(table, file, write_options=options)
    return path


def _recbole_name(name: str) -> str:
    """Return the name of a column with its type, as RecBole writes it."""
    is_token = name in ("user_id", "item_id", "event")
    return f"{name}:token" if is_token else f"{name}:float"
