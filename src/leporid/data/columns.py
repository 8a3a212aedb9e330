"""Which column is the user, item, time, rating, weight and event; the table of those columns."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.errors import DataError, article, closest, shortened


class Asked(NamedTuple):
    """What the caller said of a log."""

    columns: Mapping[str, str | int | None]
    """Role to the name or position of its column, where the caller named one."""
    need_rating: bool
    separator: str | None = None
    header: bool | None = None
    encoding: str = "utf-8"


USUAL_NAMES: Mapping[str, str] = {
    "user": "userid user uid users useridx userindex reviewerid customerid customer memberid "
    "member visitorid accountid account profileid playerid personid clientid username usersha1 "
    "author reviewer sessionid session",
    "item": "itemid item iid items itemidx itemindex movieid movie animeid anime productid "
    "product asin parentasin trackid track songid song artistid artist bookid book isbn "
    "businessid gameid game appid app articleid article newsid videoid video poiid venueid "
    "locationid recipeid beerid sku productname title name",
    "time": "timestamp time ts datetime date timestamps unixtime unixtimestamp unixreviewtime "
    "reviewtime ratingtimestamp eventtime createdat ratedat watchedat playedat lastupdated "
    "createdtime dateadded",
    "rating": "rating ratings score stars overall myscore ratingvalue grade preference",
}
"""Spellings after `normalise`, the surest first."""

_POSITIONS: Mapping[int, tuple[str, ...]] = {
    2: ("user", "item"),
    3: ("user", "item", "rating"),
    4: ("user", "item", "rating", "time"),
}
"""What the columns of a file without a header mean, as in MovieLens' u.data and ratings.dat."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d.*")
_TIME_NAME = re.compile(r"(?i:.*[_ -](at|time|date|ts))|.*[a-z0-9](At|Time|Date|Ts)")
"""created_at, EventTime, order-date."""
_EARLIEST_TIME = 19_000_101
"""A third column this large is a time (in seconds, or 20240227), not a rating."""


@dataclass(frozen=True)
class LoadReport:
    """What was read, and what had to be guessed to read it."""

    origin: str
    """The path, the data set name, or the kind of object."""
    format: str
    """'text', 'parquet', 'frame' or 'matrix'."""
    columns: Mapping[str, str]
    """Role ('user', 'item', 'time', 'rating', 'weight', 'event') to the name of its column."""
    guessed: tuple[str, ...]
    """The roles whose column the caller did not name."""
    rows: int
    """Rows in the source, before any policy."""
    separator: str | None = None
    """Between the fields of a text file."""
    header: bool | None = None
    """Whether a text file begins with names."""
    time_unit: str | None = None
    """'as given' or 'microseconds'; None without times."""
    ignored: tuple[str, ...] = ()
    """The columns without a role."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-able values."""
        return {
            **asdict(self),
            "columns": dict(self.columns),
            "guessed": list(self.guessed),
        }

    def sentence(self) -> str:
        """What was guessed and what is not read, in one line; empty where neither is so."""
        parts = [f"{role}={self.columns[role]}" for role in self.guessed]
        if parts and self.separator is not None:
            shown = {"\t": "tab", " ": "space"}.get(
                self.separator, f"'{self.separator}'"
            )
            parts += [f"separator={shown}", f"header={'yes' if self.header else 'no'}"]
        said = [f"guessed: {', '.join(parts)}"] if parts else []
        said += [f"not read: {listed(self.ignored)}"] if self.ignored else []
        return "; ".join(said)


class RawTable(NamedTuple):
    """The columns that matter, before any policy."""

    columns: dict[str, pa.ChunkedArray]
    """Role to values; 'user' and 'item' are always there."""
    report: LoadReport
    shape: tuple[int, int] | None = None
    """Of a matrix, whose ids are positions."""

    @classmethod
    def of(cls, table: pa.Table, roles: Iterable[str], report: LoadReport) -> Self:
        """A table with a column for each of `roles`, in that order."""
        columns = dict(zip(roles, table.columns, strict=True))
        if "weight" in report.columns:  # a column that is the rating too is read once
            columns.setdefault("weight", columns.get("rating"))
        return cls(columns, replace(report, rows=table.num_rows))


def frame_columns(source: Any, expected: str) -> dict[str, Any]:
    """The columns of a table in memory by name, not yet converted; no package is imported."""
    try:
        if hasattr(source, "collect_schema") and hasattr(
            source, "collect"
        ):  # polars.LazyFrame
            source = source.collect()
        if isinstance(source, Mapping):
            return {str(name): column for name, column in source.items()}
        if type(source).__module__.split(".")[0] == "pandas":
            return {str(name): source.iloc[:, n] for n, name in enumerate(source)}
        if type(source).__module__.split(".")[0] == "polars":
            return {name: source[name] for name in source.columns}
        table = pa.table(source)
        return dict(zip(table.column_names, table.columns, strict=True))
    except MemoryError:
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        kind = article(type(source).__name__)
        raise DataError(
            f"cannot load {kind}: {expected} ({shortened(error)})"
        ) from None


def converted(column: Any, where: str) -> pa.Array | pa.ChunkedArray:
    """One column as Arrow has it; `where` it is, for messages."""
    try:
        return as_arrow(column)
    except MemoryError:
        raise
    except OverflowError:
        raise DataError(
            f"{where} holds an integer beyond 64 bits: give ids as text and other numbers as floats"
        ) from None
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where} holds text that UTF-8 cannot encode, {shortened(ascii(error.object))}: "
            f"replace the lone surrogate in it"
        ) from None
    except MixedColumnError as error:
        raise DataError(f"{where} holds {error}") from None
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"{where} cannot be read as one column, convert it to text or to numbers: "
            f"{shortened(error)}"
        ) from None


class MixedColumnError(TypeError):
    """The values of a column are of several kinds, such as numbers and text."""


_KINDS: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "bytes": (bytes,),
    "booleans": (bool, np.bool_),
    "durations": (timedelta, np.timedelta64),
    "numbers": (int, float, Decimal, np.integer, np.floating),
    "NumPy datetimes": (np.datetime64,),
    "datetimes": (datetime,),
    "dates": (date,),
    "times of day": (time,),
    "nothing": (type(None),),
}
"""Kinds of values that stand in one column; the first that fits counts."""
_NOTHING = {"NAType", "NaTType"}
"""What pandas writes for a missing value."""


def as_arrow(column: Any) -> pa.Array | pa.ChunkedArray:
    """A column as Arrow has it; Python values in it must be of one kind, or missing.

    pyarrow stops the process where NumPy's datetimes stand beside NumPy's numbers, and takes what
    stands beside dates for dates.
    """
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if isinstance(column, str | bytes | Mapping | set | frozenset):
        raise TypeError(
            f"{article(type(column).__name__)} is no column, give a list or an array"
        )
    if hasattr(column, "dtype"):
        categories = hasattr(column.dtype, "categories")
        if categories and type(column).__module__.split(".")[0] == "pandas":
            as_arrow(column.dtype.categories)
        if str(column.dtype) not in ("object", "Object"):
            return pa.array(column)
    values = list(column)
    kinds = _kinds(values)
    if len(kinds) > 1:
        values = [None if _is_nan(value) else value for value in values]
        kinds = _kinds(values)
    _check_one_kind(kinds)
    if "NumPy datetimes" in kinds:
        return pa.array(_microseconds(values))
    _check_inside(values)
    return pa.array(values, from_pandas=True)


def _kinds(values: Iterable[Any]) -> dict[str, Any]:
    """The kinds of the values that are not missing, each with a value of it."""
    found = {}
    for kind, value in {type(value): value for value in values}.items():
        names = (name for name, types in _KINDS.items() if issubclass(kind, types))
        found[next(names, kind.__name__)] = value
    return {
        name: value
        for name, value in found.items()
        if name != "nothing" and type(value).__name__ not in _NOTHING
    }


def _check_one_kind(kinds: Mapping[str, Any]) -> None:
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise MixedColumnError(
            f"both {one} and {other}, such as {shortened(repr(first), 60)} and "
            f"{shortened(repr(second), 60)}: convert all of them to one kind, for example to text"
        )


def _check_inside(values: Iterable[Any]) -> None:
    """Refuse NumPy datetimes beside anything else in lists, arrays and mappings."""
    inner: list[Any] = []
    for value in values:
        if isinstance(value, Mapping):
            inner.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            inner.extend(value)
        elif isinstance(value, np.ndarray):
            inner.extend(value.ravel() if value.dtype == object else value.ravel()[:1])
    if inner:
        kinds = _kinds(inner)
        if "NumPy datetimes" in kinds:
            _check_one_kind(kinds)
        _check_inside(inner)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating | np.datetime64) and bool(
        value != value
    )


def _microseconds(values: list[Any]) -> NDArray[np.datetime64]:
    """datetime64[us]: datetimes of any unit; NumPy would let those that are too large wrap."""
    values = [None if type(value).__name__ in _NOTHING else value for value in values]
    times, seconds = (
        np.array(values, "datetime64[us]"),
        np.array(values, "datetime64[s]"),
    )
    if not np.array_equal(times.astype("datetime64[s]"), seconds, equal_nan=True):
        raise ValueError("a time is too far from 1970 for 64 bits of microseconds")
    return times


def _bare(name: str) -> str:
    """The name without its RecBole type."""
    return name.strip().split(":")[0]


def normalise(name: str) -> str:
    """'User-ID', 'user_id:token' and 'userId' are all 'userid'."""
    return re.sub(r"[^0-9a-z]", "", _bare(name).lower())


def looks_like_header(fields: Sequence[str]) -> bool:
    """A first line with a usual name, or without any number or date, is a header."""
    if position_of(fields, " ".join(USUAL_NAMES.values())) is not None:
        return True
    values = [field.strip() for field in fields]
    return not any(
        _NUMBER.fullmatch(value) or _DATE.fullmatch(value) for value in values
    )


def find_columns(
    names: Sequence[str],
    asked: Asked,
    origin: str,
    kind: str,
    first_row: Sequence[str] | None = None,
) -> tuple[dict[str, int], LoadReport]:
    """The position of each column to read, by its role, each once; and what was found.

    `names` are placeholders where there is no header; then `first_row` is the first line. The
    report also names ratings that need not be read.
    """
    positions = {
        role: _requested_position(names, column, role, origin)
        for role, column in asked.columns.items()
        if column is not None and role != "weight"
    }
    by_place, guessed = _guess_by_position(first_row or ()), []
    for role, usual in USUAL_NAMES.items():
        guess = position_of(names, usual) if first_row is None else by_place.get(role)
        if guess is None and role == "time" and first_row is None:
            matching = (
                n for n, name in enumerate(names) if _TIME_NAME.fullmatch(_bare(name))
            )
            guess = next(matching, None)
        if (
            guess is not None
            and role not in positions
            and guess not in positions.values()
        ):
            positions[role] = guess
            guessed.append(role)
    for role in ("user", "item"):
        if role not in positions:
            raise DataError(
                f"{origin} has no column that looks like the {role} (columns found: "
                f"{listed(names)}): name it with {role}=... (--{role} on the command line)"
            )
    weight = asked.columns.get("weight")
    if weight == "rating" and first_row is not None:  # no column has a name
        weight = positions.get("rating", weight)
    if weight is not None:
        positions["weight"] = _requested_position(names, weight, "weight", origin)
    roles_read = (*USUAL_NAMES, "weight", "event")
    named = {role: names[positions[role]] for role in roles_read if role in positions}
    is_rating = weight is not None and positions["weight"] == positions.get("rating")
    if len(set(positions.values())) < len(positions) - is_rating:
        roles = listed(f"{role}={name}" for role, name in named.items())
        raise DataError(f"{origin}: two roles have the same column: {roles}")
    unread = "rating" if not asked.need_rating else "weight" if is_rating else None
    read = {role: positions[role] for role in named if role != unread}
    used = {*positions.values()}
    ignored = tuple(name for n, name in enumerate(names) if n not in used)
    return read, LoadReport(
        origin, kind, named, tuple(guessed), rows=0, ignored=ignored
    )


def listed(names: Iterable[str]) -> str:
    """The names of columns, for a message."""
    return shortened(", ".join(names), 500)


def find_column(
    names: Sequence[str], role: str, column: str | int | None, origin: str
) -> int:
    """The position of one column: the one the caller named, the only one, or the usual one."""
    if column is not None:
        return _requested_position(names, column, role, origin)
    if len(names) == 1:
        return 0
    if (position := position_of(names, USUAL_NAMES[role])) is not None:
        return position
    raise DataError(
        f"{origin} has no column that looks like the {role} (columns found: {listed(names)}): "
        f"name it"
    )


def _requested_position(
    names: Sequence[str], column: str | int, role: str, origin: str
) -> int:
    """The position of a column the caller named: exactly, then without its RecBole type."""
    if isinstance(column, int) or (column not in names and column.isdigit()):
        if 0 <= int(column) < len(names):
            return int(column)
    elif column in names:
        return names.index(column)
    elif column in (bare := [_bare(name) for name in names]):
        return bare.index(column)
    guess = closest(str(column), list(names))
    hint = f"; did you mean {guess!r}?" if guess else ""
    found = f"(columns found: {listed(names)})"
    raise DataError(f"{origin} has no column {column!r} for the {role} {found}{hint}")


def position_of(names: Sequence[str], usual_names: str) -> int | None:
    """The column with the first of `usual_names` that there is, in any spelling."""
    spelled = [normalise(name) for name in names]
    usual = (normalise(name) for name in usual_names.split())
    return next((spelled.index(name) for name in usual if name in spelled), None)


def _guess_by_position(first_row: Sequence[str]) -> dict[str, int]:
    roles = _POSITIONS.get(len(first_row), ())
    if len(first_row) == 3:
        third = first_row[2].strip()
        if not _NUMBER.fullmatch(third) or float(third) >= _EARLIEST_TIME:
            roles = ("user", "item", "time")
    return {role: position for position, role in enumerate(roles)}
