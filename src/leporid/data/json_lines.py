"""JSON lines: one object per line, whose values are columns.

Python's own parser reads thousands of lines at a time: it keeps whole numbers of any length and
text that looks like a date as they are, and values that no role needs may be anything.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeAlias

import pyarrow as pa

from leporid.data.delimited import LONGEST_ROW, EncodingError, NoRowsError, too_long
from leporid.data.files import SourceFile
from leporid.data.frames import Column, converted
from leporid.errors import DataError, shortened

_LINES_AT_ONCE = 10_000
_Objects: TypeAlias = list[dict[str, object]]


def first_names(file: SourceFile, encoding: str) -> list[str]:
    """Return the names in the first lines; a file without rows is a `NoRowsError`."""
    for objects in _blocks(file, encoding):
        return list(dict.fromkeys(name for each in objects for name in each))
    raise NoRowsError(f"{file.path} has no rows")


class JsonColumns:
    """Columns of JSON lines, read file by file."""

    def __init__(self, wanted: list[str], encoding: str) -> None:
        self.wanted = wanted
        self._encoding = encoding
        self._parts: dict[str, list[Column]] = {name: [] for name in wanted}
        self.names: dict[str, None] = {}
        """All names that occur."""

    def read(self, file: SourceFile, partitions: Mapping[str, str | None]) -> None:
        """Add the rows of a file; each of `partitions` is a column with one value."""
        for objects in _blocks(file, self._encoding):
            self.names |= dict.fromkeys(set().union(*objects))
            for name, parts in self._parts.items():
                fallback = partitions.get(name)
                values = [each.get(name, fallback) for each in objects]
                parts.append(converted(values, f"{file.path}, column {name!r}"))

    def table(self, origin: str) -> pa.Table:
        """Return the columns; one that holds several kinds of values is refused."""
        columns = {
            name: _joined(parts, f"{origin}, column {name!r}")
            for name, parts in self._parts.items()
        }
        return pa.table(columns)


def _joined(parts: Sequence[Column], where: str) -> pa.ChunkedArray:
    """Join the blocks of a column: numbers with a fraction may stand among whole ones."""
    types = {part.type for part in parts if not pa.types.is_null(part.type)}
    if types == {pa.int64(), pa.float64()}:
        types = {pa.float64()}
    if len(types) > 1:
        first, second = sorted(map(str, types))[:2]
        raise DataError(
            f"{where} holds both {first} and {second}: convert all of it to one kind, for "
            f"example to text"
        )
    joined_type = types.pop() if types else pa.null()
    return pa.chunked_array([part.cast(joined_type) for part in parts], joined_type)


def _blocks(file: SourceFile, encoding: str) -> Iterator[_Objects]:
    """Yield the objects of some lines at a time; blank lines are passed over."""
    with file.open() as content:
        try:
            text = io.TextIOWrapper(content, encoding, newline="\n")
        except LookupError as error:
            raise EncodingError(file.path, encoding, f" ({error})") from None
        lines = iter(partial(text.readline, LONGEST_ROW), "")
        first = 1
        try:
            while block := list(islice(lines, _LINES_AT_ONCE)):
                objects = _parsed(block, first, file.path)
                first += len(block)
                if objects:
                    yield objects
        except UnicodeError as error:
            raise EncodingError(file.path, encoding, f" ({error})") from None


def _parsed(block: Sequence[str], first: int, path: str) -> _Objects:
    """Parse lines together; if that fails, find the line that is wrong."""
    lines = [line.strip("\ufeff \t\r\n") for line in block]
    filled = [line for line in lines if line]
    try:
        objects: _Objects = json.loads(f"[{','.join(filled)}]")
    except (ValueError, RecursionError):
        objects = []
    one_each = all(line[0] == "{" and line[-1] == "}" for line in filled)
    if one_each and len(objects) == len(filled):
        return objects
    for number, line in enumerate(lines, first):
        _check_line(line, f"{path}, line {number}")
    raise DataError(
        f"{path}: an object goes over several lines: write one on each line"
    )


def _check_line(line: str, where: str) -> None:
    """Refuse a line that is no object."""
    if len(line) >= LONGEST_ROW - 1:
        raise DataError(too_long(where))
    try:
        is_object = not line or isinstance(json.loads(line), dict)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: this is no JSON object ({shortened(error, 80)}): write one object on each "
            f"line"
        ) from None
    if not is_object:
        raise DataError(
            f'{where}: expected a JSON object such as {{"user": 1, "item": 2}}, got '
            f"{shortened(line, 40)}"
        )
