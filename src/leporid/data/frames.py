"""Tables in memory: frames, Arrow tables and columns by name, converted to Arrow and back."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.errors import DataError, article, shortened

Column: TypeAlias = pa.Array | pa.ChunkedArray
Values: TypeAlias = Iterable[object]
"""What somebody gives as a column: an array, a series, a list."""
Frame: TypeAlias = Any
"""A pandas or polars data frame, or a pyarrow table: of the kind that the caller gave."""


@runtime_checkable
class _Lazy(Protocol):
    """A frame that is not computed yet: polars.LazyFrame."""

    def collect_schema(self) -> object: ...
    def collect(self) -> object: ...


@runtime_checkable
class _HasColumns(Protocol):
    """A data frame of pandas or polars, a pyarrow table, a DuckDB relation."""

    columns: object


@runtime_checkable
class _HasSchema(Protocol):
    """A reader of record batches, whose columns come later."""

    schema: object


def is_frame(value: object) -> bool:
    """Return whether a value has named columns: a frame, a table, a relation, a mapping."""
    # A lazy frame is asked first: looking at its columns would compute its schema.
    return isinstance(value, _Lazy | Mapping | _HasColumns | _HasSchema)


def collected(source: object) -> Frame:
    """Return a pandas or polars frame as it is, and any other table in memory as an Arrow table.

    A lazy frame is computed, and a reader is read to its end.
    """
    if isinstance(source, _Lazy):
        source = source.collect()
    if _package(source) in ("pandas", "polars"):
        return source
    columns = frame_columns(source, "give a frame or columns by name")
    arrays = {
        name: converted(column, f"column {name!r}") for name, column in columns.items()
    }
    return pa.table(arrays)


def frame_like(source: object, table: pa.Table) -> Frame:
    """Return an Arrow table as the kind of frame or series that `source` is, or as it is."""
    package = _package(source)
    if package == "pandas":
        return table.to_pandas()
    if package == "polars":
        import polars

        return polars.from_arrow(table)
    return table


def with_column(frame: Frame, name: str, values: pa.Array) -> Frame:
    """Return what `collected` gave with one more column; the frame itself is not changed."""
    package = _package(frame)
    if package == "pandas":
        longer = frame.copy(deep=False)
        longer[name] = values.to_numpy(zero_copy_only=False)
        return longer
    if package == "polars":
        import polars

        return frame.with_columns(polars.Series(name, values))
    return frame.append_column(name, values)


def _package(source: object) -> str:
    return type(source).__module__.split(".")[0]


def frame_columns(source: object, expected: str) -> dict[str, Values]:
    """Return the columns of a table in memory by name, not yet converted.

    No package is imported for it. `expected` says what to give instead, for errors.
    """
    try:
        if isinstance(source, _Lazy):
            source = source.collect()
        if isinstance(source, Mapping):
            return {str(name): column for name, column in source.items()}
        package = _package(source)
        if package == "pandas":
            return _pandas_columns(source)
        if package == "polars":
            return _polars_columns(source)
        table = pa.table(source)
        return dict(zip(table.column_names, table.columns, strict=True))
    except MemoryError:
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        kind = article(type(source).__name__)
        raise DataError(
            f"cannot load {kind}: {expected} ({shortened(error)})"
        ) from None


def converted(column: Values, where: str) -> Column:
    """Convert one column to Arrow; `where` says which one it is, for errors."""
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


def _pandas_columns(frame: Frame) -> dict[str, Values]:
    return {str(name): frame.iloc[:, n] for n, name in enumerate(frame)}


def _polars_columns(frame: Frame) -> dict[str, Values]:
    return {name: frame[name] for name in frame.columns}


@runtime_checkable
class _TypedColumn(Protocol):
    """A column that says what it holds: an array of NumPy, a series of pandas or polars."""

    dtype: object


@runtime_checkable
class _Categorical(Protocol):
    """The type of a column of categories."""

    categories: Values


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


def as_arrow(column: Values) -> Column:
    """Convert a column to Arrow; Python values in it must be of one kind, or missing.

    pyarrow stops the process where NumPy's datetimes stand beside NumPy's numbers, and takes what
    stands beside dates for dates.
    """
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if isinstance(column, str | bytes | Mapping | set | frozenset):
        raise TypeError(
            f"{article(type(column).__name__)} is no column, give a list or an array"
        )
    if isinstance(column, _TypedColumn):
        package = type(column).__module__.split(".")[0]
        if package == "pandas" and isinstance(column.dtype, _Categorical):
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
    if not kinds.keys() <= _KINDS.keys():
        _check_inside(values)
    return pa.array(values, from_pandas=True)


def _kinds(values: Values) -> dict[str, object]:
    """Return the kinds of the values that are not missing, each with one of its values."""
    example_by_type = {type(value): value for value in values}
    example_by_kind: dict[str, object] = {}
    for value_type, example in example_by_type.items():
        if value_type.__name__ in _NOTHING:
            continue
        kind = value_type.__name__
        for name, types in _KINDS.items():
            if issubclass(value_type, types):
                kind = name
                break
        example_by_kind[kind] = example
    example_by_kind.pop("nothing", None)
    return example_by_kind


def _check_one_kind(kinds: Mapping[str, object]) -> None:
    if len(kinds) > 1:
        (kind, value), (other_kind, other_value) = list(kinds.items())[:2]
        raise MixedColumnError(
            f"both {kind} and {other_kind}, such as {shortened(repr(value), 60)} and "
            f"{shortened(repr(other_value), 60)}: convert all of them to one kind, for example to "
            f"text"
        )


def _check_inside(values: Values) -> None:
    """Refuse NumPy datetimes beside anything else in lists, arrays and mappings."""
    inner: list[object] = []
    for value in values:
        if isinstance(value, Mapping):
            inner.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            inner.extend(value)
        elif isinstance(value, np.ndarray):
            is_mixed = value.dtype == object
            inner.extend(value.ravel() if is_mixed else value.ravel()[:1])
    if inner:
        kinds = _kinds(inner)
        if "NumPy datetimes" in kinds:
            _check_one_kind(kinds)
        _check_inside(inner)


def _is_nan(value: object) -> bool:
    is_float = isinstance(value, float | np.floating | np.datetime64)
    return is_float and bool(value != value)


def _microseconds(values: list[object]) -> NDArray[np.datetime64]:
    """Return datetime64[us] of any unit; NumPy would let those that are too large wrap."""
    known = [None if type(value).__name__ in _NOTHING else value for value in values]
    times = np.array(known, "datetime64[us]")
    seconds = np.array(known, "datetime64[s]")
    if not np.array_equal(times.astype("datetime64[s]"), seconds, equal_nan=True):
        raise ValueError("a time is too far from 1970 for 64 bits of microseconds")
    return times
