"""All results under one folder: records and, for most, what each user got.

A finished run is a file of its own, `<root>/<dataset>/<experiment>/<name>.json`, with
`<name>.users.parquet` beside it, so that any number of processes can write at once. `pack` folds
them into two files per data set, which is what a repository keeps:

<root>/<dataset>.jsonl          a record per line, sorted
<root>/<dataset>.users.parquet  a row per run: its key, and `HIT_COLUMNS` as lists

Whoever reads sees both. `python -m leporid.experiments.store results` packs the folder `results`.
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

from leporid.artifacts import atomic_path, write_json
from leporid.errors import DataError
from leporid.evaluation import HIT_COLUMNS, MetricTable
from leporid.experiments.record import RunRecord, safe_name

_USERS = ".users.parquet"


class Results:
    """The records and outcomes of every run under `root`, by the key of the record."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def path(self, key: str, suffix: str = ".json") -> Path:
        """Where the run `key` has, or would have, a file of its own."""
        return self.root / f"{key}{suffix}"

    def add(self, record: RunRecord, outcomes: MetricTable | None = None) -> Path:
        """Write a run; the record comes last, so where it is the outcomes are."""
        if outcomes is not None:
            outcomes.save_hits(self.path(record.key, _USERS))
        write_json(self.path(record.key), record.to_dict())
        return self.path(record.key)

    def get(self, key: str) -> RunRecord | None:
        """The record of a run; None where there is none."""
        # A file is removed only after it has been packed: look for the file first.
        return _read_file(self.path(key)) or self._packed_records(key).get(key)

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
            runs = {key: _read_file(path) for key, path in self._files(prefix).items()}
            for key, record in self._packed_records(prefix).items():
                if key.startswith(prefix):
                    runs[key] = runs.get(key) or record
            records += [record for _, record in sorted(runs.items()) if record]
        return records

    def pack(self) -> int:
        """Fold every run that is a file of its own into the files of its data set; how many."""
        count = 0
        for folder in sorted(path for path in self.root.iterdir() if path.is_dir()):
            with FileLock(folder / ".pack.lock"):
                files = self._files(f"{folder.name}/*/")
                if files:
                    self._pack(folder.name, files)
            count += len(files)
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
        for key in gone:
            self.path(key).unlink(missing_ok=True)
            self.path(key, _USERS).unlink(missing_ok=True)

    def _pack(self, dataset: str, files: Mapping[str, Path]) -> None:
        loose = {key: RunRecord.read(path) for key, path in files.items()}
        kept = {**self._packed_outcomes(dataset), **{key: self.outcomes(key) for key in files}}
        self._write(dataset, {**self._packed_records(dataset), **loose}, kept)
        for key, path in files.items():
            path.unlink()
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

    def _files(self, folder: str) -> dict[str, Path]:
        """The runs that are files of their own in a folder (or several: `*/`), by key."""
        paths = (p for p in self.root.glob(f"{folder}*.json") if not p.match("*.error.json"))
        return {path.relative_to(self.root).as_posix()[: -len(".json")]: path for path in paths}

    def _packed_records(self, key: str) -> Mapping[str, RunRecord]:
        return _read_records(*_stamp(self.path(key.partition("/")[0], ".jsonl")))

    def _packed_outcomes(self, key: str) -> Mapping[str, MetricTable]:
        return _read_outcomes(*_stamp(self.path(key.partition("/")[0], _USERS)))


def _read_file(path: Path) -> RunRecord | None:
    try:
        return RunRecord.read(path)
    except DataError:
        if path.is_file():
            raise
        return None


def _stamp(path: Path) -> tuple[Path, tuple[int, int] | None]:
    """A path, and what changes when the file does; None for a file that is not there."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return path, None
    return path, (about.st_mtime_ns, about.st_ino)


@lru_cache(maxsize=8)
def _read_records(path: Path, stamp: tuple[int, int] | None) -> Mapping[str, RunRecord]:
    lines = path.read_text(encoding="utf-8").splitlines() if stamp else []
    records = [RunRecord.from_dict(json.loads(line)) for line in lines]
    return {record.key: record for record in records}


@lru_cache(maxsize=8)
def _read_outcomes(path: Path, stamp: tuple[int, int] | None) -> Mapping[str, MetricTable]:
    if stamp is None:
        return {}
    table = pq.read_table(path)
    arrays = ([row.values.to_numpy() for row in table[name]] for name in HIT_COLUMNS)
    return dict(zip(table["run"].to_pylist(), map(MetricTable.from_hits, *arrays), strict=True))


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        print(f"{folder}: {Results(folder).pack()} records packed")
