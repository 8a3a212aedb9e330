"""Logs in delimited text, one file or the parts of a folder, whole or some megabytes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.csv as pa_csv

from leporid.data.columns import Asked, Columns, RawTable, find_columns, listed
from leporid.data.log_parts import Part, Partitions, constant
from leporid.data.text_files import MISSING, Layout, NoRowsError, batches_of, look, table_of
from leporid.errors import DataError


def read_text(parts: Sequence[Part], origin: str, asked: Asked) -> RawTable:
    """The user, item, time and (if asked for) rating and weight columns of delimited files, one
    below the other."""
    if len(parts) == 1 and not parts[0].partitions:
        plan = _Plan.of(parts[0], asked, inferred=True)
        return plan.raw(table_of(plan.layout, plan.convert), origin)
    raws = []
    for plan in _plans(parts, asked):
        with suppress(NoRowsError):
            raws.append(plan.raw(table_of(plan.layout, plan.convert), origin))
    if not raws:
        raise DataError(f"{origin} has no rows")
    report = replace(raws[0].report, rows=sum(raw.report.rows for raw in raws))
    columns = {
        role: pa.chunked_array([chunk for raw in raws for chunk in raw.columns[role].chunks])
        for role in raws[0].columns
    }
    return RawTable(columns, report)


def text_batches(parts: Sequence[Part], origin: str, asked: Asked) -> Iterator[RawTable]:
    """What `read_text` reads, some megabytes of text at a time; `report.rows` are those."""
    for plan in _plans(parts, asked):
        with suppress(NoRowsError):
            for batch in batches_of(plan.layout, plan.convert):
                yield plan.raw(pa.Table.from_batches([batch]), origin)


@dataclass(frozen=True)
class _Plan:
    """How the columns that matter are read from one file."""

    layout: Layout
    columns: Columns
    convert: pa_csv.ConvertOptions
    partitions: Partitions

    @classmethod
    def of(cls, part: Part, asked: Asked, *, inferred: bool) -> _Plan:
        """By the beginning of the file; the type of times is `inferred`, or text."""
        layout = look(part.file, asked.separator, asked.header, asked.encoding)
        origin = str(part.file.path)
        if len(layout.names) < 2:
            raise DataError(
                f"{origin}, line {layout.line - layout.header}: found one column where at least a "
                f"user and an item are needed, splitting at {layout.separator!r}: give the "
                f"separator"
            )
        first_row = None if layout.header else layout.first_row
        partitions = {k: v for k, v in part.partitions.items() if k not in layout.names}
        names = [*layout.names, *partitions]
        columns = find_columns(names, asked, origin, first_row)
        # Ids come as dictionaries: small, and '007' stays '007'.
        ids = pa.dictionary(pa.int32(), pa.string())
        types = {"user": ids, "item": ids, "rating": pa.float64(), "weight": pa.float64()}
        types |= {} if inferred else {"time": pa.string()}
        places = {role: at for role, at in columns.places.items() if at < len(layout.names)}
        convert = pa_csv.ConvertOptions(
            include_columns=[f"c{place}" for place in places.values()],
            column_types={f"c{places[role]}": types[role] for role in places if role in types},
            null_values=list(MISSING),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return cls(layout, columns, convert, partitions)

    def raw(self, table: pa.Table, origin: str) -> RawTable:
        """The columns as read, and those that the folders of the file name."""
        named = list(self.partitions)
        for place, at in enumerate(self.columns.places.values()):
            if at >= len(self.layout.names):
                name = named[at - len(self.layout.names)]
                column = constant(self.partitions[name], table.num_rows)
                table = table.add_column(place, name, column)
        text = {"separator": self.layout.separator, "header": self.layout.header}
        return RawTable.of(table, self.columns, origin, "text", **text)


def _plans(parts: Sequence[Part], asked: Asked) -> Iterator[_Plan]:
    """One for each file with rows; the first says how the others are laid out."""
    first: _Plan | None = None
    for part in parts:
        try:
            plan = _Plan.of(part, asked, inferred=False)
        except NoRowsError:
            continue
        if first is None:
            first, layout = plan, plan.layout
            asked = asked._replace(separator=layout.separator, header=layout.header)
        elif plan.columns != first.columns:
            names = listed(plan.columns.names.values())
            raise DataError(
                f"{part.file.path} has the columns {names}, and {first.layout.file.path} "
                f"{listed(first.columns.names.values())}: the files of a log have the same"
            )
        yield plan
