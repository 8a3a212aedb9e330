"""External ids stop here: inside the library everything is a contiguous int."""

import hashlib
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.data.arrays import AnyArray
from leporid.data.frames import Values, as_arrow
from leporid.errors import DataError, UnknownIdError, article
from leporid.foundation import described, is_table


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
    def from_values(cls, values: Values, kind: str = "id") -> Self:
        """Map the distinct values of a pyarrow or numpy array, or of a sequence of ids."""
        try:
            array = _as_array(values)
            is_whole = pa.types.is_integer(array.type) or pa.types.is_null(array.type)
            distinct = pc.unique(array.cast(pa.int64() if is_whole else pa.string()))
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
        """Map the ids 0 .. n-1, for matrices that come without names."""
        return cls(pa.array(np.arange(n, dtype=np.int64)), kind)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        type_of_id = "int" if self.is_integer else "str"
        return f"IdMap({len(self):,} {self.kind}s, {type_of_id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdMap) and self.ids.equals(other.ids)

    @property
    def is_integer(self) -> bool:
        return bool(pa.types.is_integer(self.ids.type))

    @cached_property
    def values(self) -> AnyArray:
        """The external ids as a numpy array (int64, or object for strings)."""
        return np.asarray(self.ids.to_numpy(zero_copy_only=False))

    @cached_property
    def _index(self) -> dict[int | str, int]:
        return {value: index for index, value in enumerate(self.ids.to_pylist())}

    def encode(self, values: Values) -> NDArray[np.int32]:
        """Return the indices of a whole column of ids, -1 where an id is unknown; '42' is 42."""
        known = self.ids
        wanted = _as_array(values)
        if known.type != wanted.type:
            known = known.cast(pa.string())
            wanted = wanted.cast(pa.string())
        positions = pc.index_in(wanted, value_set=known)
        return np.asarray(pc.fill_null(positions, -1), dtype=np.int32)

    def index(self, external: object) -> int:
        """Return the index of one id; '42' finds 42, '042' and ' 42 ' do not.

        An unknown id is an `UnknownIdError`, and several ids in place of one a `DataError`.
        """
        external = self._single(external)
        try:
            return self._index[self._key(external)]
        except (KeyError, TypeError, ValueError):
            pass
        if self.dropped is not None and self.dropped._has(external):
            raise UnknownIdError(
                f"{self.kind} {external!r} was dropped by --core {self.core} (in Python "
                f".core({self.core})): it has too few interactions, train with a smaller "
                f"core to keep it"
            )
        raise UnknownIdError(
            f"unknown {self.kind} {external!r}: none of the {len(self):,} {self.kind}s of the "
            f"data has this id"
        )

    def _has(self, external: object) -> bool:
        try:
            self.index(external)
        except UnknownIdError:
            return False
        return True

    def _single(self, external: object) -> object:
        """Return a single id as Python has it."""
        if isinstance(external, np.generic):
            return external.item()
        if isinstance(external, np.ndarray) and external.ndim == 0:
            return external.item()
        is_several = isinstance(external, Collection)
        if is_table(external) or (is_several and not isinstance(external, str | bytes)):
            raise DataError(f"give one {self.kind} id, not {described(external)}")
        if isinstance(external, pa.Scalar):
            return external.as_py()
        return external

    def _key(self, external: Any) -> int | str:
        """Return an id as this map has it; a `KeyError` where text is no plain integer."""
        if not self.is_integer:
            return str(external)
        if isinstance(external, str) and str(int(external)) != external:
            raise KeyError(external)
        return int(external) if isinstance(external, str) else external

    def indices(self, externals: Iterable[object]) -> NDArray[np.int32]:
        """Return the indices of several ids; the first unknown one is an `UnknownIdError`."""
        self.check_ids(externals)
        return np.fromiter(map(self.index, externals), dtype=np.int32)

    def check_ids(self, externals: object) -> None:
        """Refuse what is no list of ids: a table, a dictionary, a single value."""
        if is_table(externals):
            raise DataError(
                f"give {self.kind} ids, not {described(externals)}: take its column of ids, "
                f"such as table[{self.kind!r}]"
            )
        is_single = isinstance(externals, str | bytes | Mapping)
        if is_single or not isinstance(externals, Iterable):
            raise DataError(
                f"give one {self.kind} id or a list of {self.kind} ids, not {described(externals)}"
            )

    def split_known(
        self,
        externals: Iterable[Any],
    ) -> tuple[NDArray[np.int32], list[Any]]:
        """Return the indices of those ids that occur, in order, and the ids that do not."""
        self.check_ids(externals)
        indices = []
        unknown = []
        for external in externals:
            try:
                indices.append(self.index(external))
            except UnknownIdError:
                unknown.append(external)
        return np.asarray(indices, np.int32), unknown

    def external(self, index: int) -> Any:
        return self.ids[int(index)].as_py()

    def externals(self, indices: AnyArray | Sequence[int]) -> AnyArray:
        """Return external ids as an object array of the same shape; index -1 becomes None."""
        indices = np.asarray(indices)
        externals = np.full(indices.shape, None, dtype=object)
        is_known = indices >= 0
        externals[is_known] = self.values[indices[is_known]].astype(object)
        return externals

    def take(self, indices: AnyArray) -> Self:
        """Return the map of a subset, `indices` ascending."""
        return type(self)(self.ids.take(pa.array(indices)), self.kind)

    def within_core(self, indices: AnyArray, k: int) -> Self:
        """Return the map of a subset that remembers the other ids as dropped by the `k`-core."""
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

    def to_arrays(self, prefix: str = "") -> dict[str, AnyArray]:
        """Return the ids as plain arrays for a file: int64, or UTF-8 bytes and their offsets."""
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
        cls,
        arrays: Mapping[str, AnyArray],
        kind: str = "id",
        prefix: str = "",
    ) -> Self:
        """Read what `to_arrays` wrote; ids that are not distinct and ascending are refused."""
        arrays = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        dropped = None
        core = 0
        if "dropped.core" in arrays:
            stored = arrays["dropped.core"]
            if stored.shape != (1,) or stored.dtype != np.int64 or stored[0] < 0:
                raise DataError(
                    f"the number that goes with the dropped {kind} ids is damaged"
                )
            core = int(stored[0])
            dropped = cls.from_arrays(arrays, kind, "dropped.")
        ids = _stored_ids(arrays, kind)
        if len(ids) > 1 and not pc.all(pc.greater(ids[1:], ids[:-1])).as_py():
            raise DataError(f"the stored {kind} ids are not distinct and in order")
        return cls(ids, kind, dropped, core)


def _stored_ids(arrays: Mapping[str, AnyArray], kind: str) -> pa.Array:
    """Return the arrays of `IdMap.to_arrays` as int64 or text, with nothing taken for granted."""
    forms = {name: (array.dtype.str, array.ndim) for name, array in arrays.items()}
    if forms.get("ids") == ("<i8", 1):
        return pa.array(arrays["ids"])
    if forms.get("bytes") != ("|u1", 1) or forms.get("offsets") != ("<i8", 1):
        raise DataError(f"the {kind} ids are missing, or not integers or text")
    text = arrays["bytes"]
    offsets = arrays["offsets"]
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
    """Return UUIDs as everybody writes them, and other extension types as they are stored."""
    if not isinstance(values.type, pa.BaseExtensionType):
        return values
    if values.type.extension_name != "arrow.uuid":
        return values.storage
    texts = [
        None if value is None else str(uuid.UUID(bytes=value))
        for value in values.storage.to_pylist()
    ]
    return pa.array(texts, pa.string())


def _as_array(values: Values) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return uuids_as_text(as_arrow(values))
