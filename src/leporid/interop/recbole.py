"""A split as RecBole's benchmark files, so that its models train and test on the same parts."""

from __future__ import annotations

from pathlib import Path

from leporid.artifacts import atomic_path
from leporid.data import Split, write_log

BENCHMARK_LINES = "benchmark_filename: [train, valid, test]\n"
"""RecBole then reads the three files in place of `NAME.inter`, and splits nothing itself."""


def write_benchmark(split: Split, folder: str | Path, name: str | None = None) -> list[Path]:
    """Write `NAME.train.inter`, `.valid.inter`, `.test.inter` and `benchmark.yaml`.

    RecBole looks for them in a folder of the data set's name, which is the default of `name`.
    """
    folder = Path(folder)
    name = name or folder.resolve().name
    files = [
        write_log(getattr(split, part), folder / f"{name}.{part}.inter")
        for part in ("train", "valid", "test")
    ]
    with atomic_path(folder / "benchmark.yaml") as temporary:
        temporary.write_text(BENCHMARK_LINES, encoding="utf-8")
    return [*files, folder / "benchmark.yaml"]
