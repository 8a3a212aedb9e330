"""All results under one folder: records and, for most, what each user got.

A finished run is a file of its own, `<root>/<dataset>/<experiment>/<name>.json`, with
`<name>.users.parquet` beside it, so that any number of processes can write at once. `pack` folds
them into two files per data set, which is what a repository keeps:

<root>/<dataset>.jsonl          a record per line, sorted
<root>/<dataset>.users.parquet  a row per run: its key, and the columns of `UserOutcomes` as lists

Whoever reads sees both. `python -m leporid.runs.store results` packs the folder `results`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from leporid.artifacts import atomic_path
from leporid.errors import DataError
from leporid.runs.outcomes import COLUMNS, UserOutcomes
from leporid.runs.record import RunRecord, safe_name

__all__ = ["Results"]


class Results:
    """The records and outcomes of every run under `root`, by the key of the record."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def path(self, key: str, suffix: str = ".json") -> Path:
        """Where the run `key` has, or would have, a file of its own."""
        return self.root / f"{key}{suffix}"

    def add(self, record: RunRecord, outcomes: UserOutcomes | None = None) -> Path:
        """Write a run; the record comes last, so where it is the outcomes are."""
        if outcomes is not None:
            outcomes.write(self.path(record.key, ".users.parquet"))
        return record.write(self.root)

    def get(self, key: str) -> RunRecord | None:
        """The record of a run; None where there is none."""
        # A file is removed only after it has been packed: look for the file first.
        return _read_file(self.path(key)) or self._packed(key).get(key)

    def outcomes(self, key: str) -> UserOutcomes | None:
        """What each user got in a run; None where that was not kept."""
        try:
            return UserOutcomes.read(self.path(key, ".users.parquet"))
        except DataError:
            if self.path(key).is_file():
                return None
        return _packed_outcomes(*_stamp(self._pack_path(key, ".users.parquet"))).get(key)

    def records(self, dataset: str, experiments: Iterable[str]) -> list[RunRecord]:
        """All records of some experiments on a data set, ordered by experiment and key."""
        records: list[RunRecord] = []
        for experiment in experiments:
            prefix = f"{safe_name(dataset)}/{safe_name(experiment)}/"
            runs = {key: _read_file(path) for key, path in self._files(prefix).items()}
            packed = self._packed(prefix)
            runs |= {
                key: record
                for key, record in packed.items()
                if key.startswith(prefix) and not runs.get(key)
            }
            records += [record for _, record in sorted(runs.items()) if record]
        return records

    def pack(self) -> int:
        """Fold every run that is a file of its own into the files of its data set; how many."""
        count = 0
        for folder in sorted(path for path in self.root.iterdir() if path.is_dir()):
            with FileLock(folder / ".pack.lock"):
                count += self._pack_dataset(f"{folder.name}/")
        return count

    def _pack_dataset(self, prefix: str) -> int:
        files = self._files(prefix)
        if not files:
            return 0
        users, lines = self._pack_path(prefix, ".users.parquet"), self._pack_path(prefix, ".jsonl")
        records = {**self._packed(prefix), **{k: RunRecord.read(p) for k, p in files.items()}}
        outcomes = {**_packed_outcomes(*_stamp(users)), **{k: self.outcomes(k) for k in files}}
        _write_outcomes(users, {k: o for k, o in sorted(outcomes.items()) if o is not None})
        with atomic_path(lines) as target, open(target, "w", encoding="utf-8") as file:
            for _, record in sorted(records.items()):
                values = record.to_dict()
                json.dump(values, file, sort_keys=True, separators=(",", ":"), allow_nan=False)
                file.write("\n")
        for key, path in files.items():
            path.unlink()
            self.path(key, ".users.parquet").unlink(missing_ok=True)
        return len(files)

    def _files(self, prefix: str) -> dict[str, Path]:
        """The runs that are files of their own, by key."""
        pattern = "*/*.json" if prefix.count("/") == 1 else "*.json"
        paths = (self.root / prefix).glob(pattern)
        kept = (path for path in paths if not path.name.endswith(".error.json"))
        return {path.relative_to(self.root).with_suffix("").as_posix(): path for path in kept}

    def _pack_path(self, key: str, suffix: str) -> Path:
        return self.root / f"{key.partition('/')[0]}{suffix}"

    def _packed(self, key: str) -> Mapping[str, RunRecord]:
        return _packed_records(*_stamp(self._pack_path(key, ".jsonl")))


def _read_file(path: Path) -> RunRecord | None:
    try:
        return RunRecord.read(path)
    except DataError:
        if path.is_file():
            raise
        return None


def _stamp(path: Path) -> tuple[Path, int, int]:
    """A path and what changes when the file does; -1 for a file that is not there."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return path, -1, 0
    return path, about.st_mtime_ns, about.st_ino


@lru_cache(maxsize=8)
def _packed_records(path: Path, changed: int, _: int) -> Mapping[str, RunRecord]:
    if changed < 0:
        return {}
    with open(path, encoding="utf-8") as file:
        records = [RunRecord.from_dict(json.loads(line)) for line in file]
    return {record.key: record for record in records}


@lru_cache(maxsize=8)
def _packed_outcomes(path: Path, changed: int, _: int) -> Mapping[str, UserOutcomes]:
    if changed < 0:
        return {}
    table = pq.read_table(path)
    arrays = ([row.values.to_numpy() for row in table[name]] for name in COLUMNS)
    return dict(zip(table["run"].to_pylist(), map(UserOutcomes, *arrays), strict=True))


def _write_outcomes(path: Path, outcomes: Mapping[str, UserOutcomes]) -> None:
    kind = pa.list_(pa.int32())
    columns = {c: pa.array([getattr(o, c) for o in outcomes.values()], kind) for c in COLUMNS}
    with atomic_path(path) as target:
        table = pa.table({"run": pa.array(list(outcomes), pa.string()), **columns})
        pq.write_table(table, target, compression="zstd", compression_level=19)


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        print(f"{folder}: {Results(folder).pack()} records packed")
