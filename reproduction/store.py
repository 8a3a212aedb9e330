"""`PackedResults`: the records and the outcomes per user of a repository.

Grids write two files per run (`leporid.runs.Results`). `pack` folds them into

<root>/<dataset>.jsonl                          a record per line, sorted
<root>/<dataset>/<experiment>.users.parquet     a row per run: its key, and `HIT_COLUMNS` as lists
<root>/<dataset>/<experiment>+2.users.parquet   runs of the experiment that were packed later
<root>/<dataset>.users.parquet                  outcomes packed before each experiment had its file

Git keeps every version of a binary file whole, so a file of outcomes is written once and never
changed (`reproduction.check_outcomes`). It is deleted when later files supersede all its runs.
Readers see loose and packed runs alike. `python -m reproduction pack` packs the folder `results`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from leporid.errors import DataError
from leporid.evaluation import HIT_COLUMNS, MetricTable
from leporid.foundation import atomic_path
from leporid.runs import Results, RunRecord, safe_name
from reproduction.old_records import read_record

_USERS = ".users.parquet"
_LATER = re.compile(r"\+(\d+)\.users\.parquet$")
"""The end of the name of a later file of an experiment; no experiment's own name holds a "+"."""

Outcomes = Mapping[str, MetricTable | None]
"""By key; None where a run that replaced another kept no outcomes."""


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
        return self._packed_outcomes(key) if key in self._packed_records(key) else None

    def records(self, dataset: str, experiments: Iterable[str]) -> list[RunRecord]:
        """All records of some experiments on a data set, ordered by experiment and key."""
        records: list[RunRecord] = []
        for experiment in experiments:
            prefix = f"{safe_name(dataset)}/{safe_name(experiment)}/"
            keys = set(self._keys(prefix))
            keys |= {key for key in self._packed_records(prefix) if key.startswith(prefix)}
            records += [record for key in sorted(keys) if (record := self.get(key))]
        return records

    def all_records(self, dataset: str) -> list[RunRecord]:
        """All records of a data set."""
        folder = self.root / safe_name(dataset)
        packed = {key.split("/")[1] for key in self._packed_records(dataset)}
        loose = {path.name for path in folder.glob("*/")} if folder.is_dir() else set()
        return self.records(dataset, sorted(packed | loose))

    def pack(self) -> int:
        """Fold every run that is a file of its own into the packed files; returns how many."""
        count = 0
        for folder in sorted(path for path in self.root.iterdir() if path.is_dir()):
            with FileLock(folder / ".pack.lock"):
                keys = self._keys(f"{folder.name}/*/")
                if keys:
                    self._pack(folder.name, keys)
                self._delete_superseded(folder.name)
            count += len(keys)
        return count

    def remove(self, keys: Iterable[str]) -> None:
        """Forget some runs, packed or not; a key without a run is no error.

        Their packed outcomes are not read any more; the next `pack` deletes a file of outcomes
        that nobody reads. So the runs that replace them get a file of another name.
        """
        gone = set(keys)
        for dataset in {key.partition("/")[0] for key in gone}:
            (self.root / dataset).mkdir(parents=True, exist_ok=True)
            with FileLock(self.root / dataset / ".pack.lock"):
                records = self._packed_records(dataset)
                if gone & records.keys():
                    kept = {key: run for key, run in records.items() if key not in gone}
                    self._write_records(dataset, kept)
        self._unlink(gone)

    def _pack(self, dataset: str, keys: Iterable[str]) -> None:
        loose = {key: RunRecord.read(self.path(key)) for key in keys}
        new: dict[str, dict[str, MetricTable | None]] = {}
        for key in keys:
            found = self.outcomes(key)
            if not _same(found, self._packed_outcomes(key)):
                new.setdefault(key.rpartition("/")[0], {})[key] = found
        for experiment, outcomes in new.items():
            _write_outcomes(self._next_file(experiment), outcomes)
        self._write_records(dataset, {**self._packed_records(dataset), **loose})
        self._unlink(keys)

    def _keys(self, folder: str) -> list[str]:
        """The runs that are files of their own in a folder (or several: `*/`), in order."""
        paths = (p for p in self.root.glob(f"{folder}*.json") if not p.match("*.error.json"))
        return sorted(path.relative_to(self.root).as_posix()[: -len(".json")] for path in paths)

    def _unlink(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.path(key).unlink(missing_ok=True)
            self.path(key, _USERS).unlink(missing_ok=True)

    def _write_records(self, dataset: str, records: Mapping[str, RunRecord]) -> None:
        """Write the records of a data set; a line that says the same as before stays as it is.

        Outcomes are filed under the key that a record had when it was packed. Writing an old record
        in its present form would lose that key.
        """
        path = self.path(dataset, ".jsonl")
        stored = _read_lines(path, _stamp(path)) if path.is_file() else {}
        lines = []
        for key, record in sorted(records.items()):
            line, before = stored.get(key, ("", None))
            if record != before:
                values = record.to_dict()
                line = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
            lines.append(line)
        with atomic_path(path) as target:
            target.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def _packed_records(self, key: str) -> Mapping[str, RunRecord]:
        path = self.path(key.partition("/")[0], ".jsonl")
        return _read_records(path, _stamp(path)) if path.is_file() else {}

    def _packed_outcomes(self, key: str) -> MetricTable | None:
        """What the newest packed file that has the run says of it."""
        try:
            return self._newest_outcomes(key)
        except FileNotFoundError:
            # Another process deleted a file that later ones supersede: those are there now.
            return self._newest_outcomes(key)

    def _newest_outcomes(self, key: str) -> MetricTable | None:
        common = self.path(key.partition("/")[0], _USERS)
        own = self._files(key.rpartition("/")[0])
        for path in [*reversed(own), *_existing(common)]:
            outcomes = self._outcomes_in(path)
            if key in outcomes:
                return outcomes[key]
        return None

    def _outcomes_in(self, path: Path) -> Outcomes:
        """The outcomes of a file by the keys that their records have today."""
        dataset = path.relative_to(self.root).parts[0].removesuffix(_USERS)
        lines = self.path(dataset, ".jsonl")
        filed = _read_filed(lines, _stamp(lines)) if lines.is_file() else {}
        return {
            filed[key].key if key in filed else key: outcomes
            for key, outcomes in _read_outcomes(path, _stamp(path)).items()
        }

    def _files(self, experiment: str) -> list[Path]:
        """The files of outcomes of `<dataset>/<experiment>`, oldest first."""
        first = self.path(experiment, _USERS)
        later = first.parent.glob(f"{first.name.removesuffix(_USERS)}+*{_USERS}")
        return [*_existing(first), *sorted(later, key=_number)]

    def _next_file(self, experiment: str) -> Path:
        """Where the next outcomes of an experiment go: a name that no file of it has."""
        files = self._files(experiment)
        return self.path(experiment, f"+{_number(files[-1]) + 1}{_USERS}" if files else _USERS)

    def _delete_superseded(self, dataset: str) -> None:
        """Delete files of outcomes whose runs are all gone, or in later files."""
        unseen = set(self._packed_records(dataset))
        own = sorted((self.root / dataset).glob(f"*{_USERS}"), key=_number, reverse=True)
        for path in [*own, *_existing(self.path(dataset, _USERS))]:
            held = self._outcomes_in(path).keys()
            if not held & unseen:
                path.unlink()
            unseen -= held


def _existing(path: Path) -> list[Path]:
    return [path] if path.is_file() else []


def _number(path: Path) -> int:
    """1 for the first file of an experiment, then 2 and so on."""
    later = _LATER.search(path.name)
    return int(later[1]) if later else 1


def _same(first: MetricTable | None, second: MetricTable | None) -> bool:
    """Whether two runs have the same outcomes, or neither has any."""
    if first is None or second is None:
        return first is second
    one, other = first.hit_columns(), second.hit_columns()
    return all(np.array_equal(one[name], other[name]) for name in HIT_COLUMNS)


def _write_outcomes(path: Path, outcomes: Outcomes) -> None:
    """A row per run; lists are null where a run kept no outcomes."""
    nothing = dict.fromkeys(HIT_COLUMNS)
    rows = [
        {"run": key, **(nothing if found is None else found.hit_columns())}
        for key, found in sorted(outcomes.items())
    ]
    kinds = [("run", pa.string()), *((name, pa.list_(pa.int32())) for name in HIT_COLUMNS)]
    table = pa.Table.from_pylist(rows, schema=pa.schema(kinds))
    with atomic_path(path) as target:
        pq.write_table(table, target, compression="zstd", compression_level=19)


def _stamp(path: Path) -> tuple[int, int]:
    """What changes when the file does."""
    about = path.stat()
    return about.st_mtime_ns, about.st_ino


@lru_cache(maxsize=8)
def _read_filed(path: Path, stamp: tuple[int, int]) -> Mapping[str, RunRecord]:
    """The packed records of a data set by the keys that its two files have for them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(read_record(json.loads(line)) for line in lines)


@lru_cache(maxsize=8)
def _read_lines(path: Path, stamp: tuple[int, int]) -> Mapping[str, tuple[str, RunRecord]]:
    """The lines of a data set and the records they hold, by the present keys."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = ((line, read_record(json.loads(line))[1]) for line in lines)
    return {record.key: (line, record) for line, record in pairs}


@lru_cache(maxsize=8)
def _read_records(path: Path, stamp: tuple[int, int]) -> Mapping[str, RunRecord]:
    return {record.key: record for record in _read_filed(path, stamp).values()}


@lru_cache(maxsize=64)
def _read_outcomes(path: Path, stamp: tuple[int, int]) -> Outcomes:
    table = pq.read_table(path)
    columns = [table[name] for name in HIT_COLUMNS]
    found: dict[str, MetricTable | None] = {}
    for key, *lists in zip(table["run"].to_pylist(), *columns, strict=True):
        arrays = [own.values.to_numpy() for own in lists if own.is_valid]
        found[key] = MetricTable.from_hits(*arrays) if arrays else None
    return found
