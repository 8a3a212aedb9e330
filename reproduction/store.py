"""`PackedResults`: the records of a repository, two files per data set.

Grids write a file per run (`leporid.experiments.Results`). `pack` folds them into

<root>/<dataset>.jsonl          a record per line, sorted
<root>/<dataset>.users.parquet  a row per run: its key, and `HIT_COLUMNS` as lists

Whoever reads sees both. `python -m reproduction pack` packs the folder `results`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from leporid.artifacts import atomic_path
from leporid.errors import DataError
from leporid.evaluation import HIT_COLUMNS, MetricTable
from leporid.experiments import Results, RunRecord, safe_name
from reproduction.old_records import read_record

_USERS = ".users.parquet"


class PackedResults(Results):
    """The records and outcomes of every run under `root`, in files of their own or packed."""

    def get(self, key: str) -> RunRecord | None:
        """The record of a run; None where there is none."""
        # A file is removed only after it has been packed: look for the file first.
        try:
            return super().get(key) or self._packed_records(key).get(key)
        except DataError:
            if self.path(key).is_file():
                raise
        return self._packed_records(key).get(key)

    def outcomes(self, key: str) -> MetricTable | None:
        """What each user got in a run; None where that was not kept."""
        try:
            return MetricTable.load_hits(self.path(key, _USERS))
        except DataError:
            if self.path(key).is_file():
                return None
        return self._packed_outcomes(key).get(key)

    def records(self, dataset: str, experiments: Iterable[str]) -> list[RunRecord]:
        """All records of some experiments on a data set, ordered by experiment and key."""
        records: list[RunRecord] = []
        for experiment in experiments:
            prefix = f"{safe_name(dataset)}/{safe_name(experiment)}/"
            keys = set(self._keys(prefix))
            keys |= {key for key in self._packed_records(prefix) if key.startswith(prefix)}
            records += [record for key in sorted(keys) if (record := self.get(key))]
        return records

    def pack(self) -> int:
        """Fold every run that is a file of its own into the files of its data set; how many."""
        count = 0
        for folder in sorted(path for path in self.root.iterdir() if path.is_dir()):
            with FileLock(folder / ".pack.lock"):
                keys = self._keys(f"{folder.name}/*/")
                if keys:
                    self._pack(folder.name, keys)
            count += len(keys)
        return count

    def remove(self, keys: Iterable[str]) -> None:
        """Forget some runs, packed or not; a key without a run is no error."""
        gone = set(keys)
        for dataset in {key.partition("/")[0] for key in gone}:
            (self.root / dataset).mkdir(parents=True, exist_ok=True)
            with FileLock(self.root / dataset / ".pack.lock"):
                records, outcomes = self._packed_records(dataset), self._packed_outcomes(dataset)
                if gone & records.keys():
                    kept = {key: run for key, run in records.items() if key not in gone}
                    self._write(dataset, kept, {key: outcomes.get(key) for key in kept})
        self._unlink(gone)

    def _pack(self, dataset: str, keys: Iterable[str]) -> None:
        loose = {key: RunRecord.read(self.path(key)) for key in keys}
        kept = {**self._packed_outcomes(dataset), **{key: self.outcomes(key) for key in keys}}
        self._write(dataset, {**self._packed_records(dataset), **loose}, kept)
        self._unlink(keys)

    def _keys(self, folder: str) -> list[str]:
        """The runs that are files of their own in a folder (or several: `*/`), in order."""
        paths = (p for p in self.root.glob(f"{folder}*.json") if not p.match("*.error.json"))
        return sorted(path.relative_to(self.root).as_posix()[: -len(".json")] for path in paths)

    def _unlink(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.path(key).unlink(missing_ok=True)
            self.path(key, _USERS).unlink(missing_ok=True)

    def _write(
        self,
        dataset: str,
        records: Mapping[str, RunRecord],
        kept: Mapping[str, MetricTable | None],
    ) -> None:
        """The two files of a data set."""
        outcomes = {key: found for key, found in sorted(kept.items()) if found}
        hits = [table.hit_columns() for table in outcomes.values()]
        columns = {name: [own[name] for own in hits] for name in HIT_COLUMNS}
        kinds = [("run", pa.string()), *((name, pa.list_(pa.int32())) for name in HIT_COLUMNS)]
        with atomic_path(self.path(dataset, _USERS)) as target:
            table = pa.table({"run": list(outcomes), **columns}, schema=pa.schema(kinds))
            pq.write_table(table, target, compression="zstd", compression_level=19)
        lines = [
            json.dumps(record.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
            for _, record in sorted(records.items())
        ]
        with atomic_path(self.path(dataset, ".jsonl")) as target:
            target.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def _packed_records(self, key: str) -> Mapping[str, RunRecord]:
        return _read_records(*_stamp(self.path(key.partition("/")[0], ".jsonl")))

    def _packed_outcomes(self, key: str) -> Mapping[str, MetricTable]:
        dataset = key.partition("/")[0]
        records = _stamp(self.path(dataset, ".jsonl"))
        return _read_outcomes(*_stamp(self.path(dataset, _USERS)), *records)


def _stamp(path: Path) -> tuple[Path, tuple[int, int] | None]:
    """A path, and what changes when the file does; None for a file that is not there."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return path, None
    return path, (about.st_mtime_ns, about.st_ino)


@lru_cache(maxsize=8)
def _read_filed(path: Path, stamp: tuple[int, int] | None) -> Mapping[str, RunRecord]:
    """The packed records of a data set by the keys that its two files have for them."""
    lines = path.read_text(encoding="utf-8").splitlines() if stamp else []
    return dict(read_record(json.loads(line)) for line in lines)


@lru_cache(maxsize=8)
def _read_records(path: Path, stamp: tuple[int, int] | None) -> Mapping[str, RunRecord]:
    return {record.key: record for record in _read_filed(path, stamp).values()}


@lru_cache(maxsize=8)
def _read_outcomes(
    path: Path,
    stamp: tuple[int, int] | None,
    records: Path,
    records_stamp: tuple[int, int] | None,
) -> Mapping[str, MetricTable]:
    if stamp is None:
        return {}
    filed = _read_filed(records, records_stamp)
    table = pq.read_table(path)
    arrays = ([row.values.to_numpy() for row in table[name]] for name in HIT_COLUMNS)
    keys = (filed[key].key if key in filed else key for key in table["run"].to_pylist())
    return dict(zip(keys, map(MetricTable.from_hits, *arrays), strict=True))
