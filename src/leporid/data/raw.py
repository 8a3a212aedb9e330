"""`RawTable`: the columns of a source before any policy, and the record of how they were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

__all__ = ["LoadReport", "RawTable"]


@dataclass(frozen=True)
class LoadReport:
    """What was read, and what had to be guessed to read it."""

    origin: str
    """The path, the data set name, or the kind of object."""
    format: str
    """'text', 'parquet', 'frame' or 'matrix'."""
    columns: Mapping[str, str]
    """Role ('user', 'item', 'time', 'rating') to the name of its column."""
    guessed: tuple[str, ...]
    """The roles whose column was found rather than given."""
    rows: int
    """Rows in the source, before any policy."""
    separator: str | None = None
    """Between the fields of a text file."""
    header: bool | None = None
    """Whether a text file begins with names."""
    time_unit: str | None = None
    """'as given' or 'microseconds'; None without times."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-able values."""
        return {**asdict(self), "columns": dict(self.columns), "guessed": list(self.guessed)}

    def sentence(self) -> str:
        """What was guessed, in one line for people; empty where nothing was."""
        if not self.guessed:
            return ""
        parts = [f"{role}={self.columns[role]}" for role in self.guessed]
        if self.separator is not None:
            shown = {"\t": "tab", " ": "space"}.get(self.separator, f"'{self.separator}'")
            parts += [f"separator={shown}", f"header={'yes' if self.header else 'no'}"]
        return "guessed: " + ", ".join(parts)


@dataclass(frozen=True)
class RawTable:
    """The columns that matter, as they were found."""

    columns: Mapping[str, pa.ChunkedArray]
    """Role to values; 'user' and 'item' are always there."""
    report: LoadReport
