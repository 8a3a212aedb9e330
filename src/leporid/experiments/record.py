"""`RunRecord`: one run, everything needed to believe it and to repeat it, as one JSON object."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

from leporid._version import versions
from leporid.artifacts import read_json
from leporid.config import Config, canonical_hash
from leporid.errors import ConfigError, DataError

_READ_HISTORIES = ("dlr2", "hgn", "sasrec")
"""Models that read validation items when tested before records said who did."""
_SPEC = ("dataset", "experiment", "model", "init", "recipe", "seed", "config")


@dataclass(frozen=True, kw_only=True)
class RunRecord(Config):
    """One model, fitted once on one data set, and its results.

    As a file it lies at `<root>/<dataset>/<experiment>/<model>-<init>-<seed>-<hash>.json`.
    """

    dataset: str
    """Name of the data, for example 'ml-1m-r3'."""
    experiment: str
    """Name of the group of runs this one belongs to, for example 'baselines'."""
    model: str
    """Registry name."""
    init: str | None
    """Registry name of the initialiser; None for models without embeddings."""
    recipe: str | None
    """Name of the training recipe; None where a model has only one."""
    seed: int
    config: dict[str, Any]
    """The settings of the model, all of them."""
    metrics: dict[str, float]
    """On test, by name: `{"HR@10": 0.447, ...}`."""
    valid_metrics: dict[str, float]
    """On validation."""
    tail_metrics: dict[str, float]
    """On test, averaged over the tail users only."""
    seconds: float
    """Wall-clock time of the fit."""
    peak_memory_mb: float
    """Highest resident memory of the process during the run, in MiB."""
    device: str
    """'cpu', or the accelerator's name."""
    versions: dict[str, str]
    """Python, platform and the packages that can change a number."""
    spec_hash: str
    """A hash of what was asked for: dataset, experiment, model, init, recipe, seed, config."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Everything else: protocol, data digest, intervals, tuning budget, the cell of a grid, what
    the model has seen of its users when it was tested."""

    @classmethod
    def make(cls, **fields: Any) -> Self:
        """A record whose `versions` and `spec_hash` are computed unless they are passed."""
        fields.setdefault("versions", versions())
        if "spec_hash" not in fields:
            fields["spec_hash"] = canonical_hash({key: fields.get(key) for key in _SPEC}, 12)
        return cls.from_dict(fields)

    def validate(self) -> None:
        """Metrics must be numbers."""
        for metrics in (self.metrics, self.valid_metrics, self.tail_metrics):
            if not all(isinstance(value, int | float) for value in metrics.values()):
                raise ConfigError("the metrics of a run record must be numbers by name")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; an unknown key is an error that names it."""
        required = {f.name for f in dataclasses.fields(cls)} - {"extra"}
        if missing := sorted(required - values.keys()):
            raise DataError(f"a run record needs the fields: {', '.join(missing)}")
        try:
            return super().from_dict(values)
        except ConfigError as error:
            raise DataError(f"this is not a run record: {error}") from None

    @property
    def key(self) -> str:
        """`<dataset>/<experiment>/<model>-<init>-<seed>-<hash>`: its name among all results."""
        return record_key(self)

    @property
    def variant(self) -> str | None:
        """The name of the ablation this run belongs to; None for a plain run."""
        name: str | None = self.extra.get("cell", {}).get("variant")
        return name

    @property
    def seen(self) -> str:
        """The items its scores on test rest on: "train and validation" or "train only"."""
        before = "train and validation" if self.model in _READ_HISTORIES else "train only"
        return str(self.extra.get("seen", before))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The record of a file."""
        values = read_json(path)
        if not isinstance(values, dict):
            raise DataError(f"{path} is not a run record: it holds no JSON object")
        try:
            return cls.from_dict(values)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


def record_key(run: Any) -> str:
    """The key of a record, or of the cell that will become one: 'none' stands for no initialiser.

    Both have `dataset`, `experiment`, `model`, `init`, `seed` and `spec_hash`.
    """
    name = f"{safe_name(run.model)}-{safe_name(run.init or 'none')}-{run.seed}-{run.spec_hash}"
    return f"{safe_name(run.dataset)}/{safe_name(run.experiment)}/{name}"


def safe_name(name: str) -> str:
    """`name` with an underscore for everything that does not belong into a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".") or "unnamed"


class Meter:
    """`with Meter() as meter: ...` measures wall-clock seconds and peak resident memory."""

    seconds: float = 0.0
    peak_memory_mb: float = 0.0

    def __enter__(self) -> Self:
        # Linux lets a process reset its high-water mark; elsewhere it covers the whole process.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self.peak_memory_mb = peak_memory_mb()


def peak_memory_mb() -> float:
    """Highest resident memory of this process since it started (or since a `Meter` did), MiB.

    Linux and Windows keep that mark. Where there is none, it is what is resident now.
    """
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        if mark := re.search(r"^VmHWM:\s+(\d+) kB", status, flags=re.MULTILINE):
            return int(mark[1]) / 1024
    memory = psutil.Process().memory_info()
    return float(getattr(memory, "peak_wset", memory.rss) / 2**20)
