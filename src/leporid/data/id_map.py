"""External ids stop here: inside the library everything is a contiguous int.

`read_ids` reads a list of ids from a text file or from a column of a table.
"""

import hashlib
import os
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.arguments import checks_arguments, described, is_table
from leporid.data.columns import USUAL_NAMES, find_column, normalise
from leporid.data.delimited import read_lines, text_table
from leporid.data.files import SourceFile, in_words, reading
from leporid.data.frames import as_arrow
from leporid.errors import DataError, UnknownIdError, article, warn


@dataclass(frozen=True, eq=False)
class IdMap:
    """Distinct external ids in sorted order; the position of an id is its index.

    Ids are 64-bit integers or strings; a UUID is its usual text.
    """

    ids: pa.Array
    """int64 or string, distinct and ascending, no nulls."""
    kind: str = "id"
    """'user' or 'item': the word error messages use."""
    dropped: Self | None = None
    """The ids that a core filter has dropped, so that errors can say so."""
    core: int = 0
    """The k of that filter; 0 where nothing was dropped."""

    @classmethod
    def from_values(cls, values: Any, kind: str = "id") -> Self:
        """The distinct values of a pyarrow/numpy array or a sequence of ids."""
        try:
            array = _as_array(values)
            whole = pa.types.is_integer(array.type) or pa.types.is_null(array.type)
            distinct = pc.unique(array.cast(pa.int64() if whole else pa.string()))
        except (
            pa.ArrowException,
            OverflowError,
            TypeError,
            UnicodeEncodeError,
        ) as error:
            raise DataError(
                f"{kind} ids must be 64-bit integers or text: {error}"
            ) from None
        if distinct.null_count:
            raise DataError(f"{article(kind)} id is missing")
        return cls(distinct.take(pc.sort_indices(distinct)), kind)

    @classmethod
    def range(cls, n: int, kind: str = "id") -> Self:
        """The ids 0 .. n-1, for matrices that come without names."""
        return cls(pa.array(np.arange(n, dtype=np.int64)), kind)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return (
            f"IdMap({len(self):,} {self.kind}s, {'int' if self.is_integer else 'str'})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdMap) and self.ids.equals(other.ids)

    @property
    def is_integer(self) -> bool:
        return bool(pa.types.is_integer(self.ids.type))

    @cached_property
    def values(self) -> NDArray[Any]:
        """The external ids as a numpy array (int64, or object for strings)."""
        return np.asarray(self.ids.to_numpy(zero_copy_only=False))

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {value: index for index, value in enumerate(self.ids.to_pylist())}

    def encode(self, values: Any) -> NDArray[np.int32]:
        """Indices of a whole column of ids, -1 where an id is unknown; '42' is 42. Vectorised."""
        theirs, mine = _as_array(values), self.ids
        if mine.type != theirs.type:
            mine, theirs = mine.cast(pa.string()), theirs.cast(pa.string())
        positions = pc.index_in(theirs, value_set=mine)
        return np.asarray(pc.fill_null(positions, -1), dtype=np.int32)

    def index(self, external: Any) -> int:
        """The index of one id; '42' finds 42, '042' and ' 42 ' do not.

        An unknown id is an `UnknownIdError`, and several ids in place of one a `DataError`.
        """
        if isinstance(external, np.ndarray) and external.ndim == 0:
            external = external.item()
        if isinstance(external, np.generic):
            external = external.item()
        elif is_table(external) or (
            isinstance(external, Collection) and not isinstance(external, str | bytes)
        ):
            raise DataError(f"give one {self.kind} id, not {described(external)}")
        elif isinstance(external, pa.Scalar):
            external = external.as_py()
        key = external
        try:
            if not self.is_integer:
                key = str(key)
            elif isinstance(key, str):
                key = int(key)
                if str(key) != external:
                    raise KeyError(external)
            return self._index[key]
        except (KeyError, TypeError, ValueError):
            if self.dropped is not None and len(
                self.dropped.split_known([external])[0]
            ):
                raise UnknownIdError(
                    f"{self.kind} {external!r} was dropped by --core {self.core} (in Python "
                    f".core({self.core})): it has too few interactions, train with a smaller "
                    f"core to keep it"
                ) from None
            known = f"none of the {len(self):,} {self.kind}s of the data has this id"
            raise UnknownIdError(f"unknown {self.kind} {external!r}: {known}") from None

    def indices(self, externals: Iterable[Any]) -> NDArray[np.int32]:
        """The indices of several ids; the first unknown one is an `UnknownIdError`."""
        self.check_ids(externals)
        return np.fromiter((self.index(e) for e in externals), dtype=np.int32)

    def check_ids(self, externals: Any) -> None:
        """Refuse what is no list of ids: a table, a dictionary, a single value."""
        if is_table(externals):
            raise DataError(
                f"give {self.kind} ids, not {described(externals)}: take its column of ids, "
                f"such as table[{self.kind!r}]"
            )
        if not isinstance(externals, Iterable) or isinstance(
            externals, str | bytes | Mapping
        ):
            raise DataError(
                f"give one {self.kind} id or a list of {self.kind} ids, not {described(externals)}"
            )

    def checked(self, indices: Any) -> NDArray[np.int32]:
        """int32[n]: indices that exist, one or several; any other is an `UnknownIdError`."""
        rows = np.atleast_1d(np.asarray(indices))
        if rows.size and not np.issubdtype(rows.dtype, np.integer):
            raise UnknownIdError(
                f"{self.kind} indices must be whole numbers, not {rows.dtype}"
            )
        wrong = rows[(rows < 0) | (rows >= len(self))]
        if len(wrong):
            raise UnknownIdError(
                f"no {self.kind} has the index {wrong[0]}: there are {len(self)}"
            )
        return np.ascontiguousarray(rows, dtype=np.int32)

    def split_known(
        self, externals: Iterable[Any]
    ) -> tuple[NDArray[np.int32], list[Any]]:
        """The indices of those ids that occur, in order, and the ids that do not."""
        self.check_ids(externals)
        indices, unknown = [], []
        for external in externals:
            try:
                indices.append(self.index(external))
            except UnknownIdError:
                unknown.append(external)
        return np.asarray(indices, np.int32), unknown

    def external(self, index: int) -> Any:
        return self.ids[int(index)].as_py()

    def externals(self, indices: NDArray[Any] | Sequence[int]) -> NDArray[Any]:
        """External ids as an object array of the same shape; index -1 becomes None."""
        indices = np.asarray(indices)
        out = np.full(indices.shape, None, dtype=object)
        known = indices >= 0
        out[known] = self.values[indices[known]].astype(object)
        return out

    def take(self, indices: NDArray[Any]) -> Self:
        """The map of a subset, `indices` ascending."""
        return type(self)(self.ids.take(pa.array(indices)), self.kind)

    def within_core(self, indices: NDArray[Any], k: int) -> Self:
        """`take`, remembering the other ids as dropped by the `k`-core."""
        outside = np.ones(len(self), bool)
        outside[indices] = False
        if not outside.any():
            return self
        dropped = self.ids.filter(pa.array(outside))
        if self.dropped is not None:
            dropped = pa.concat_arrays([self.dropped.ids, dropped])
        before = self.from_values(dropped, self.kind)
        return replace(self.take(indices), dropped=before, core=max(k, self.core))

    @cached_property
    def digest(self) -> str:
        """A hash of the ids, for caches and provenance."""
        hasher = hashlib.sha256(str(self.ids.type).encode())
        if self.is_integer:
            hasher.update(np.ascontiguousarray(self.values).tobytes())
        else:
            hasher.update(b"".join(value.encode() + b"\0" for value in self.values))
        return hasher.hexdigest()[:16]

    def to_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """The ids as plain arrays for a file: int64, or UTF-8 bytes and their offsets."""
        if self.is_integer:
            arrays = {f"{prefix}ids": np.ascontiguousarray(self.values)}
        else:
            lengths = pc.binary_length(self.ids).to_numpy()
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            text = "".join(self.values).encode()
            arrays = {
                f"{prefix}bytes": np.frombuffer(text, np.uint8),
                f"{prefix}offsets": offsets,
            }
        if self.dropped is not None:
            arrays[f"{prefix}dropped.core"] = np.array([self.core])
            arrays |= self.dropped.to_arrays(f"{prefix}dropped.")
        return arrays

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], kind: str = "id", prefix: str = ""
    ) -> Self:
        """The inverse of `to_arrays`; ids that are not distinct and ascending are refused."""
        arrays = {
            k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)
        }
        dropped, core = None, 0
        if "dropped.core" in arrays:
            k = arrays["dropped.core"]
            if k.shape != (1,) or k.dtype != np.int64 or k[0] < 0:
                raise DataError(
                    f"the number that goes with the dropped {kind} ids is damaged"
                )
            core, dropped = int(k[0]), cls.from_arrays(arrays, kind, "dropped.")
        ids = _stored_ids(arrays, kind)
        if len(ids) > 1 and not pc.all(pc.greater(ids[1:], ids[:-1])).as_py():
            raise DataError(f"the stored {kind} ids are not distinct and in order")
        return cls(ids, kind, dropped, core)


def _stored_ids(arrays: Mapping[str, NDArray[Any]], kind: str) -> pa.Array:
    """int64 or string: the arrays of `IdMap.to_arrays` as one, nothing taken for granted."""
    forms = {name: (array.dtype.str, array.ndim) for name, array in arrays.items()}
    if forms.get("ids") == ("<i8", 1):
        return pa.array(arrays["ids"])
    if (forms.get("bytes"), forms.get("offsets")) != (("|u1", 1), ("<i8", 1)):
        raise DataError(f"the {kind} ids are missing, or not integers or text")
    text, offsets = arrays["bytes"], arrays["offsets"]
    try:
        if offsets[0] != 0 or offsets[-1] != len(text):
            raise IndexError
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
        values = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
        values.validate(full=True)
        return values.cast(pa.string())
    except (IndexError, pa.ArrowException):
        raise DataError(f"the text of the {kind} ids is cut short or damaged") from None


def uuids_as_text(values: pa.Array) -> pa.Array:
    """UUIDs as everybody writes them, other extension types as they are stored."""
    if not isinstance(values.type, pa.BaseExtensionType):
        return values
    if values.type.extension_name != "arrow.uuid":
        return values.storage
    raw = values.storage.to_pylist()
    return pa.array(
        [None if v is None else str(uuid.UUID(bytes=v)) for v in raw], pa.string()
    )


def _as_array(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return uuids_as_text(as_arrow(values))


@checks_arguments()
def read_ids(
    path: str | os.PathLike[str],
    role: str = "user",
    column: str | None = None,
    among: IdMap | None = None,
) -> list[Any]:
    """The ids in a file, in its order, each once.

    A parquet, CSV or TSV file has them in `column`, else in its only column or in the one that
    looks like the `role` ("user" or "item"); any other file has one id per line. Ids that are not
    `among` those of a model are left out and counted in a warning.
    """
    with reading(path) as file:
        values = _id_values(file, role, column)
    ids = list(dict.fromkeys(value for value in values if value not in (None, "")))
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


def _id_values(file: SourceFile, role: str, column: str | None) -> list[Any]:
    origin = file.path
    if file.is_parquet():
        with in_words(origin, "is not a whole parquet file"), file.parquet() as opened:
            names = opened.schema_arrow.names
            name = names[find_column(names, role, column, origin)]
            values = opened.read([name]).column(0)
        if pa.types.is_nested(values.type):
            raise DataError(
                f"{origin}: the column {name!r} has type {values.type}, no id"
            )
        return [
            value
            for chunk in values.chunks
            for value in uuids_as_text(chunk).to_pylist()
        ]
    if file.suffix not in (".csv", ".tsv"):
        return read_lines(file)
    table = text_table(file, "\t" if file.suffix == ".tsv" else ",")
    names = [values[0].as_py().strip() for values in table.columns]
    # A single column of text may begin with an id: only a usual name is taken for one.
    usual = ("id", *USUAL_NAMES[role].split())
    has_names = len(names) > 1 or column in names or normalise(names[0]) in usual
    position = find_column(names, role, column, origin)
    return [value.strip() for value in table.column(position).to_pylist()[has_names:]]
