"""`RunRecord`: one run, everything needed to believe it and to repeat it, as one JSON file."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from leporid.artifacts import read_json, write_json
from leporid.config import canonical_hash
from leporid.errors import DataError, closest

__all__ = [
    "Meter",
    "RunRecord",
    "peak_memory_mb",
    "record_path",
    "safe_name",
    "spec_hash",
    "versions",
]

_PACKAGES = ("leporid", "numpy", "scipy", "numba", "pyarrow", "torch", "optuna")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One model, fitted once on one dataset, and what came out.

    It lies at `<root>/<dataset>/<experiment>/<model>-<init>-<seed>-<hash>.json`.
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
    """Whatever else the experiment wants to keep (protocol, data digest, tuning budget)."""

    @classmethod
    def make(cls, **fields: Any) -> Self:
        """A record with `versions` and `spec_hash` filled in where they are not given."""
        fields.setdefault("versions", versions())
        if "spec_hash" not in fields:
            keys = ("dataset", "experiment", "model", "init", "recipe", "seed", "config")
            fields["spec_hash"] = spec_hash(**{key: fields.get(key) for key in keys})
        return cls.from_dict(fields)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build from a mapping; a missing or an unknown key is an error that names it."""
        known = {f.name for f in dataclasses.fields(cls)}
        for key in values:
            if key not in known:
                guess = closest(str(key), known)
                hint = f": did you mean {guess!r}?" if guess else ""
                raise DataError(f"a run record has no field {key!r}{hint}")
        missing = sorted(known - set(values) - {"extra"})
        if missing:
            raise DataError(f"a run record needs the fields: {', '.join(missing)}")
        return cls(**dict(values))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values; `from_dict` is its inverse."""
        return dataclasses.asdict(self)

    @property
    def filename(self) -> str:
        """`<model>-<init>-<seed>-<hash>.json`, with 'none' where there is no initialiser."""
        return self.path("").name

    def path(self, root: str | Path) -> Path:
        """Where the record lies under `root` (usually `results`)."""
        return record_path(
            root, self.dataset, self.experiment, self.model, self.init, self.seed, self.spec_hash
        )

    def write(self, root: str | Path) -> Path:
        """Write the JSON file atomically under `root`; returns its path."""
        target = self.path(root)
        write_json(target, self.to_dict())
        return target

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The inverse of `write`, from the path it returned."""
        values = read_json(path)
        if not isinstance(values, dict):
            raise DataError(f"{path} is not a run record: it holds no JSON object")
        try:
            return cls.from_dict(values)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


def record_path(
    root: str | Path,
    dataset: str,
    experiment: str,
    model: str,
    init: str | None,
    seed: int,
    spec_hash: str,
) -> Path:
    """`<root>/<dataset>/<experiment>/<model>-<init>-<seed>-<hash>.json`."""
    name = f"{safe_name(model)}-{safe_name(init or 'none')}-{seed}-{spec_hash}.json"
    return Path(root) / safe_name(dataset) / safe_name(experiment) / name


def spec_hash(**spec: Any) -> str:
    """A short hash of what a run was asked to do; the same spec gives the same file name."""
    return canonical_hash(spec, length=12)


def versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that can change a number."""
    found = {
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
    }
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


class Meter:
    """`with Meter() as meter: ...` measures wall-clock seconds and peak resident memory."""

    seconds: float = 0.0
    peak_memory_mb: float = 0.0

    def __enter__(self) -> Self:
        _reset_peak()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self.peak_memory_mb = peak_memory_mb()


def _reset_peak() -> None:
    # Linux lets a process start its high-water mark anew; elsewhere it covers the whole process.
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def peak_memory_mb() -> float:
    """Highest resident memory of this process since it started (or since a `Meter` did), MiB."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        status = ""
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, flags=re.MULTILINE)
    if found:
        return int(found.group(1)) / 1024
    import resource  # only where there is no /proc: it does not exist on every platform

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def safe_name(name: str) -> str:
    """`name` with everything a file name should not hold replaced by an underscore."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".") or "unnamed"
